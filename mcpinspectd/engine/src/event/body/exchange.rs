//! Exchanges that do not come to an end: calls without an answer, servers without a client.

use mcpinspect_core::model::{Direction, EndReason, Severity};
use mcpinspect_core::text::escape::printable;
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, MAX_NAME, Sentence, name};

/// A request has waited too long for its answer. The answer may still come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallHung {
    /// Which way the request went.
    pub direction: Direction,
    /// Its method.
    pub method: String,
    /// The tool that it calls.
    pub tool_name: Option<String>,
    /// Milliseconds since it was sent.
    pub waited_ms: u64,
    /// Notifications of its progress that came meanwhile.
    pub progress: u32,
    /// How many others of this session were not reported since the one before.
    pub suppressed: u64,
}

impl Describe for CallHung {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Low)
    }

    fn title(&self, server: &str) -> String {
        let method = printable(&self.method, MAX_NAME);
        match (&self.tool_name, self.direction) {
            (Some(tool), _) => format!("A call of {} hangs in {server}", name(tool)),
            (None, Direction::ClientToServer) => format!("A {method} request hangs in {server}"),
            (None, Direction::ServerToClient) => {
                format!("A {method} request of {server} hangs in its client")
            }
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let seconds = self.waited_ms / 1000;
        sentence.add(format!("no answer for {seconds} s"));
        if self.progress > 0 {
            sentence.add(format!(
                "{} notifications of progress before",
                self.progress
            ));
        }
        if self.suppressed > 0 {
            sentence.add(format!(
                "{} more before it were not reported",
                self.suppressed
            ));
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_DIRECTION", self.direction.as_str());
        details.add("MCPINSPECT_METHOD", &self.method);
        details.add_some("MCPINSPECT_TOOL", self.tool_name.as_deref());
    }
}

/// A server goes on running after its client is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerOrphaned {
    /// Why the session had ended.
    pub reason: EndReason,
    /// The path of the server's executable.
    pub exe: String,
    /// The user that it runs as.
    pub uid: u32,
    /// Seconds since the session ended.
    pub seconds: u64,
}

impl Describe for ServerOrphaned {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Low)
    }

    fn title(&self, server: &str) -> String {
        format!("{server} keeps running without a client")
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let Self {
            reason,
            exe,
            uid,
            seconds,
        } = self;
        sentence.add(format!(
            "its session ended {seconds} s ago ({reason}); {exe}, uid {uid}"
        ));
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_REASON", self.reason.as_str());
        details.add("MCPINSPECT_EXE", &self.exe);
    }
}
