//! Examines the programs behind servers, off the data path.
//!
//! Reading a large program takes long, so a separate thread does it. Its result comes back as an
//! input of its own.

use mcpinspect_core::model::{Input, SessionId};
use mcpinspect_process::program::Program;
use mcpinspect_process::program::background::Background;

/// Has each server's program examined.
pub(super) struct ProgramLookup {
    background: Background,
}

impl ProgramLookup {
    /// Starts the thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start() -> std::io::Result<Self> {
        Ok(Self {
            background: Background::start()?,
        })
    }

    /// Has the program examined when a session's server becomes known.
    pub(super) fn look_up(&self, input: &Input<'_>) {
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

    /// What was found since the last time.
    pub(super) fn found(&self) -> impl Iterator<Item = (SessionId, Program)> {
        self.background.found()
    }
}
