//! Policies from files, and what they decide.

mod asking;
mod bypass;
mod conditions;
mod doubts;
mod files;
mod passing;

use std::sync::Arc;

use mcpinspect_core::model::{Direction, Timestamp};

use super::record::Record;
use super::session::{Forward, Session};
use super::situation::Parties;
use super::{Policy, PolicyError};

const TO_SERVER: Direction = Direction::ClientToServer;
const TO_CLIENT: Direction = Direction::ServerToClient;

fn compile(text: &str) -> Result<Policy, Vec<PolicyError>> {
    Policy::compile(&[("p.toml".to_owned(), text.to_owned())])
}

/// A session under a policy, with what it passes on as text.
struct Tried {
    session: Session,
    time: u64,
}

/// What became of a frame.
#[derive(Debug)]
struct Became {
    /// What was passed on, if anything.
    passed: Option<Vec<u8>>,
    replies: Vec<String>,
    records: Vec<Record>,
}

impl Became {
    fn actions(&self) -> Vec<&'static str> {
        self.records.iter().map(|record| record.action).collect()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(self.passed.as_deref().unwrap()).unwrap()
    }
}

impl Tried {
    fn new(policy: &str) -> Self {
        Self::with(Arc::new(compile(policy).unwrap()), Parties::of("files"))
    }

    fn with(policy: Arc<Policy>, parties: Parties) -> Self {
        Self {
            session: Session::new(policy, parties),
            time: 0,
        }
    }

    /// Seconds go by.
    fn wait(&mut self, seconds: u64) {
        self.time += seconds * 1_000_000_000;
    }

    fn say(&mut self, direction: Direction, frame: impl AsRef<[u8]>) -> Became {
        let frame = frame.as_ref();
        let handled = self
            .session
            .handle(direction, frame, Timestamp(self.time), &[]);
        Became {
            passed: match handled.forward {
                Forward::AsIs => Some(frame.to_vec()),
                Forward::Nothing => None,
                Forward::Parts(parts) => Some(parts.concat().into_bytes()),
            },
            replies: handled.replies,
            records: handled.records,
        }
    }

    /// The client calls a tool, and whether that passes.
    fn calls(&mut self, id: u64, tool: &str) -> bool {
        let line = call(id, tool, "{}");
        self.say(TO_SERVER, line).passed.is_some()
    }
}

fn call(id: u64, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

fn result(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}
