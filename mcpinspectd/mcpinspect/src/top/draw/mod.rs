//! The screen: a title, what the view is, the view, and a line about keys.
//!
//! All texts that come from servers were made safe when they became rows and lines. If there is little room,
//! columns go first, then the lists below the first one.

mod dialog;
mod list;
mod palette;
#[cfg(test)]
mod tests;
mod text;

use mcpinspect_core::text::escape::printable;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::measure::wrap_words;
use super::model::{Daemon, Loadable, SessionView, State, Tab, View};
use super::table::{Table, Tone};
use super::tables;

pub use palette::Palette;

/// Below this, nothing can be shown.
const LEAST: (u16, u16) = (20, 5);

/// Rows from which on the first list has others below it.
const ROOM_FOR_MORE: u16 = 14;

/// Characters of a sentence about what is wrong.
const PROBLEM: usize = 400;

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("{}x{} is too small", area.width, area.height);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let problems = problems(state, area.width);
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(u16::try_from(problems.len()).unwrap_or(u16::MAX)),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [title, location, warning, body, footer] = Layout::vertical(rows).areas(area);
    frame.render_widget(title_line(state, palette, title.width), title);
    frame.render_widget(location_line(state, palette), location);
    let warnings = problems.into_iter().map(Line::from);
    let style = palette.style(Tone::Warning);
    frame.render_widget(
        Paragraph::new(warnings.collect::<Vec<_>>()).style(style),
        warning,
    );
    view(frame, state, palette, body);
    frame.render_widget(footer_line(state, palette), footer);
    if let Some(dialog) = &state.dialog {
        dialog::draw(frame, dialog, state, palette);
    }
}

fn problems(state: &State, width: u16) -> Vec<String> {
    const MOST: usize = 6;
    let problems = state.problems();
    let shown = problems.iter().map(|problem| printable(problem, PROBLEM));
    let lines = shown.flat_map(|problem| wrap_words(&problem, usize::from(width)));
    lines.take(MOST).collect()
}

fn title_line<'a>(state: &State, palette: Palette, width: u16) -> Paragraph<'a> {
    let time = state.now.to_string();
    let time = time.get(11..19).unwrap_or_default().to_owned();
    let Some(daemon) = state.running() else {
        let word = match state.daemon {
            None => "mcpinspect top: looking",
            Some(_) => "mcpinspect top",
        };
        return Paragraph::new(Line::from(vec![
            Span::styled(word, palette.title()),
            Span::raw(format!("  {time}")),
        ]));
    };
    let Daemon {
        version,
        state: word,
        servers,
        sessions,
        bytes_lost,
        ..
    } = daemon;
    let mut spans = vec![
        Span::styled(
            format!("mcpinspectd {}", printable(version, 24)),
            palette.title(),
        ),
        Span::styled(
            format!(" {}", printable(word, 16)),
            palette.style(match word.as_str() {
                "watching" => Tone::Good,
                _ => Tone::Warning,
            }),
        ),
    ];
    let counts = [
        format!("{} servers", servers.len()),
        format!("{} sessions", sessions.len()),
        format!("{} in flight", state.traffic.calls().count()),
        format!("{} findings", state.findings.len()),
    ];
    let mut used: usize = spans.iter().map(Span::width).sum();
    for text in counts {
        used += text.len() + 2;
        if used + time.len() + 2 > usize::from(width) {
            break;
        }
        spans.push(Span::raw(format!("  {text}")));
    }
    if *bytes_lost > 0 {
        let lost = format!("  {bytes_lost} bytes lost");
        spans.push(Span::styled(lost, palette.style(Tone::Bad)));
    }
    if state.is_sampled {
        spans.push(Span::styled("  sampled", palette.style(Tone::Warning)));
    }
    spans.push(Span::styled(format!("  {time}"), palette.style(Tone::Dim)));
    Paragraph::new(Line::from(spans))
}

/// The tabs, or the path to what was opened.
fn location_line<'a>(state: &State, palette: Palette) -> Paragraph<'a> {
    let mut spans = Vec::new();
    for (number, tab) in Tab::ALL.into_iter().enumerate() {
        let is_here = tab == state.tab;
        if !is_here && !state.opened.is_empty() {
            continue;
        }
        let style = match is_here {
            true => palette.here(),
            false => palette.style(Tone::Dim),
        };
        spans.push(Span::styled(
            format!(" {} {} ", number + 1, tab.title()),
            style,
        ));
        spans.push(Span::raw(" "));
    }
    for view in &state.opened {
        let name = match view {
            View::Server(view) => tables::name(&view.server_key.0),
            View::Session(view) => format!("session {}", tables::name(&view.session)),
            View::Text(view) => view.title.clone(),
        };
        spans.push(Span::raw(format!("› {name} ")));
    }
    Paragraph::new(Line::from(spans))
}

fn view(frame: &mut Frame<'_>, state: &State, palette: Palette, area: Rect) {
    let list = state.list();
    let shown = tables::current(state);
    match (state.opened.last(), shown, list) {
        (Some(View::Text(view)), ..) => text::draw(frame, view, palette, area),
        (None, Some(table), Some(list)) if state.tab == Tab::Servers => {
            let [first, calls, findings] = below(area, &table);
            list::draw(frame, &table, Some(list), nothing(state), palette, first);
            for (tab, area) in [(Tab::Calls, calls), (Tab::Findings, findings)] {
                if area.height > 1 {
                    let table = tables::of_tab(state, tab);
                    let title = format!("{}: {}", tab.title(), table.rows.len());
                    titled(frame, &title, &table, palette, area);
                }
            }
        }
        (Some(View::Server(view)), Some(table), Some(list)) => {
            let calls = tables::tools(view);
            let needed = u16::try_from(calls.rows.len()).unwrap_or(u16::MAX);
            let height = match area.height {
                ROOM_FOR_MORE.. => needed.saturating_add(2).min(area.height / 2),
                _ => 0,
            };
            let rows = [Constraint::Min(1), Constraint::Length(height)];
            let [first, second] = Layout::vertical(rows).areas(area);
            let empty = placeholder(&view.content, "no recorded sessions of this server");
            list::draw(frame, &table, Some(list), empty, palette, first);
            if height > 2 {
                titled(
                    frame,
                    "Calls since recording began",
                    &calls,
                    palette,
                    second,
                );
            }
        }
        (Some(View::Session(view)), Some(table), Some(list)) => {
            list::draw(
                frame,
                &table,
                Some(list),
                session_empty(view),
                palette,
                area,
            );
        }
        (_, Some(table), Some(list)) => {
            list::draw(frame, &table, Some(list), nothing(state), palette, area);
        }
        _ => {}
    }
}

/// The first list, and two below it if there is room.
fn below(area: Rect, first: &Table) -> [Rect; 3] {
    if area.height < ROOM_FOR_MORE {
        return [area, Rect::default(), Rect::default()];
    }
    // The first one gets what it needs, and at least half of the room.
    let needed = u16::try_from(first.rows.len() + 2).unwrap_or(u16::MAX);
    let rest = area.height - needed.clamp(area.height / 2, area.height - 6);
    let rows = [
        Constraint::Min(1),
        Constraint::Length(rest / 2),
        Constraint::Length(rest - rest / 2),
    ];
    Layout::vertical(rows).areas(area)
}

fn titled(frame: &mut Frame<'_>, title: &str, table: &Table, palette: Palette, area: Rect) {
    let rows = [Constraint::Length(1), Constraint::Min(0)];
    let [head, body] = Layout::vertical(rows).areas(area);
    let head_line = Line::styled(title.to_owned(), palette.title());
    frame.render_widget(Paragraph::new(head_line), head);
    list::draw(frame, table, None, "none", palette, body);
}

/// What is shown instead of missing rows.
fn nothing(state: &State) -> &'static str {
    match (&state.daemon, state.tab) {
        (None, _) => "looking …",
        (Some(Err(_)), _) => "",
        (Some(Ok(_)), Tab::Servers) => {
            "none of your servers has been seen since the daemon started"
        }
        (Some(Ok(_)), Tab::Calls) => "no call is in flight",
        (Some(Ok(_)), Tab::Findings) => "nothing was found",
    }
}

fn session_empty(view: &SessionView) -> &str {
    match (&view.problem, view.has_content) {
        (Some(problem), _) => problem,
        (None, true) => "no recorded messages of this session",
        (None, false) => "looking …",
    }
}

fn placeholder<'a, T>(content: &'a Loadable<T>, none: &'a str) -> &'a str {
    match content {
        Loadable::Loading => "looking …",
        Loadable::Failed(problem) => problem,
        Loadable::Ready(_) => none,
    }
}

fn footer_line<'a>(state: &State, palette: Palette) -> Paragraph<'a> {
    if let Some(list) = state.list()
        && (list.is_editing || !list.filter.is_empty())
    {
        let text = match list.is_editing {
            true => format!("/{}█  Enter keeps it, Esc clears it", list.filter),
            false => format!("/{}  Esc clears it, / changes it", list.filter),
        };
        return Paragraph::new(Line::from(text));
    }
    if let Some(status_line) = &state.status_line {
        let line = Line::styled(
            printable(&status_line.text, PROBLEM),
            palette.style(status_line.tone),
        );
        return Paragraph::new(line);
    }
    let keys = match state.opened.last() {
        None => "q quit  ? help  Enter open  / filter  s sort  r reverse  f freeze  Tab next list",
        Some(View::Text(_)) => "Esc back  ↑↓ PgUp PgDn scroll  q quit",
        Some(_) => "Esc back  Enter open  / filter  s sort  r reverse  f freeze  q quit  ? help",
    };
    Paragraph::new(Line::styled(keys, palette.style(Tone::Dim))).alignment(Alignment::Left)
}
