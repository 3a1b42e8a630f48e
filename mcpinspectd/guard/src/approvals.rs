//! How the tools of a session compare with what was accepted.
//!
//! The daemon is asked about exactly the definitions that the server lists here, by their hashes: it may not have
//! seen them yet. A call names a tool but no definition; the one last listed in this session counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcpinspect_cli::terminal;
use mcpinspect_core::model::DefinitionHash;
use mcpinspect_judge::policy::situation::ToolStatus;
use mcpinspect_judge::registry::canonical;
use serde_json::value::RawValue;

use super::daemon::{Daemon, ToolDefinitions};
use super::on_failure::OnFailure;

/// How long it remains valid that a tool is approved, if no decision is announced, or that it is not: the daemon
/// may be just about to learn whom the guard talks to.
const FRESH: Duration = Duration::from_secs(5);
const FRESH_REFUSAL: Duration = Duration::from_millis(500);
/// Tools of a session to remember; with more, all are forgotten and asked about again.
const REMEMBERED: usize = 2048;
/// Most tools to ask about at once, and for one frame.
const AT_ONCE: usize = 1024;
const IN_FRAME: usize = 8192;

/// What all sessions of a guard use to ask.
pub struct Approver {
    daemon: Daemon,
    on_failure: OnFailure,
    /// Why the daemon did not answer when last asked.
    silent: Mutex<Option<String>>,
}

impl Approver {
    /// Asks the daemon from now on, and says so if it is not there.
    pub fn start(on_failure: OnFailure, server: &str) -> anyhow::Result<Self> {
        let approver = Self {
            daemon: Daemon::start()?,
            on_failure,
            silent: Mutex::new(None),
        };
        let _ = approver.ask(server, Vec::new());
        Ok(approver)
    }

    /// What to assume about a tool that nothing can be found out about.
    pub fn supposed(&self) -> ToolStatus {
        match self.on_failure {
            OnFailure::Open => ToolStatus::Approved,
            // As far from approved as there is.
            OnFailure::Closed => ToolStatus::Changed,
        }
    }

    /// Asks; reports on standard error when the daemon falls silent, and when it is back.
    fn ask(&self, server: &str, tools: ToolDefinitions) -> Option<Vec<ToolStatus>> {
        let answer = self.daemon.ask(server, tools);
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match &answer {
            Ok(_) => {
                if silent.take().is_some() {
                    terminal::complain(format_args!(
                        "mcpinspect: mcpinspectd answers again; tools have their actual approval status"
                    ));
                }
            }
            Err(why) if !why.is_empty() && silent.as_ref() != Some(why) => {
                let taken = match self.on_failure {
                    OnFailure::Open => "approved (--on-failure open)",
                    OnFailure::Closed => "unapproved and changed (--on-failure closed)",
                };
                terminal::complain(format_args!(
                    "mcpinspect: cannot ask mcpinspectd which tools are approved: {why}. Until it answers, all tools count as {taken} for `tool_status` in rules"
                ));
                *silent = Some(why.clone());
            }
            Err(_) => {}
        }
        answer.ok()
    }
}

/// What is known about the tools of a session.
#[derive(Default)]
pub struct SessionApprovals(Mutex<SessionTools>);

#[derive(Default)]
struct SessionTools {
    epoch: u64,
    /// By the hash of the name, which may be long.
    tools: HashMap<DefinitionHash, Tool>,
}

struct Tool {
    /// The definition listed last.
    definition: Option<DefinitionHash>,
    status: Option<(ToolStatus, Instant)>,
}

/// Tools of a frame, each with its definition if there is one.
#[derive(Default)]
pub struct ToolQuery {
    tools: Vec<(String, Option<DefinitionHash>)>,
    /// Whether there were more than can be asked about.
    is_cut: bool,
}

impl ToolQuery {
    /// Adds a tool.
    pub fn add(&mut self, name: &str, definition: Option<&RawValue>) {
        if self.tools.len() >= IN_FRAME {
            self.is_cut = true;
            return;
        }
        self.tools
            .push((name.to_owned(), definition.map(canonical::hash)));
    }
}

/// What was found out: tools with their statuses, and whether that is all of them.
pub struct ToolStatuses {
    pub statuses: Vec<(String, ToolStatus)>,
    pub is_complete: bool,
}

impl SessionApprovals {
    /// Finds out about the tools of a frame.
    pub fn find(&self, approver: &Approver, server: &str, query: ToolQuery) -> ToolStatuses {
        let mut tool_statuses = ToolStatuses {
            statuses: Vec::new(),
            is_complete: !query.is_cut,
        };
        let epoch = approver.daemon.epoch();
        let mut open: Vec<(String, Option<DefinitionHash>)> = Vec::new();
        for (name, definition) in query.tools {
            let (definition, status) = self.lookup(epoch, &name, definition);
            match status {
                Some(status) => tool_statuses.statuses.push((name, status)),
                None => open.push((name, definition)),
            }
        }
        for some in open.chunks(AT_ONCE) {
            let tool_definition = |(name, definition): &(String, Option<DefinitionHash>)| {
                let definition = definition.map(|definition| definition.to_string());
                (name.clone(), definition.unwrap_or_default())
            };
            let Some(statuses) = approver.ask(server, some.iter().map(tool_definition).collect())
            else {
                tool_statuses.is_complete = false;
                break;
            };
            for ((name, definition), status) in some.iter().zip(statuses) {
                self.learn(name, *definition, status);
                tool_statuses.statuses.push((name.clone(), status));
            }
        }
        tool_statuses
    }

    /// The definition of a tool that counts, which is noted, and the status of that one if it is known.
    fn lookup(
        &self,
        epoch: u64,
        name: &str,
        definition: Option<DefinitionHash>,
    ) -> (Option<DefinitionHash>, Option<ToolStatus>) {
        let mut session_tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if session_tools.epoch != epoch {
            session_tools.epoch = epoch;
            for tool in session_tools.tools.values_mut() {
                tool.status = None;
            }
        }
        let key = DefinitionHash::of(name.as_bytes());
        if let Some(tool) = session_tools.tools.get_mut(&key) {
            if definition.is_none() || definition == tool.definition {
                let holds = |status: ToolStatus| match status {
                    ToolStatus::Approved => FRESH,
                    ToolStatus::Unapproved | ToolStatus::Changed => FRESH_REFUSAL,
                };
                let is_fresh = |(status, at): &(ToolStatus, Instant)| at.elapsed() < holds(*status);
                let fresh = tool.status.filter(is_fresh);
                return (tool.definition, fresh.map(|(status, _)| status));
            }
            tool.definition = definition;
            tool.status = None;
            return (definition, None);
        }
        if session_tools.tools.len() >= REMEMBERED {
            session_tools.tools.clear();
        }
        session_tools.tools.insert(
            key,
            Tool {
                definition,
                status: None,
            },
        );
        (definition, None)
    }

    fn learn(&self, name: &str, definition: Option<DefinitionHash>, status: ToolStatus) {
        let mut session_tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tool = session_tools
            .tools
            .get_mut(&DefinitionHash::of(name.as_bytes()));
        if let Some(tool) = tool.filter(|tool| tool.definition == definition) {
            tool.status = Some((status, Instant::now()));
        }
    }
}
