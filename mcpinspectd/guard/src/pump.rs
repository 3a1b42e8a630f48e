//! One direction: reads lines, has them judged, and passes on what passes.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mcpinspect_core::model::Direction;
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use mcpinspect_judge::policy::session::Forward;

use super::judge::Judge;
use super::lines::{Line, Lines};
use super::sink::Sink;

/// How long a server that has ended may be silent until the guard ends too. A helper of the server
/// may hold its pipes forever.
const SILENCE: Duration = Duration::from_millis(200);
/// How often to check that.
const GLANCE: Duration = Duration::from_millis(10);

/// One direction.
pub struct Pump {
    pub direction: Direction,
    /// `None` if there is nothing to read.
    pub from: Option<File>,
    /// Where messages go.
    pub to: Arc<Sink>,
    /// Where answers to them go.
    pub back: Arc<Sink>,
    pub judge: Arc<Judge>,
    pub activity: Arc<Activity>,
}

/// What a direction is doing, for the thread that waits for its end.
#[derive(Debug, Default)]
pub struct Activity {
    /// Chunks or lines so far.
    moved: AtomicU64,
    /// Whether it is handling something.
    is_busy: AtomicBool,
    is_over: AtomicBool,
}

impl Activity {
    fn begins(&self) {
        self.is_busy.store(true, Ordering::SeqCst);
        self.moved.fetch_add(1, Ordering::SeqCst);
    }

    fn rests(&self) {
        self.is_busy.store(false, Ordering::SeqCst);
    }

    /// Waits until it is over, or nothing has come for a while. Waits for what it is handling, however
    /// slowly the client reads.
    pub fn wait_for_silence(&self) {
        let mut last = self.moved.load(Ordering::SeqCst);
        let mut silence = Duration::ZERO;
        while !self.is_over.load(Ordering::SeqCst) && silence < SILENCE {
            std::thread::sleep(GLANCE);
            let moved = self.moved.load(Ordering::SeqCst);
            silence = match moved == last && !self.is_busy.load(Ordering::SeqCst) {
                true => silence + GLANCE,
                false => Duration::ZERO,
            };
            last = moved;
        }
    }
}

impl Pump {
    /// Passes messages on until there are none, or the receiver is gone.
    pub fn run(mut self) {
        if let Some(from) = self.from.take() {
            let mut lines = Lines::new(from, DEFAULT_MAX_FRAME);
            // Either side may leave at any time, and the other then notices: its pipe is closed.
            let _ = match self.judge.is_idle() {
                true => self.copy(&mut lines),
                false => self.pass(&mut lines),
            };
            // The sender's pipe first, as the receiver that left would have closed it.
            drop(lines);
        }
        self.to.close();
        self.activity.is_over.store(true, Ordering::SeqCst);
    }

    /// Without a policy: bytes as they come.
    fn copy(&self, lines: &mut Lines<File>) -> io::Result<()> {
        while lines.chunk(|bytes| {
            self.activity.begins();
            self.to.write(bytes)
        })? {
            self.activity.rests();
        }
        Ok(())
    }

    fn pass(&self, lines: &mut Lines<File>) -> io::Result<()> {
        loop {
            self.activity.rests();
            let line = lines.next();
            self.activity.begins();
            match line? {
                Line::Whole(line) => self.line(line)?,
                Line::TooLong(line) => {
                    let passes = self.judge.too_long(self.direction, line);
                    let beginning = std::mem::take(line);
                    self.rest(lines, beginning, passes)?;
                }
                Line::End => return Ok(()),
            }
        }
    }

    /// Judges a line and carries out the result.
    fn line(&self, line: &[u8]) -> io::Result<()> {
        let frame = line.strip_suffix(b"\n").unwrap_or(line);
        let newline = &line[frame.len()..];
        let handled = self.judge.frame(self.direction, frame);
        // A side that no longer reads does not wait for answers.
        for reply in &handled.replies {
            let _ = self.back.reply(reply);
        }
        if !handled.delay.is_zero() {
            std::thread::sleep(handled.delay);
        }
        match handled.forward {
            Forward::AsIs => self.to.write(line),
            Forward::Nothing => Ok(()),
            Forward::Parts(parts) => {
                // The new line ends the way its sender ended the old one.
                let end = if frame.ends_with(b"\r") && !ends_in_return(&parts) {
                    b"\r".as_slice()
                } else {
                    b""
                };
                let mut all: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
                all.extend([end, newline]);
                self.to.write_parts(&all)
            }
        }
    }

    /// Passes on a line that was too long to be judged, or drops it.
    fn rest(&self, lines: &mut Lines<File>, beginning: Vec<u8>, passes: bool) -> io::Result<()> {
        if !passes {
            drop(beginning);
            return lines.rest(|_| Ok(()));
        }
        let mut pipe = self.to.lock();
        pipe.write(&beginning)?;
        drop(beginning);
        lines.rest(|piece| pipe.write(piece))
    }
}

fn ends_in_return(parts: &[std::borrow::Cow<'_, str>]) -> bool {
    parts.last().is_some_and(|part| part.ends_with('\r'))
}
