use super::super::testing::{NOW, answer, example, message, request, snapshot};
use super::*;

fn press(state: &mut State, code: KeyCode) -> Vec<ViewRequest> {
    update(state, Input::Key(KeyEvent::from(code)))
}

fn type_in(state: &mut State, text: &str) {
    for character in text.chars() {
        assert!(press(state, KeyCode::Char(character)).is_empty());
    }
}

fn selected(state: &State) -> Option<&str> {
    state.list()?.key()
}

fn everything() -> ServerKey {
    ("everything".to_owned(), Some(1000))
}

#[test]
fn moving_stays_within_the_list() {
    let mut state = example();
    assert_eq!(selected(&state), Some("1000 everything"));
    press(&mut state, KeyCode::Up);
    assert_eq!(selected(&state), Some("1000 everything"));
    press(&mut state, KeyCode::Down);
    let second = selected(&state).unwrap().to_owned();
    press(&mut state, KeyCode::PageDown);
    press(&mut state, KeyCode::Char('j'));
    let last = selected(&state).unwrap().to_owned();
    press(&mut state, KeyCode::End);
    assert_eq!(selected(&state), Some(last.as_str()));
    press(&mut state, KeyCode::Char('g'));
    press(&mut state, KeyCode::Char('j'));
    assert_eq!(selected(&state), Some(second.as_str()));
}

#[test]
fn a_server_leads_to_its_sessions_messages_and_texts() {
    let mut state = example();
    assert_eq!(
        press(&mut state, KeyCode::Enter),
        [ViewRequest::Server(everything())]
    );
    let sessions = super::super::testing::sessions();
    let calls = super::super::testing::calls();
    let result = Ok((sessions, calls));
    update(
        &mut state,
        Input::Answer(Answer::Server {
            server_key: everything(),
            result,
        }),
    );
    let view_request = ViewRequest::Messages {
        session: "s1".to_owned(),
        before: None,
    };
    assert_eq!(
        press(&mut state, KeyCode::Enter),
        std::slice::from_ref(&view_request)
    );
    let result = Ok(vec![
        answer("s1", 2, 1, "1", 5, NOW),
        request("s1", 1, "1", NOW),
    ]);
    update(
        &mut state,
        Input::Answer(Answer::Messages {
            session: "s1".to_owned(),
            before: None,
            result,
        }),
    );
    assert_eq!(selected(&state), Some("2"), "the newest");
    assert_eq!(press(&mut state, KeyCode::Enter), [ViewRequest::Message(2)]);
    let result = Ok(Some(Box::new(message("s1", 2, "response", NOW))));
    update(
        &mut state,
        Input::Answer(Answer::Message { number: 2, result }),
    );
    let Some(View::Text(view)) = state.opened.last() else {
        panic!()
    };
    assert_eq!(
        view.content.ready().unwrap().last().unwrap(),
        "Its text was not stored."
    );
    // While the text is shown, nothing is asked for again; while the session is, its messages are.
    assert!(update(&mut state, Input::Snapshot(Box::new(snapshot()))).is_empty());
    press(&mut state, KeyCode::Esc);
    assert_eq!(
        update(&mut state, Input::Snapshot(Box::new(snapshot()))),
        [view_request]
    );
    press(&mut state, KeyCode::Esc);
    assert_eq!(selected(&state), Some("s1"));
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Esc);
    assert!(state.opened.is_empty() && !state.is_over);
    press(&mut state, KeyCode::Char('q'));
    assert!(state.is_over);
}

#[test]
fn another_users_sessions_are_not_this_servers() {
    let mut state = example();
    press(&mut state, KeyCode::Enter);
    let mut sessions = super::super::testing::sessions();
    sessions[0].uid = Some(1001);
    let count = sessions.len();
    let result = Ok((sessions, Vec::new()));
    update(
        &mut state,
        Input::Answer(Answer::Server {
            server_key: everything(),
            result,
        }),
    );
    assert_eq!(tables::current(&state).unwrap().rows.len(), count - 1);
}

#[test]
fn a_session_is_followed_at_its_end_and_only_there() {
    let mut state = example();
    state.opened.push(View::Session(SessionView::new(
        everything(),
        "s1".to_owned(),
    )));
    let page = |last: u64| Answer::Messages {
        session: "s1".to_owned(),
        before: None,
        result: Ok((last - 199..=last)
            .rev()
            .map(|number| message("s1", number, "notification", NOW))
            .collect()),
    };
    update(&mut state, Input::Answer(page(300)));
    update(&mut state, Input::Answer(page(302)));
    assert_eq!(selected(&state), Some("302"));
    press(&mut state, KeyCode::Up);
    update(&mut state, Input::Answer(page(310)));
    assert_eq!(selected(&state), Some("301"));
    // At the first known message, the ones before are asked for, once.
    let before = ViewRequest::Messages {
        session: "s1".to_owned(),
        before: Some(101),
    };
    assert_eq!(press(&mut state, KeyCode::Home), [before]);
    assert!(press(&mut state, KeyCode::Up).is_empty());
    let result = Ok((1..=100)
        .rev()
        .map(|number| message("s1", number, "notification", NOW))
        .collect());
    update(
        &mut state,
        Input::Answer(Answer::Messages {
            session: "s1".to_owned(),
            before: Some(101),
            result,
        }),
    );
    assert_eq!(selected(&state), Some("101"), "stays where it was");
    assert!(
        press(&mut state, KeyCode::Home).is_empty(),
        "there are none before the first"
    );
    assert_eq!(selected(&state), Some("1"));
}

#[test]
fn a_filter_is_typed_kept_and_taken_back() {
    let mut state = example();
    press(&mut state, KeyCode::Char('/'));
    type_in(&mut state, "TIMEq");
    assert!(!state.is_over, "a letter like any other");
    press(&mut state, KeyCode::Backspace);
    assert_eq!(selected(&state), Some("1001 time"));
    press(&mut state, KeyCode::Enter);
    assert_eq!(tables::current(&state).unwrap().rows.len(), 1);
    press(&mut state, KeyCode::Esc);
    assert!(tables::current(&state).unwrap().rows.len() > 1);
    assert_eq!(selected(&state), Some("1001 time"), "the selection stays");
    press(&mut state, KeyCode::Char('/'));
    type_in(&mut state, "nothing");
    assert_eq!(selected(&state), None);
    assert!(press(&mut state, KeyCode::Enter).is_empty());
    assert!(
        press(&mut state, KeyCode::Enter).is_empty(),
        "nothing to open"
    );
    press(&mut state, KeyCode::Char('/'));
    type_in(&mut state, &"x".repeat(500));
    assert!(state.list().unwrap().filter.len() <= MAX_FILTER);
}

#[test]
fn only_a_yes_freezes() {
    for key in ['n', 'q', 'f', ' '] {
        let mut state = example();
        assert!(press(&mut state, KeyCode::Char('f')).is_empty());
        assert_eq!(
            state.dialog,
            Some(Dialog::Contain(everything(), ContainmentAction::Freeze))
        );
        assert!(press(&mut state, KeyCode::Char(key)).is_empty());
        assert!(state.dialog.is_none() && !state.is_over);
    }
    let mut state = example();
    press(&mut state, KeyCode::Char('f'));
    assert_eq!(
        press(&mut state, KeyCode::Char('y')),
        [ViewRequest::Contain(
            everything(),
            ContainmentAction::Freeze
        )]
    );
    let refused = Err("not permitted: polkit does not allow it".to_owned());
    update(&mut state, Input::Answer(Answer::Contained(refused)));
    assert!(state.status_line.as_ref().unwrap().text.contains("polkit"));
    // A frozen one can run again.
    press(&mut state, KeyCode::Char('/'));
    type_in(&mut state, "frozen");
    press(&mut state, KeyCode::Enter);
    press(&mut state, KeyCode::Char('f'));
    assert!(matches!(
        state.dialog,
        Some(Dialog::Contain(_, ContainmentAction::Thaw))
    ));
}

#[test]
fn calls_and_findings_open_too() {
    let mut state = example();
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.tab, Tab::Calls);
    let requests = press(&mut state, KeyCode::Enter);
    assert!(
        matches!(requests[..], [ViewRequest::Message(_)]),
        "{requests:?}"
    );
    press(&mut state, KeyCode::Char('3'));
    let requests = press(&mut state, KeyCode::Enter);
    assert!(
        matches!(requests[..], [ViewRequest::Event(_)]),
        "{requests:?}"
    );
    press(&mut state, KeyCode::BackTab);
    assert!(state.opened.is_empty() && state.tab == Tab::Calls);
}

#[test]
fn control_c_ends_it_wherever_one_is() {
    for before in ["", "/ab", "f", "?"] {
        let mut state = example();
        for character in before.chars() {
            press(&mut state, KeyCode::Char(character));
        }
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        update(&mut state, Input::Key(key));
        assert!(state.is_over, "{before}");
    }
}

#[test]
fn a_daemon_that_stops_leaves_a_word_and_comes_back() {
    let mut state = example();
    let mut gone = snapshot();
    gone.daemon = Err("mcpinspectd is not running".to_owned());
    update(&mut state, Input::Snapshot(Box::new(gone)));
    assert_eq!(state.problems(), ["mcpinspectd is not running"]);
    press(&mut state, KeyCode::Enter);
    press(&mut state, KeyCode::Char('f'));
    assert!(state.opened.is_empty() && state.dialog.is_none());
    update(&mut state, Input::Snapshot(Box::new(snapshot())));
    assert!(state.problems().is_empty() && selected(&state).is_some());
}
