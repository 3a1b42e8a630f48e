//! What a program writes to a terminal, and when.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::stage::program;

/// Characters in a row of the terminal.
pub const COLUMNS: usize = 128;

/// What the tap says when no message can be missed any more.
const READY: &str = "watches every MCP server";

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub bold: bool,
    pub dim: bool,
    /// One of the terminal's eight colours.
    pub colour: Option<u8>,
}

/// A piece of a row in one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub column: usize,
    pub text: String,
    pub style: Style,
}

/// A row of the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it appeared, from the start on.
    pub time: Duration,
    pub pieces: Vec<Piece>,
}

/// A tap that sees the demo's session.
pub fn of_tap(agent: &Path) -> Result<Vec<Row>> {
    let size = Winsize {
        ws_row: 40,
        ws_col: u16::try_from(COLUMNS)?,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(Some(&size), None)?;
    let slave = |end: &OwnedFd| -> Result<Stdio> { Ok(Stdio::from(end.try_clone()?)) };
    let mut tap = program("mcpinspectd")
        .args(["tap", "--server", "notes"])
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(slave(&terminal.slave)?)
        .stderr(slave(&terminal.slave)?)
        .spawn()?;
    drop(terminal.slave);
    let id = Pid::from_raw(i32::try_from(tap.id())?);
    let mut output = File::from(terminal.master);
    let mut screen = Screen::default();
    let mut session = None;
    let mut begun = Instant::now();
    let mut chunk = [0; 65_536];
    // The terminal says that it is an error when the last program has closed it.
    while let Ok(count @ 1..) = output.read(&mut chunk) {
        let text = std::str::from_utf8(&chunk[..count]).context("half a character")?;
        if session.is_none() && text.contains(READY) {
            begun = Instant::now();
            let mut talk = Command::new(agent).arg("session").spawn()?;
            session = Some(std::thread::spawn(move || {
                let ended = talk.wait();
                // What was said last is on the screen by then.
                std::thread::sleep(Duration::from_secs(1));
                let _ = kill(id, Signal::SIGINT);
                ended
            }));
        }
        screen.write(text, begun.elapsed());
    }
    ensure!(tap.wait()?.success(), "the tap failed: {:?}", screen.rows);
    let session = session.context("the tap did not become ready")?;
    let ended = session.join().ok().context("no session")??;
    ensure!(ended.success(), "the session failed");
    Ok(screen.rows)
}

/// A terminal that knows lines and colours, which is all that the tap uses.
#[derive(Default)]
struct Screen {
    rows: Vec<Row>,
    column: usize,
    style: Style,
    /// Inside of an escape sequence: its parameters so far.
    escape: Option<String>,
    /// Whether the next character begins a row.
    fresh: bool,
}

impl Screen {
    fn write(&mut self, text: &str, time: Duration) {
        for c in text.chars() {
            match (self.escape.take(), c) {
                (Some(parameters), 'm') => self.set_style(&parameters),
                (Some(parameters), '[') if parameters.is_empty() => self.escape = Some(parameters),
                (Some(mut parameters), c @ ('0'..='9' | ';')) => {
                    parameters.push(c);
                    self.escape = Some(parameters);
                }
                (Some(_), _) => {}
                (None, '\x1b') => self.escape = Some(String::new()),
                (None, '\r') => {}
                (None, '\n') => {
                    if self.fresh || self.rows.is_empty() {
                        self.row(time);
                    }
                    self.fresh = true;
                }
                (None, c) => {
                    if self.fresh || self.rows.is_empty() || self.column == COLUMNS {
                        self.row(time);
                    }
                    self.put(c);
                }
            }
        }
    }

    fn row(&mut self, time: Duration) {
        self.rows.push(Row {
            time,
            pieces: Vec::new(),
        });
        self.column = 0;
        self.fresh = false;
    }

    fn put(&mut self, c: char) {
        let (column, style) = (self.column, self.style);
        self.column += 1;
        let Some(row) = self.rows.last_mut() else {
            return;
        };
        match row.pieces.last_mut() {
            Some(piece) if piece.style == style => piece.text.push(c),
            _ => row.pieces.push(Piece {
                column,
                text: c.into(),
                style,
            }),
        }
    }

    fn set_style(&mut self, parameters: &str) {
        for code in parameters.split(';') {
            match code.parse().unwrap_or(0) {
                0 => self.style = Style::default(),
                1 => self.style.bold = true,
                2 => self.style.dim = true,
                22 => (self.style.bold, self.style.dim) = (false, false),
                code @ 30..=37 => self.style.colour = Some(code - 30),
                code @ 90..=97 => self.style.colour = Some(code - 90),
                39 => self.style.colour = None,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_wrapping_are_understood() {
        let mut screen = Screen::default();
        screen.write("\x1b[1;31mred\x1b[0m plain\r\n", Duration::ZERO);
        screen.write(&"x".repeat(COLUMNS + 1), Duration::from_secs(1));
        screen.write("\n\nend", Duration::from_secs(2));
        let texts: Vec<Vec<&str>> = screen
            .rows
            .iter()
            .map(|row| row.pieces.iter().map(|piece| &*piece.text).collect())
            .collect();
        let full = "x".repeat(COLUMNS);
        assert_eq!(
            texts,
            [
                vec!["red", " plain"],
                vec![&*full],
                vec!["x"],
                vec![],
                vec!["end"]
            ]
        );
        let red = &screen.rows[0].pieces[0];
        assert!(red.style.bold && red.style.colour == Some(1), "{red:?}");
        assert_eq!(screen.rows[0].pieces[1].column, 3);
        assert_eq!(screen.rows[4].time, Duration::from_secs(2));
    }
}
