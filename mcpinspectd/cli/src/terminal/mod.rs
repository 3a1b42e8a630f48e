//! Printing for people and pipelines, without a panic when the reader leaves.
//!
//! `println!` panics when its pipe is closed, so `mcpinspect explain | head -1` ended in a
//! backtrace. Restoring the default action of `SIGPIPE` is no cure: these programs also write to
//! sockets and to the servers that they start, and must survive when one of those goes away. So
//! everything that a command prints goes through here, and clippy refuses `println!` elsewhere.

pub mod table;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};

/// What happened to standard output's reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It took everything.
    Listening,
    /// It closed the pipe; further output would be lost.
    Gone,
}

/// Writes to standard output, buffered. A reader that has left is not an error: the rest of the
/// output is discarded, and the program ends as it would have otherwise.
///
/// # Errors
/// Any other failure, such as a full disk.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Reader> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Listening),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            // Dropping the writer would try to write its remaining bytes once more.
            let _ = out.into_parts();
            Ok(Reader::Gone)
        }
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot write the output: {error}"),
        )),
    }
}

/// Writes one line to standard error. There is nowhere to report a failure to.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether to colour the output: only on a terminal, and only if neither `NO_COLOR` nor a dumb
/// terminal objects.
pub fn wants_colour(is_terminal: bool) -> bool {
    is_terminal && may_colour(|name| std::env::var_os(name))
}

/// Whether the environment permits colours on a terminal. A variable that is empty does not count.
fn may_colour(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_forbid_colours() {
        for (variables, expected) in [
            (&[][..], true),
            (&[("TERM", "xterm")], true),
            (&[("TERM", "dumb")], false),
            (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
            (&[("TERM", ""), ("NO_COLOR", "")], true),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| value.into())
            };
            assert_eq!(may_colour(variable), expected, "{variables:?}");
        }
        assert!(!wants_colour(false));
    }
}
