//! The results of a replay.

use std::io::{self, Write};

use mcpinspect_core::text::escape::printable;
use serde::Serialize;

use super::compare::{Difference, Kind};

/// Columns that a path is padded to.
const PATH: usize = 44;

/// Characters of a value.
const VALUE: usize = 100;

/// Characters of a name.
const NAME: usize = 200;

/// The client's side of a tape, played to a server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Whether every answer was the same, and nothing was missing or added.
    pub same: bool,
    /// The server on the tape.
    pub server_id: String,
    /// Messages on the tape.
    pub messages: u64,
    /// Requests that were sent, without a handshake that the tape does not have.
    pub requests: u64,
    /// Answers to them.
    pub answers: u64,
    /// Answers that were compared.
    pub compared: u64,
    /// Answers that were the same.
    pub equal: u64,
    /// Requests on the tape that were not sent, because they were filtered or nothing answered any more.
    pub not_sent: u64,
    /// Requests of the server that were answered as on the tape.
    pub answered_from_tape: u64,
    /// Requests of the server that were declined.
    pub declined: u64,
    /// How many times each substitution was applied.
    pub substitutions: Vec<Substitution>,
    /// Where the answers differ.
    pub differences: Vec<Difference>,
    /// Differences beyond those.
    pub more_differences: u64,
    /// Why the replay was abandoned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// A substitution.
#[derive(Clone, Debug, Serialize)]
pub struct Substitution {
    /// Where.
    pub path: String,
    /// In how many places a value was substituted.
    pub places: u64,
}

impl Report {
    /// Writes it for people to read.
    ///
    /// # Errors
    /// Failures of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let name = |text: &str| printable(text, NAME);
        let left_out = match self.not_sent {
            0 => String::new(),
            count => format!(", {count} not sent"),
        };
        writeln!(
            out,
            "replayed {} of {}{left_out}: {} answered, {} compared, {} the same",
            counted(self.requests, "request"),
            name(&self.server_id),
            self.answers,
            self.compared,
            self.equal
        )?;
        if self.answered_from_tape + self.declined > 0 {
            writeln!(
                out,
                "the server asked {}: {} answered as on the tape, {} declined",
                counted(self.answered_from_tape + self.declined, "time"),
                self.answered_from_tape,
                self.declined
            )?;
        }
        for substitution in &self.substitutions {
            let (path, places) = (name(&substitution.path), substitution.places);
            match places {
                0 => writeln!(out, "note: nothing on the tape is {path}")?,
                places => writeln!(out, "set a value in {}: {path}", counted(places, "place"))?,
            }
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        let mut method = None;
        for difference in &self.differences {
            if method.replace(&difference.method) != Some(&difference.method) {
                writeln!(out, "\n{}", name(&difference.method))?;
            }
            write_difference(out, difference)?;
        }
        if self.more_differences > 0 {
            writeln!(out, "\n{} more differences", self.more_differences)?;
        }
        if let Some(stopped) = &self.stopped {
            writeln!(out, "\nstopped: {stopped}")?;
        }
        match self.same {
            true => writeln!(out, "no differences"),
            false => {
                let count = self.differences.len() as u64 + self.more_differences;
                writeln!(out, "\n{}", counted(count, "difference"))
            }
        }
    }
}

fn write_difference(out: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let word = match difference.kind {
        Kind::NoAnswer => "no answer",
        Kind::Outcome => "outcome",
        Kind::Missing => "missing",
        Kind::Added => "added",
        Kind::Type => "type",
        Kind::Value => "value",
    };
    let path = printable(&difference.path, NAME);
    let short = |value: &str| printable(value, VALUE);
    let values = match (&difference.was, &difference.is) {
        (Some(was), Some(is)) => format!("{} → {}", short(was), short(is)),
        (Some(one), None) | (None, Some(one)) => short(one),
        (None, None) => String::new(),
    };
    let place = match (difference.message, difference.times) {
        (Some(message), 1) => format!(" (message {message})"),
        (Some(message), times) => format!(" (message {message}, {times} times)"),
        (None, _) => String::new(),
    };
    let line = format!("  {word:9}  {path:PATH$}  {values}");
    writeln!(out, "{}{place}", line.trim_end())
}

/// A number of things, in words.
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}
