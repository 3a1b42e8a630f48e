//! Untrusted text comes in, private data is read, and part of it goes out.
//!
//! The three come together in one agent, so data is tracked per client: what one user's agent read has
//! nothing to do with what another's sends. A session with an unknown client is tracked by itself.
//!
//! None of the three is wrong on its own. What reveals theft is a *value* from a private result that
//! reappears in the arguments of a tool that sends data, after text from strangers was read. Only hashes of
//! values are kept, in a ring of fixed size, and only of values that hardly recur by chance.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use mcpinspect_core::model::{Pid, SessionId, Timestamp};

use crate::detect::api::SessionContext;
use crate::detect::behaviour::AgentMemory;

/// Most clients to track.
const AGENTS: usize = 64;
/// Most values of one client to remember.
const VALUES: usize = 4096;
/// Most values to take from one result.
const PER_RESULT: usize = 512;
/// How long a value or an untrusted text is remembered, in nanoseconds: half an hour.
const MEMORY: u64 = 30 * 60 * 1_000_000_000;
/// The shortest value that hardly recurs by chance.
const SHORTEST: usize = 8;

/// Where data came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataOrigin {
    /// The server.
    pub server: Arc<str>,
    /// Its tool.
    pub tool: Arc<str>,
    /// When.
    pub time: Timestamp,
}

/// Private values on their way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataLeak {
    /// Where text from strangers came in.
    pub untrusted: DataOrigin,
    /// Where the values came from.
    pub private: DataOrigin,
    /// How many values reappeared.
    pub values: usize,
}

/// Sessions that share an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AgentKey {
    /// The sessions of this client process.
    Client(Pid),
    /// This session alone; its client is unknown.
    Session(SessionId),
}

/// The data that flowed on this machine in the last half hour, by agent.
#[derive(Debug, Default)]
pub struct DataFlows {
    agents: HashMap<AgentKey, AgentData>,
    /// A counter of uses, to find the agent idle for longest.
    uses: u64,
}

impl DataFlows {
    /// The data that flowed through this session's agent, if any.
    pub fn get(&self, context: &SessionContext<'_>) -> Option<&AgentData> {
        self.agents.get(&agent(context))
    }

    /// The data that flows through this session's agent. If there are too many agents, the one idle for longest
    /// is dropped.
    pub fn get_or_insert(&mut self, context: &SessionContext<'_>) -> &mut AgentData {
        let agent = agent(context);
        if self.agents.len() >= AGENTS && !self.agents.contains_key(&agent) {
            let idle = self.agents.iter().min_by_key(|(_, data)| data.used);
            if let Some(idle) = idle.map(|(agent, _)| agent.clone()) {
                self.agents.remove(&idle);
            }
        }
        self.uses += 1;
        let data = self.agents.entry(agent).or_default();
        data.used = self.uses;
        data
    }

    /// Drops what is kept about a session that has ended, unless other sessions share its agent.
    pub fn session_ended(&mut self, session: &SessionId) {
        self.agents.remove(&AgentKey::Session(session.clone()));
    }
}

fn agent(context: &SessionContext<'_>) -> AgentKey {
    match context.client {
        Some(pid) => AgentKey::Client(pid),
        None => AgentKey::Session(context.session_id.clone()),
    }
}

/// The data that flowed through one agent in the last half hour.
#[derive(Debug, Default)]
pub struct AgentData {
    used: u64,
    hasher: RandomState,
    /// The orders and values that came through.
    pub memory: AgentMemory,
    untrusted: Option<DataOrigin>,
    order: VecDeque<u64>,
    values: HashMap<u64, DataOrigin>,
}

impl AgentData {
    /// Records that text from strangers came in.
    pub fn untrusted_text(&mut self, origin: DataOrigin) {
        // The first one counts while it is remembered, because it has to precede the private data.
        if self
            .untrusted
            .as_ref()
            .is_none_or(|known| origin.time.nanos_since(known.time) > MEMORY)
        {
            self.untrusted = Some(origin);
        }
    }

    /// Records that private data was read.
    pub fn private_data(&mut self, origin: &DataOrigin, text: &str) {
        for value in values(text).take(PER_RESULT) {
            let hash = self.hasher.hash_one(value);
            if self.values.insert(hash, origin.clone()).is_none() {
                self.order.push_back(hash);
            }
            if self.order.len() > VALUES
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
            }
        }
    }

    /// Whether a text that came in before `time` has an order to send something, or is suspicious in itself. A
    /// definition is no such text: a sending tool's definition mentions sending, and did not come from a stranger.
    pub fn was_told_to_send(&self, time: Timestamp, now: Timestamp) -> bool {
        self.memory.orders(now).any(|one| {
            let suspicious = one.source.suspicious && !one.source.definition;
            one.source.time <= time && (suspicious || one.order.sends_to_an_address())
        })
    }

    /// Checks text that goes out through a tool of `server`. Returns a leak if the text contains a private value
    /// that another tool returned after text from strangers came in.
    pub fn leak(&self, server: &str, tool: &str, now: Timestamp, text: &str) -> Option<DataLeak> {
        let untrusted = self
            .untrusted
            .as_ref()
            .filter(|origin| now.nanos_since(origin.time) <= MEMORY)?;
        let mut first: Option<&DataOrigin> = None;
        let mut count = 0;
        for value in values(text).take(PER_RESULT) {
            let Some(origin) = self.values.get(&self.hasher.hash_one(value)) else {
                continue;
            };
            let elsewhere = *origin.server != *server || *origin.tool != *tool;
            let itself = origin.server == untrusted.server && origin.tool == untrusted.tool;
            if elsewhere
                && !itself
                && origin.time >= untrusted.time
                && now.nanos_since(origin.time) <= MEMORY
            {
                count += 1;
                first.get_or_insert(origin);
            }
        }
        let private = first?.clone();
        Some(DataLeak {
            untrusted: untrusted.clone(),
            private,
            values: count,
        })
    }
}

/// The values in a text that hardly recur by chance: long words with digits.
fn values(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\''
                    | ','
                    | ';'
                    | '('
                    | ')'
                    | '['
                    | ']'
                    | '{'
                    | '}'
                    | '<'
                    | '>'
                    | '='
                    | '`'
                    | '|'
            )
    })
    .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
    .filter(|word| word.len() >= SHORTEST && word.len() <= 512 && distinctive(word))
}

/// Whether a word hardly recurs by chance and is not an address: those say where something goes.
fn distinctive(word: &str) -> bool {
    if word.contains('@') {
        return false;
    }
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let date =
        digits == 8 && word.bytes().filter(|byte| *byte == b'-').count() == 2 && word.len() == 10;
    !date && ((digits >= 3 && letters) || digits >= 9 || (word.len() >= 24 && digits > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(server: &str, tool: &str, second: u64) -> DataOrigin {
        DataOrigin {
            server: server.into(),
            tool: tool.into(),
            time: Timestamp(second * 1_000_000_000),
        }
    }

    #[test]
    fn a_private_value_that_goes_out_after_untrusted_text_is_a_leak() {
        let mut data = AgentData::default();
        data.untrusted_text(origin("web", "fetch", 1));
        data.private_data(
            &origin("files", "read_file", 2),
            "account: ACC-99120-X holder Jane",
        );
        let leak = data
            .leak(
                "mail",
                "send_email",
                Timestamp(3_000_000_000),
                "see ACC-99120-X",
            )
            .unwrap();
        assert_eq!(
            (&*leak.private.server, &*leak.untrusted.tool, leak.values),
            ("files", "fetch", 1)
        );
    }

    #[test]
    fn each_of_the_three_steps_is_needed() {
        let now = Timestamp(9_000_000_000);
        let mut data = AgentData::default();
        data.private_data(&origin("files", "read_file", 2), "ACC-99120-X");
        assert_eq!(
            data.leak("mail", "send_email", now, "ACC-99120-X"),
            None,
            "no untrusted text"
        );
        data.untrusted_text(origin("web", "fetch", 3));
        assert_eq!(
            data.leak("mail", "send_email", now, "ACC-99120-X"),
            None,
            "read before the untrusted text"
        );
        data.private_data(&origin("files", "read_file", 4), "ACC-99120-X");
        assert_eq!(
            data.leak("mail", "send_email", now, "nothing of it"),
            None,
            "another value"
        );
        assert_eq!(
            data.leak("files", "read_file", now, "ACC-99120-X"),
            None,
            "back to where it came from"
        );
        assert!(
            data.leak("mail", "send_email", now, "ACC-99120-X")
                .is_some()
        );
        let late = Timestamp(4_000_000_000 + MEMORY + 1);
        assert_eq!(
            data.leak("mail", "send_email", late, "ACC-99120-X"),
            None,
            "long ago"
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut data = AgentData::default();
        for index in 0..40 {
            let text: String = (0..PER_RESULT)
                .map(|value| format!("token-{index}-{value}-123 "))
                .collect();
            data.private_data(&origin("files", "read_file", 1), &text);
        }
        assert!(data.values.len() <= VALUES && data.order.len() <= VALUES);
    }
}
