//! What the server says besides its answers, reported on standard error as it comes.

use std::io::{self, IsTerminal as _};

use mcpinspect_cli::terminal;
use mcpinspect_core::text::escape::printable;

use crate::heard::Remark;

/// Longest text of a remark, in characters.
const TEXT: usize = 1000;

/// Longest name in a remark, in characters.
const NAME: usize = 80;

/// The listener: to everything or, if an envelope takes the rest, to progress only.
pub fn listener(structured: bool) -> fn(Remark<'_>) {
    match structured {
        true => progress,
        false => everything,
    }
}

fn everything(remark: Remark<'_>) {
    match remark {
        Remark::Log(log) => {
            let level = printable(&log.level, NAME);
            let text = printable(&log.message, TEXT);
            let logger = log.logger.as_deref().map_or(String::new(), |logger| {
                format!(" {}", printable(logger, NAME))
            });
            terminal::complain(format_args!("[{level}{logger}] {text}"));
        }
        Remark::Asked(request) => {
            let how = match (request.scripted, request.method.as_str()) {
                (true, _) => "answered",
                (false, "ping") => return,
                (false, _) => "declined",
            };
            let method = printable(&request.method, NAME);
            terminal::complain(format_args!("[{how}] {method}"));
        }
        Remark::Notified(notified) => {
            let method = printable(&notified.method, NAME);
            let params = match notified.params.is_null() {
                true => String::new(),
                false => format!(" {}", printable(&notified.params.to_string(), TEXT)),
            };
            terminal::complain(format_args!("[notified] {method}{params}"));
        }
        Remark::Progress { .. } => progress(remark),
    }
}

/// Progress is for people who wait.
fn progress(remark: Remark<'_>) {
    if let Remark::Progress {
        progress,
        total,
        message,
    } = remark
        && io::stderr().is_terminal()
    {
        let total = total.map_or(String::new(), |total| format!("/{total}"));
        let message = message.map_or(String::new(), |message| {
            format!(" {}", printable(message, TEXT))
        });
        terminal::complain(format_args!("[{progress}{total}]{message}"));
    }
}
