//! What the server says besides its answers, reported on standard error as it comes.

use std::io::{self, IsTerminal as _};

use mcpinspect_cli::terminal;
use mcpinspect_core::text::escape::printable;

use crate::server_messages::ServerEvent;

/// Longest text of an event, in characters.
const TEXT: usize = 1000;

/// Longest name in an event, in characters.
const NAME: usize = 80;

/// The listener: to everything or, if an envelope takes the rest, to progress only.
pub fn listener(structured: bool) -> fn(ServerEvent<'_>) {
    match structured {
        true => progress,
        false => everything,
    }
}

fn everything(event: ServerEvent<'_>) {
    match event {
        ServerEvent::Log(log) => {
            let level = printable(&log.level, NAME);
            let text = printable(&log.message, TEXT);
            let logger = log.logger.as_deref().map_or(String::new(), |logger| {
                format!(" {}", printable(logger, NAME))
            });
            terminal::complain(format_args!("[{level}{logger}] {text}"));
        }
        ServerEvent::Request(request) => {
            let how = match (request.scripted, request.method.as_str()) {
                (true, _) => "answered",
                (false, "ping") => return,
                (false, _) => "declined",
            };
            let method = printable(&request.method, NAME);
            terminal::complain(format_args!("[{how}] {method}"));
        }
        ServerEvent::Notification(notification) => {
            let method = printable(&notification.method, NAME);
            let params = match notification.params.is_null() {
                true => String::new(),
                false => format!(" {}", printable(&notification.params.to_string(), TEXT)),
            };
            terminal::complain(format_args!("[notified] {method}{params}"));
        }
        ServerEvent::Progress { .. } => progress(event),
    }
}

/// Progress is for people who wait.
fn progress(event: ServerEvent<'_>) {
    if let ServerEvent::Progress {
        progress,
        total,
        message,
    } = event
        && io::stderr().is_terminal()
    {
        let total = total.map_or(String::new(), |total| format!("/{total}"));
        let message = message.map_or(String::new(), |message| {
            format!(" {}", printable(message, TEXT))
        });
        terminal::complain(format_args!("[{progress}{total}]{message}"));
    }
}
