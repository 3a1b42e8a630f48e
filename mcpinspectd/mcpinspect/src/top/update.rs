//! What keys and data do to the state, and what must be asked for because of them.

use mcpinspect_core::model::ContainmentAction;
use mcpinspect_core::text::escape::is_hidden;
use mcpinspect_core::text::human::moment;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::measure::wrapped;
use super::model::{
    Answer, Dialog, Loadable, MAX_MESSAGES, ServerView, SessionView, State, Tab, TextOf, TextView,
    TopSnapshot, View, ViewRequest,
};
use super::pretty;
use super::table::{Step, Tone};
use super::tables;
use super::traffic::ServerKey;
use crate::recordings::headline;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds for which a sentence stays in the last line.
const STATUS_LINE_TIME: u64 = 15 * SECOND;

/// Rows of a page that do not belong to the list.
const AROUND: u16 = 7;

/// Rows of the screen that do not belong to a text.
const AROUND_TEXT: usize = 3;

/// Characters of a filter.
const MAX_FILTER: usize = 64;

/// What happens.
#[derive(Debug)]
pub enum Input {
    Key(KeyEvent),
    /// The terminal has this many columns and rows.
    Size(u16, u16),
    Snapshot(Box<TopSnapshot>),
    Answer(Answer),
}

/// Applies an input. Returns what must be asked for.
pub fn update(state: &mut State, input: Input) -> Vec<ViewRequest> {
    let requests = match input {
        Input::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        Input::Key(key) => pressed(state, key),
        Input::Size(width, height) => {
            (state.width, state.height) = (width, height);
            Vec::new()
        }
        Input::Snapshot(snapshot) => {
            state.take(*snapshot);
            let now = state.now;
            state
                .status_line
                .take_if(|status_line| now.nanos_since(status_line.since) > STATUS_LINE_TIME);
            again(state)
        }
        Input::Answer(answer) => answered(state, answer),
    };
    settle(state);
    requests
}

/// Finds the selected row again.
fn settle(state: &mut State) {
    if let Some(table) = tables::current(state)
        && let Some(list) = state.list_mut()
    {
        list.settle(&table.rows);
    }
}

/// Asks again for what is shown. A server's numbers require reading them all, and are asked for less often.
fn again(state: &State) -> Vec<ViewRequest> {
    let is_turn = (state.now.0 / SECOND).is_multiple_of(5);
    match state.opened.last() {
        Some(View::Session(view)) => vec![ViewRequest::Messages {
            session: view.session.clone(),
            before: None,
        }],
        Some(View::Server(view)) if is_turn => vec![ViewRequest::Server(view.server_key.clone())],
        Some(View::Server(_) | View::Text(_)) | None => Vec::new(),
    }
}

fn answered(state: &mut State, answer: Answer) -> Vec<ViewRequest> {
    match answer {
        Answer::Contained(result) => match result {
            Ok(done) => state.say(done, Tone::Good),
            Err(problem) => state.say(problem, Tone::Bad),
        },
        Answer::Server { server_key, result } => {
            for view in &mut state.opened {
                if let View::Server(view) = view
                    && view.server_key == server_key
                {
                    view.content = own(&server_key, result).into();
                    break;
                }
            }
        }
        Answer::Messages {
            session,
            before,
            result,
        } => {
            for view in &mut state.opened {
                if let View::Session(view) = view
                    && view.session == session
                {
                    session_answered(view, result, before);
                    break;
                }
            }
        }
        Answer::Message { number, result } => {
            let result = result.and_then(|message| {
                message.ok_or_else(|| "This message is no longer stored.".to_owned())
            });
            let lines = result.map(|message| {
                let mut lines = vec![headline(&message), String::new()];
                match (&message.message, &message.text) {
                    (Some(json), _) => lines.extend(pretty::lines(json.0.get())),
                    (None, Some(text)) => lines.extend(pretty::plain_lines(text)),
                    (None, None) => lines.push("Its text was not stored.".to_owned()),
                }
                if message.is_masked {
                    lines.insert(1, "Secrets in it are masked.".to_owned());
                }
                lines
            });
            text_answered(state, &TextOf::Message(number), lines);
        }
        Answer::Event { id, result } => {
            let lines = result.map(|event| pretty::lines(&event));
            text_answered(state, &TextOf::Event(id), lines);
        }
    }
    Vec::new()
}

/// What of a server's name belongs to this user.
fn own<S: Owned, C: Owned>(
    server_key: &ServerKey,
    result: Result<(Vec<S>, Vec<C>), String>,
) -> Result<(Vec<S>, Vec<C>), String> {
    result.map(|(mut sessions, mut calls)| {
        sessions.retain(|session| session.uid() == server_key.1);
        calls.retain(|calls| calls.uid() == server_key.1);
        (sessions, calls)
    })
}

/// A row that belongs to some user.
trait Owned {
    fn uid(&self) -> Option<u32>;
}

impl Owned for mcpinspect_engine::history::RecordedSession {
    fn uid(&self) -> Option<u32> {
        self.uid
    }
}

impl Owned for mcpinspect_engine::history::CallStatistics {
    fn uid(&self) -> Option<u32> {
        self.uid
    }
}

fn session_answered(
    view: &mut SessionView,
    result: Result<Vec<mcpinspect_engine::history::RecordedMessage>, String>,
    before: Option<i64>,
) {
    // A user at the end stays there.
    let follows = view.list.at + 1 >= view.messages.len() && view.list.sort.is_none();
    match result {
        Ok(page) => view.take(page, before),
        Err(problem) => {
            view.is_waiting = false;
            view.problem = Some(problem);
        }
    }
    if follows && before.is_none() && view.list.filter.is_empty() && !view.list.is_reversed {
        let rows = tables::messages_of(view).rows;
        view.list.step(Step::Last, &rows);
    }
}

fn text_answered(state: &mut State, of: &TextOf, result: Result<Vec<String>, String>) {
    if let Some(View::Text(view)) = state.opened.last_mut()
        && view.of == *of
    {
        view.content = result.into();
    }
}

fn pressed(state: &mut State, key: KeyEvent) -> Vec<ViewRequest> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && matches!(key.code, KeyCode::Char('c')) {
        state.is_over = true;
        return Vec::new();
    }
    if let Some(dialog) = state.dialog.take() {
        return decided(dialog, key, state);
    }
    if state.list().is_some_and(|list| list.is_editing) {
        edit(state, key);
        return Vec::new();
    }
    match key.code {
        KeyCode::Char('q') => state.is_over = true,
        KeyCode::Char('?') | KeyCode::F(1) => state.dialog = Some(Dialog::Help),
        KeyCode::Char('f') => contain(state),
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => back(state),
        KeyCode::Tab => turn(state, 1),
        KeyCode::BackTab => turn(state, Tab::ALL.len() - 1),
        KeyCode::Char(digit @ '1'..='3') => {
            let tab = digit as usize - '1' as usize;
            state.opened.clear();
            state.tab = Tab::ALL[tab];
        }
        KeyCode::Enter | KeyCode::Right => return open(state),
        KeyCode::Char('/') => edit_filter(state),
        KeyCode::Char('s') => sort(state),
        KeyCode::Char('r') => {
            if let Some(list) = state.list_mut() {
                list.is_reversed = !list.is_reversed;
            }
        }
        code => {
            if let Some(step) = step_of(code, usize::from(state.height.saturating_sub(AROUND))) {
                return walk(state, step);
            }
        }
    }
    Vec::new()
}

/// The way that a key moves.
fn step_of(code: KeyCode, page: usize) -> Option<Step> {
    let page = page.max(1);
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Step::Up(1),
        KeyCode::Down | KeyCode::Char('j') => Step::Down(1),
        KeyCode::PageUp => Step::Up(page),
        KeyCode::PageDown | KeyCode::Char(' ') => Step::Down(page),
        KeyCode::Home | KeyCode::Char('g') => Step::First,
        KeyCode::End | KeyCode::Char('G') => Step::Last,
        _ => return None,
    })
}

fn walk(state: &mut State, step: Step) -> Vec<ViewRequest> {
    let (width, height) = (usize::from(state.width), usize::from(state.height));
    if let Some(View::Text(view)) = state.opened.last_mut() {
        let lines = view.content.ready().map_or(&[][..], Vec::as_slice);
        let count: usize = lines.iter().map(|line| wrapped(line, width)).sum();
        let last = count.saturating_sub(height.saturating_sub(AROUND_TEXT));
        view.scroll = match step {
            Step::Up(lines) => view.scroll.saturating_sub(lines),
            Step::Down(lines) => view.scroll.saturating_add(lines).min(last),
            Step::First => 0,
            Step::Last => last,
        };
        return Vec::new();
    }
    let Some(table) = tables::current(state) else {
        return Vec::new();
    };
    if let Some(list) = state.list_mut() {
        list.step(step, &table.rows);
    }
    earlier(state)
}

/// At the first known message, asks for the ones before it.
fn earlier(state: &mut State) -> Vec<ViewRequest> {
    let Some(View::Session(view)) = state.opened.last_mut() else {
        return Vec::new();
    };
    let is_full = view.messages.len() >= MAX_MESSAGES;
    if view.list.at > 0 || view.is_whole || view.is_waiting || is_full {
        return Vec::new();
    }
    let Some(first) = view.messages.front() else {
        return Vec::new();
    };
    view.is_waiting = true;
    vec![ViewRequest::Messages {
        session: view.session.clone(),
        before: Some(first.number),
    }]
}

/// Closes what was opened last; before that, removes what narrows the list.
fn back(state: &mut State) {
    if let Some(list) = state.list_mut()
        && !list.filter.is_empty()
    {
        list.filter.clear();
        return;
    }
    state.opened.pop();
}

fn turn(state: &mut State, by: usize) {
    state.opened.clear();
    state.tab = Tab::ALL[(state.tab as usize + by) % Tab::ALL.len()];
}

fn edit_filter(state: &mut State) {
    if let Some(list) = state.list_mut() {
        list.is_editing = true;
    }
}

fn edit(state: &mut State, key: KeyEvent) {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    let Some(list) = state.list_mut() else { return };
    match key.code {
        KeyCode::Enter => list.is_editing = false,
        KeyCode::Esc => {
            list.filter.clear();
            list.is_editing = false;
        }
        KeyCode::Backspace => {
            list.filter.pop();
        }
        KeyCode::Char('u') if is_control => list.filter.clear(),
        KeyCode::Char(character)
            if !is_control && !is_hidden(character) && list.filter.chars().count() < MAX_FILTER =>
        {
            list.filter.push(character);
        }
        _ => {}
    }
}

fn sort(state: &mut State) {
    let columns = tables::current(state).map_or(0, |table| table.columns.len());
    if let Some(list) = state.list_mut() {
        list.sort_by_next(columns);
    }
}

/// Opens the selected row.
fn open(state: &mut State) -> Vec<ViewRequest> {
    let Some(key) = state.list().and_then(|list| list.key().map(str::to_owned)) else {
        return Vec::new();
    };
    let opened = match (state.opened.last(), state.tab) {
        (None, Tab::Servers) => state
            .servers()
            .iter()
            .map(super::model::WatchedServer::server_key)
            .find(|server_key| tables::server_row_key(server_key) == key)
            .map(of_server),
        (None, Tab::Calls) => {
            let mut calls = state.traffic.calls();
            let call = calls.find(|call| tables::call_key(call) == key);
            call.map(|call| of_message(call.number, tables::name(&call.session)))
        }
        (None, Tab::Findings) => {
            let mut findings = state.findings.iter();
            let finding = findings.find(|finding| finding.event_id == key);
            finding.map(|finding| {
                let of = TextOf::Event(key.clone());
                let time = moment(&finding.time);
                (
                    text(format!("finding of {time}"), of),
                    vec![ViewRequest::Event(key)],
                )
            })
        }
        (Some(View::Server(view)), _) => Some(of_session(view, key)),
        (Some(View::Session(view)), _) => {
            let number = key.parse().ok();
            number.map(|number| of_message(number, tables::name(&view.session)))
        }
        (Some(View::Text(_)), _) => None,
    };
    let Some((view, requests)) = opened else {
        return Vec::new();
    };
    state.opened.push(view);
    requests
}

fn of_server(server_key: ServerKey) -> (View, Vec<ViewRequest>) {
    let view = ServerView {
        server_key: server_key.clone(),
        list: super::table::List::default(),
        content: Loadable::Loading,
    };
    (View::Server(view), vec![ViewRequest::Server(server_key)])
}

fn of_session(view: &ServerView, session: String) -> (View, Vec<ViewRequest>) {
    let request = ViewRequest::Messages {
        session: session.clone(),
        before: None,
    };
    let view = SessionView::new(view.server_key.clone(), session);
    (View::Session(view), vec![request])
}

fn of_message(number: i64, session: String) -> (View, Vec<ViewRequest>) {
    let title = format!("message of {session}");
    (
        text(title, TextOf::Message(number)),
        vec![ViewRequest::Message(number)],
    )
}

fn text(title: String, of: TextOf) -> View {
    View::Text(TextView {
        title,
        of,
        content: Loadable::Loading,
        scroll: 0,
    })
}

/// The server that is selected or shown.
fn server_key(state: &State) -> Option<ServerKey> {
    let selected = |key: &str| match state.tab {
        Tab::Servers => {
            let mut places = state
                .servers()
                .iter()
                .map(super::model::WatchedServer::server_key);
            places.find(|server_key| tables::server_row_key(server_key) == key)
        }
        Tab::Calls => {
            let mut calls = state.traffic.calls();
            let call = calls.find(|call| tables::call_key(call) == key);
            call.map(|call| call.server_key.clone())
        }
        Tab::Findings => {
            let mut findings = state.findings.iter();
            let finding = findings.find(|finding| finding.event_id == key);
            finding.map(|finding| finding.server_key.clone())
        }
    };
    match state.opened.last() {
        None => state.list()?.key().and_then(selected),
        Some(View::Server(view)) => Some(view.server_key.clone()),
        Some(View::Session(view)) => Some(view.server_key.clone()),
        Some(View::Text(_)) => None,
    }
}

/// Asks whether to freeze the selected server, or let it run again.
fn contain(state: &mut State) {
    let Some(server_key) = server_key(state) else {
        return;
    };
    let Some(server) = state.server(&server_key) else {
        state.say(
            "The daemon no longer knows this server.".to_owned(),
            Tone::Warning,
        );
        return;
    };
    let action = match server.row.frozen {
        true => ContainmentAction::Thaw,
        false => ContainmentAction::Freeze,
    };
    state.dialog = Some(Dialog::Contain(server_key, action));
}

/// Only a `y` does anything.
fn decided(dialog: Dialog, key: KeyEvent, state: &mut State) -> Vec<ViewRequest> {
    match (dialog, key.code) {
        (Dialog::Contain(server_key, action), KeyCode::Char('y' | 'Y')) => {
            state.say(
                format!(
                    "asked the daemon to {} {}",
                    action.as_str(),
                    tables::name(&server_key.0)
                ),
                Tone::Dim,
            );
            vec![ViewRequest::Contain(server_key, action)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
