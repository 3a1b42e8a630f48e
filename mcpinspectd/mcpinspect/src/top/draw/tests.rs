//! Every view at several sizes, with what it shows and with what it must not.

use mcpinspect_core::text::escape::is_hidden;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::Color;

use super::super::model::{Answer, ViewRequest};
use super::super::testing::{
    HOSTILE, NOW, answer, calls, example, hostile_reading, request, sessions, snapshot, state_of,
};
use super::super::update::{Input, update};
use super::*;

/// Presses keys, and answers their requests.
fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            key => KeyCode::Char(key),
        };
        for view_request in update(state, Input::Key(KeyEvent::from(code))) {
            let result = answer_to(view_request);
            update(state, Input::Answer(result));
        }
    }
}

fn answer_to(view_request: ViewRequest) -> Answer {
    match view_request {
        ViewRequest::Server(server_key) => Answer::Server {
            server_key,
            result: Ok((sessions(), calls())),
        },
        ViewRequest::Messages { session, before } => {
            let mut late = answer("s1", 4, 3, "2", 12_000_000_000, NOW);
            late.correlation = Some("late".to_owned());
            late.is_error = true;
            let result = Ok(vec![
                late,
                request("s1", 3, "2", NOW),
                answer("s1", 2, 1, "1", 2_500_000, NOW),
                request("s1", 1, "1", NOW),
            ]);
            Answer::Messages {
                session,
                before,
                result,
            }
        }
        ViewRequest::Message(number) => {
            let mut message = request("s1", 1, "1", NOW);
            let hostile = serde_json::to_string(HOSTILE).unwrap();
            let json = format!(
                r#"{{"id":1,"method":"tools/call","params":{{"x":{hostile},"y":"{}"}}}}"#,
                "long ".repeat(40)
            );
            message.message = serde_json::from_str(&json).unwrap();
            Answer::Message {
                number,
                result: Ok(Some(Box::new(message))),
            }
        }
        ViewRequest::Event(id) => Answer::Event {
            id,
            result: Ok(r#"{"type":"mcp_detection","detection":{"severity":"high"}}"#.to_owned()),
        },
        ViewRequest::Contain(..) => Answer::Contained(Err(
            "not permitted: polkit does not allow org.mcpinspect1.contain".to_owned(),
        )),
    }
}

fn screen(state: &State, (width, height): (u16, u16), has_colour: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let palette = Palette::new(has_colour);
    terminal.draw(|frame| draw(frame, state, palette)).unwrap();
    terminal
}

/// What a terminal of this size shows after these keys.
fn shown(keys: &str, size: (u16, u16)) -> String {
    let mut state = example();
    update(&mut state, Input::Size(size.0, size.1));
    press(&mut state, keys);
    screen(&state, size, true).backend().to_string()
}

/// Keys to every view.
const VIEWS: [&str; 10] = [
    "", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\t\t\n", "?", "f", "/none",
];

#[test]
fn servers() {
    insta::assert_snapshot!("servers_80x24", shown("", (80, 24)));
    insta::assert_snapshot!("servers_120x30", shown("", (120, 30)));
    insta::assert_snapshot!("servers_sorted_80x12", shown("sssss", (80, 12)));
    insta::assert_snapshot!("servers_40x10", shown("", (40, 10)));
    insta::assert_snapshot!("servers_20x5", shown("j", (20, 5)));
    insta::assert_snapshot!("too_small_19x4", shown("", (19, 4)));
}

#[test]
fn what_is_opened() {
    insta::assert_snapshot!("calls_80x12", shown("\t", (80, 12)));
    insta::assert_snapshot!("findings_80x12", shown("\t\t", (80, 12)));
    insta::assert_snapshot!("server_80x24", shown("\n", (80, 24)));
    insta::assert_snapshot!("session_80x12", shown("\n\n", (80, 12)));
    insta::assert_snapshot!("message_60x16", shown("\n\n\n", (60, 16)));
    insta::assert_snapshot!("message_scrolled_60x10", shown("\n\n\njj", (60, 10)));
    insta::assert_snapshot!("finding_80x12", shown("\t\t\n", (80, 12)));
}

#[test]
fn what_stands_in_front() {
    insta::assert_snapshot!("help_80x24", shown("?", (80, 24)));
    insta::assert_snapshot!("help_30x10", shown("?", (30, 10)));
    insta::assert_snapshot!("freeze_80x24", shown("f", (80, 24)));
    insta::assert_snapshot!("thaw_80x12", shown("jf", (80, 12)));
    insta::assert_snapshot!("refused_80x12", shown("fy", (80, 12)));
    insta::assert_snapshot!("filter_80x12", shown("/bob", (80, 12)));
}

#[test]
fn what_is_missing_is_said() {
    insta::assert_snapshot!(
        "before_80x8",
        screen(&State::default(), (80, 8), true).backend()
    );
    let mut gone = snapshot();
    gone.daemon = Err(
        "mcpinspectd is not running; start it with `sudo systemctl start mcpinspectd`".to_owned(),
    );
    let stopped = screen(&state_of(gone), (60, 8), true);
    insta::assert_snapshot!("no_daemon_60x8", stopped.backend());
    let mut off = snapshot();
    off.messages = Err(super::super::source::not_recorded());
    let unrecorded = screen(&state_of(off), (80, 12), true);
    insta::assert_snapshot!("no_store_80x12", unrecorded.backend());
}

fn texts(buffer: &Buffer) -> impl Iterator<Item = &str> {
    buffer.content().iter().map(ratatui::buffer::Cell::symbol)
}

#[test]
fn nothing_that_acts_on_a_terminal_is_drawn() {
    for keys in VIEWS {
        let mut state = state_of(hostile_reading());
        press(&mut state, keys);
        state.say(HOSTILE.to_owned(), Tone::Bad);
        let screen = screen(&state, (200, 40), true);
        for text in texts(screen.backend().buffer()) {
            assert!(!text.chars().any(is_hidden), "{keys:?}: {text:?}");
        }
    }
}

#[test]
fn every_view_fits_any_size() {
    for keys in VIEWS {
        let mut state = example();
        press(&mut state, keys);
        for width in [1, 2, 19, 20, 21, 33, 47, 80, 81, 133, 300] {
            for height in [1, 2, 4, 5, 6, 9, 14, 15, 24, 25, 70] {
                update(&mut state, Input::Size(width, height));
                screen(&state, (width, height), true);
            }
        }
    }
}

#[test]
fn without_colours_there_are_none() {
    for keys in VIEWS {
        let mut state = example();
        press(&mut state, keys);
        let coloured = |has_colour| {
            let screen = screen(&state, (120, 30), has_colour);
            let cells = screen.backend().buffer().content();
            cells
                .iter()
                .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(!coloured(false), "{keys:?}");
    }
    let screen = screen(&example(), (120, 30), true);
    let mut cells = screen.backend().buffer().content().iter();
    assert!(cells.any(|cell| cell.fg == Color::Red));
}
