//! A tape by itself, printed as it plays, with commands on standard input.

use std::io::{self, BufRead as _, Read as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Instant;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::Reader;
use mcpinspect_core::model::Direction;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::replay::player::{Command, Next, Player, PlayerError, is_error};
use crate::replay::recording::{Recording, TapeMessage, TapeMessageKind};

/// Bytes of a command.
const COMMAND: u64 = 1000;

/// Characters of a message.
const TEXT: usize = 160;

/// Characters of a method.
const METHOD: usize = 80;

/// Plays until the end, or until the command `quit`. Also ends if it waits for a command and standard input has
/// ended.
pub fn play(recording: &Recording, mut player: Player<'_>, json: bool) -> anyhow::Result<()> {
    let commands = commands();
    let mut due = None;
    loop {
        let command = match player.next() {
            Next::End => return Ok(()),
            Next::Paused => match commands.recv() {
                Ok(command) => command,
                Err(_) => return Ok(()),
            },
            Next::Show(at, wait) => {
                let now = Instant::now();
                // So far away that no clock reaches it.
                let until = *due.get_or_insert_with(|| now.checked_add(wait));
                let left = until.map_or(wait, |until| until.saturating_duration_since(now));
                // A script's next line is not read before its last one has been carried out.
                let command = match left.is_zero() {
                    true => Err(RecvTimeoutError::Timeout),
                    false => commands.recv_timeout(left),
                };
                match command {
                    Ok(command) => command,
                    // No more commands will come: wait without listening.
                    Err(RecvTimeoutError::Disconnected) => {
                        std::thread::sleep(left);
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        if show(recording, at, json)? == Reader::Gone {
                            return Ok(());
                        }
                        due = None;
                        let number = recording
                            .messages
                            .get(at)
                            .map_or(0, |recorded| recorded.number);
                        if player.shown() {
                            terminal::complain(format_args!(
                                "mcpinspect: stopped at message {number}"
                            ));
                        }
                        continue;
                    }
                }
            }
        };
        match command {
            Ok(command) => {
                due = None;
                if !player.obey(command) {
                    return Ok(());
                }
            }
            Err(error) => terminal::complain(format_args!("mcpinspect: {error}")),
        }
    }
}

/// Commands from standard input, one a line.
fn commands() -> Receiver<Result<Command, PlayerError>> {
    let (sender, commands) = sync_channel(1);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut input).take(COMMAND).read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return,
            }
            let line = String::from_utf8_lossy(&line);
            let command = printable(line.trim(), METHOD).parse();
            if sender.send(command).is_err() {
                return;
            }
        }
    });
    commands
}

/// A message, for programs.
#[derive(Serialize)]
struct MessageLine<'a> {
    number: u64,
    time: String,
    direction: Direction,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

fn show(recording: &Recording, at: usize, json: bool) -> anyhow::Result<Reader> {
    let Some(recorded) = recording.messages.get(at) else {
        return Ok(Reader::Listening);
    };
    let kind = match recorded.kind {
        TapeMessageKind::Request { .. } => "request",
        TapeMessageKind::Notification { .. } => "notification",
        TapeMessageKind::Response { .. } => "response",
        TapeMessageKind::Invalid => "invalid",
    };
    let method = method(recording, recorded);
    let is_error = recorded.message().is_some_and(|message| is_error(&message));
    if json {
        let message = serde_json::from_str(&recorded.text).ok();
        let text = terminal_safe(&MessageLine {
            number: recorded.number,
            time: recorded.time.exact(),
            direction: recorded.direction,
            kind,
            method,
            is_error,
            text: message.is_none().then_some(&recorded.text),
            message,
        })?;
        return Ok(terminal::print(|out| writeln!(out, "{text}"))?);
    }
    let start = recording.messages.first().map(|first| first.time);
    let nanos = start.map_or(0, |start| recorded.time.nanos_since(start));
    let arrow = match recorded.direction {
        Direction::ClientToServer => '→',
        Direction::ServerToClient => '←',
    };
    let failed = if is_error { " failed" } else { "" };
    let method = method.map_or(String::new(), |method| {
        format!(" {}", printable(method, METHOD))
    });
    let text = printable(&recorded.text, TEXT);
    Ok(terminal::print(|out| {
        let seconds = nanos / 1_000_000_000;
        let millis = nanos / 1_000_000 % 1000;
        writeln!(
            out,
            "{seconds:5}.{millis:03}s  {arrow} {} {kind}{method}{failed}  {text}",
            recorded.number
        )
    })?)
}

/// A message's method, or that of the request that it answers.
fn method<'a>(recording: &'a Recording, recorded: &'a TapeMessage) -> Option<&'a str> {
    match recorded.kind {
        TapeMessageKind::Response { request } => recording.messages.get(request?)?.method(),
        _ => recorded.method(),
    }
}
