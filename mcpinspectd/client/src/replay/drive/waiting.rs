//! Waiting: for answers, for the time to ask, for a server that does not read.

use std::time::Duration;

use mcpinspect_core::mcp::method;

use super::{Driver, INITIALIZE};
use crate::peer::{Received, SendOutcome};
use crate::replay::compare::{Difference, Kind, Subject};
use crate::replay::recording::TapeMessage;

/// Consecutive requests without an answer before a server is given up.
const PATIENCE: u32 = 3;

/// How long to wait, at the end, for what is on the tape but the server has not said yet.
const SETTLE: Duration = Duration::from_secs(1);

/// How long a send may be held up before incoming messages are checked.
const HELD_UP: Duration = Duration::from_millis(20);

impl Driver<'_> {
    /// Waits for the answer to a request of the tape.
    pub(super) fn wait(&mut self, at: usize) -> Result<(), String> {
        let Some(id) = self.ids.get(&at).copied() else {
            return Ok(());
        };
        let method = self
            .recording
            .messages
            .get(at)
            .and_then(TapeMessage::method);
        let stays_open = method.is_some_and(method::stays_open);
        match stays_open {
            true => Ok(()),
            false => self.answered(id),
        }
    }

    /// Waits until a request is answered, or can no longer be.
    pub(super) fn answered(&mut self, id: u64) -> Result<(), String> {
        while let (Some(pending), false) = (self.open.get(&id), self.cancelled.contains(&id)) {
            let deadline = pending.sent.saturating_add(self.settings.timeout);
            let left = deadline.saturating_sub(self.peer.elapsed());
            if pending.failed.is_some() || left.is_zero() || self.is_over() {
                let reason = pending.failed.clone().or_else(|| self.stopped.clone());
                let seconds = self.settings.timeout.as_secs_f64();
                let reason = reason.unwrap_or_else(|| format!("none within {seconds} s"));
                return self.unanswered(id, reason);
            }
            self.listen(left);
        }
        Ok(())
    }

    fn unanswered(&mut self, id: u64, reason: String) -> Result<(), String> {
        let Some(pending) = self.open.remove(&id) else {
            return Ok(());
        };
        let recorded = pending.at.and_then(|at| self.recording.messages.get(at));
        let method = recorded.and_then(TapeMessage::method).unwrap_or(INITIALIZE);
        if method == INITIALIZE {
            return Err(format!("no answer to `{method}`: {reason}"));
        }
        let subject = Subject {
            method,
            params: pending.params.as_ref(),
            number: recorded.map_or(0, |recorded| recorded.number),
        };
        if !self.settings.rules.ignores(method, subject.params) {
            self.found.add(Difference {
                kind: Kind::NoAnswer,
                method: method.to_owned(),
                path: subject.path(),
                was: None,
                is: Some(reason),
                message: Some(subject.number),
                times: 1,
            });
        }
        self.silent += 1;
        if self.silent == PATIENCE && !self.is_over() {
            self.stopped = Some(format!(
                "the server did not answer {PATIENCE} requests one after the other"
            ));
        }
        Ok(())
    }

    /// Waits as long as the client waited.
    pub(super) fn pace(&mut self, gap: Duration) {
        let wait = self.settings.speed.wait(gap);
        let until = self.peer.elapsed().saturating_add(wait);
        while !self.is_over() {
            let left = until.saturating_sub(self.peer.elapsed());
            if left.is_zero() {
                return;
            }
            self.listen(left);
        }
    }

    /// Waits for what is on the tape but was not yet said of the server's own accord. A server that ends
    /// now has answered everything.
    pub(super) fn settle(&mut self) {
        let until = self.peer.elapsed().saturating_add(SETTLE);
        while self.is_incomplete() {
            let left = until.saturating_sub(self.peer.elapsed());
            if left.is_zero() {
                return;
            }
            self.flush();
            match self.peer.receive(left) {
                Received::Closed => return,
                received => self.take(received),
            }
        }
        self.flush();
    }

    fn is_incomplete(&self) -> bool {
        self.everything_was_asked()
            && self.counts.iter().any(|((method, _), count)| {
                count.on_tape > 0 && count.now == 0 && !self.settings.rules.ignores(method, None)
            })
    }

    /// Sends what there is to send, and receives what comes, for at most this long.
    pub(super) fn listen(&mut self, wait: Duration) {
        self.flush();
        if !self.is_over() {
            let received = self.peer.receive(wait);
            self.take(received);
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        let until = self.peer.elapsed().saturating_add(self.settings.timeout);
        while let (false, Some(line)) = (self.is_over(), self.outbox.front()) {
            match self.peer.send(line) {
                SendOutcome::Queued => {
                    self.outbox.pop_front();
                }
                SendOutcome::Closed => self.closed(),
                SendOutcome::Full if self.peer.elapsed() >= until => {
                    let seconds = self.settings.timeout.as_secs_f64();
                    self.stopped = Some(format!("the server has read nothing for {seconds} s"));
                }
                SendOutcome::Full => {
                    let received = self.peer.receive(HELD_UP);
                    self.take(received);
                }
            }
        }
    }

    pub(super) fn closed(&mut self) {
        if self.stopped.is_none() {
            self.stopped = Some(self.peer.end().to_string());
        }
    }
}
