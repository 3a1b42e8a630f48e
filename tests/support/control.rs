//! A daemon without a pipeline: it answers what the bus asks of it, and writes down what it was asked
//! to do.

use std::sync::{Arc, Mutex};

use mcpinspect_contain::Contained;
use mcpinspect_core::model::{ContainmentAction, DefinitionHash, Pid};
use mcpinspect_engine::answer::{Answer, QueryError};
use mcpinspect_engine::history::{HistoryError, HistoryQuery, Viewer};
use mcpinspect_judge::registry::Standing;
use mcpinspectd::control::{Caller, CaptureStatus, Control, ControlError, Decision, ToolForm};

use super::bus::OWNER;

/// Why it refuses to read its configuration again.
pub const MISTAKE: &str = "config.toml line 3: no";

/// Writes down, with the user that asked.
#[derive(Default)]
pub struct Recorder {
    decided: Mutex<Vec<(Decision, u32)>>,
    contained: Mutex<Vec<(String, ContainmentAction, u32)>>,
}

impl Recorder {
    /// A recorder, and itself as what the bus asks.
    pub fn new() -> (Arc<Self>, Arc<dyn Control>) {
        let recorder = Arc::new(Self::default());
        (Arc::clone(&recorder), recorder)
    }

    /// The decisions so far.
    pub fn decided(&self) -> Vec<(Decision, u32)> {
        self.decided.lock().unwrap().clone()
    }

    /// What was contained so far, and how.
    pub fn contained(&self) -> Vec<(String, ContainmentAction, u32)> {
        self.contained.lock().unwrap().clone()
    }
}

impl Control for Recorder {
    fn status(&self) -> Result<CaptureStatus, ControlError> {
        Ok(CaptureStatus {
            state: "watching".to_owned(),
            paused: vec!["loud".to_owned()],
            bytes_written: 3,
            bytes_captured: 2,
            bytes_lost: 1,
        })
    }

    /// Knows the tools of `files` alone, of the owner of the watched server: `read` was accepted as its hash
    /// of ones.
    fn check_tools(
        &self,
        uid: Option<u32>,
        server: &str,
        tools: Vec<ToolForm>,
    ) -> Result<Vec<Option<Standing>>, ControlError> {
        let accepted = DefinitionHash([0x11; 32]);
        let standing = |tool: &ToolForm| match (&*tool.name, tool.hash) {
            _ if uid != Some(OWNER) || server != "files" => None,
            ("read", Some(hash)) if hash != accepted => Some(Standing::Changed),
            ("read", _) => Some(Standing::Accepted),
            ("write", _) => Some(Standing::FirstUse),
            _ => None,
        };
        Ok(tools.iter().map(standing).collect())
    }

    /// Knows the server `files` alone, which has two processes.
    fn contain(
        &self,
        server: &str,
        action: ContainmentAction,
        uid: u32,
    ) -> Result<Contained, ControlError> {
        if server != "files" {
            return Err(ControlError::Unknown(server.to_owned()));
        }
        let done = (server.to_owned(), action, uid);
        self.contained.lock().unwrap().push(done);
        Ok(Contained {
            cgroups: vec![format!("/{}", action.as_str())],
            processes: vec![Pid(7), Pid(8)],
            missed: Vec::new(),
        })
    }

    /// Says whose rows it would read.
    fn query_history(&self, _: &HistoryQuery, viewer: Viewer) -> Result<Vec<String>, HistoryError> {
        Ok(vec![format!("{viewer:?}")])
    }

    /// Says whose rows it would read, but for a statement that is none.
    fn query(&self, sql: &str, viewer: Viewer) -> Result<Answer, QueryError> {
        match sql {
            "SELECT" => Err(QueryError::invalid("incomplete input")),
            _ => Ok(Answer {
                columns: vec![format!("{viewer:?}")],
                ..Answer::default()
            }),
        }
    }

    fn decide(&self, decision: Decision, caller: Caller) -> Result<(), ControlError> {
        if decision == Decision::Reload {
            return Err(ControlError::Failed(MISTAKE.to_owned()));
        }
        self.decided.lock().unwrap().push((decision, caller.uid));
        Ok(())
    }
}
