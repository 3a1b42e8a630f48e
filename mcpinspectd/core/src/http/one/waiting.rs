//! Requests that wait for their response: in HTTP/1, only the order says which response answers which.

use std::collections::VecDeque;

use crate::http::head::{Method, Upgrade};
use crate::http::part::Stream;

/// What a response depends on in its request.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Expected {
    pub(in crate::http) stream: Stream,
    pub(in crate::http) method: Method,
    pub(in crate::http) upgrade: Upgrade,
}

/// The requests of a connection that were not answered yet.
#[derive(Debug)]
pub(in crate::http) struct Waiting {
    queue: VecDeque<Expected>,
    last: Stream,
    max: usize,
    is_lost: bool,
}

impl Waiting {
    /// At most `max` requests wait.
    pub(in crate::http) fn new(max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            last: 0,
            max,
            is_lost: false,
        }
    }

    /// Adds a request, and numbers it. `None` if too many wait.
    pub(super) fn add(&mut self, method: Method, upgrade: Upgrade) -> Option<Stream> {
        let stream = self.last.checked_add(1)?;
        self.last = stream;
        if !self.is_lost {
            if self.queue.len() == self.max {
                return None;
            }
            self.queue.push_back(Expected {
                stream,
                method,
                upgrade,
            });
        }
        Some(stream)
    }

    /// The request that the next response answers.
    pub(super) fn first(&self) -> Option<Expected> {
        self.queue.front().copied()
    }

    /// Notes that its final response has begun.
    pub(super) fn answered(&mut self) {
        self.queue.pop_front();
    }

    /// The newest request, if it is the only one that waits.
    pub(in crate::http) fn only(&self) -> Option<Expected> {
        self.first().filter(|_| self.queue.len() == 1)
    }

    /// Notes that it is no longer known which response answers which request: a head may be missing.
    pub(in crate::http) fn lose(&mut self) {
        self.is_lost = true;
        self.queue.clear();
    }

    /// Whether it is unknown which response answers which request.
    pub(in crate::http) fn is_lost(&self) -> bool {
        self.is_lost
    }
}
