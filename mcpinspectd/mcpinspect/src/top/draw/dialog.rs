//! What is shown in front of the view until a key is pressed.

use mcpinspect_core::model::ContainmentAction;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::super::measure::wrap_words;
use super::super::model::{Dialog, State};
use super::super::tables;
use super::Palette;

const HELP: [&str; 15] = [
    "Up Down j k   move; also PgUp, PgDn, Home, End",
    "Enter         open a server, session, message,",
    "              call or finding",
    "Esc           back; a filter goes first",
    "Tab 1 2 3     servers, calls in flight, findings",
    "/             filter; Enter keeps it, Esc clears it",
    "s r           sort by the next column; reverse",
    "f             freeze a server, or let it run again",
    "q Ctrl-C      quit",
    "",
    "WAIT: calls without an answer. MSG/S, ERR, P99: of",
    "the last minute. A bar: the slowest answer of a",
    "second. FOUND: findings since the daemon started.",
    "",
    "Any key closes this.",
];

/// Draws it in the middle of the screen.
pub fn draw(frame: &mut Frame<'_>, dialog: &Dialog, state: &State, palette: Palette) {
    const WIDEST: u16 = 56;
    let area = frame.area();
    let width = area.width.min(WIDEST);
    let inside = usize::from(width.saturating_sub(2));
    let (title, lines) = match dialog {
        Dialog::Help => (" Keys ", HELP.map(str::to_owned).to_vec()),
        Dialog::Contain(server_key, action) => {
            let name = tables::name(&server_key.0);
            let mut lines = match action {
                ContainmentAction::Thaw => vec![format!("Let {name} run again?")],
                _ => vec![
                    format!("Freeze {name}?"),
                    String::new(),
                    "All its processes are stopped until it is thawed. Its client keeps running, and waits for answers."
                        .to_owned(),
                ],
            };
            // The daemon acts on a name.
            let named = state.servers().iter();
            let users = named
                .filter(|server| server.row.server_id == server_key.0)
                .count();
            if users > 1 {
                lines.push(format!(
                    "This concerns the servers of this name of all {users} users."
                ));
            }
            let question = ["".to_owned(), "y: yes   any other key: no".to_owned()];
            (" Confirm ", lines.into_iter().chain(question).collect())
        }
    };
    let lines = lines.iter().flat_map(|line| wrap_words(line, inside));
    let lines: Vec<Line<'_>> = lines.map(Line::from).collect();
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let dialog_area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered().title(title).border_style(palette.title());
    frame.render_widget(Clear, dialog_area);
    frame.render_widget(Paragraph::new(lines).block(block), dialog_area);
}
