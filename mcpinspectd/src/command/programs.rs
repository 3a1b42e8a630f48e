//! Looking at the programs behind servers, beside the way of the data.

use mcpinspectd::model::{Input, InputSink, Timestamp};
use mcpinspectd::process::program::background::Background;

/// Passes everything on to `feed`, and tells it of each server's program as soon as that was looked
/// at. Reading a large program takes long, so a thread of its own does it.
pub struct Programs<F> {
    /// Who is told.
    pub feed: F,
    background: Background,
}

impl<F> Programs<F> {
    /// Starts the thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(feed: F) -> std::io::Result<Self> {
        Ok(Self {
            feed,
            background: Background::start()?,
        })
    }

    /// Has the program looked at when a session's server becomes known.
    fn look_at_program(&self, input: &Input<'_>) {
        match input {
            Input::SessionStarted(start) => {
                if let Some(server) = &start.server_party {
                    let began = Some(server.start_time);
                    self.background.look_at(&start.id, server.pid, began);
                }
            }
            Input::PartiesChanged {
                session,
                server_pid: Some(pid),
                ..
            } => self.background.look_at(session, *pid, None),
            _ => {}
        }
    }
}

impl<F: InputSink> InputSink for Programs<F> {
    fn input(&mut self, input: Input<'_>) {
        self.look_at_program(&input);
        self.feed.input(input);
    }

    fn idle(&mut self) {
        for (session, program) in self.background.found() {
            self.feed.input(Input::Program {
                session: (&session).into(),
                definition: program.definition().into(),
                time: Timestamp::now(),
            });
        }
        self.feed.idle();
    }
}
