//! Untrusted text came in, private data was read, and a part of it goes out.
//!
//! The three meet in one agent. So what is remembered is kept per client: what one user's agent read
//! is no part of what another's sends. A session whose client is not known stands alone.
//!
//! None of the three is wrong by itself. What gives the theft away is a *value* out of a private
//! result that is seen again in the arguments of a tool that sends, after text from strangers was
//! read. Only hashes of values are kept, in a ring of fixed size, and only of values that do not
//! recur by chance.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::super::api::SessionContext;
use crate::model::{Pid, SessionId, Timestamp};

/// Most clients that are followed.
const AGENTS: usize = 64;
/// Most values of one client that are remembered.
const VALUES: usize = 4096;
/// Most values that are taken out of one result.
const PER_RESULT: usize = 512;
/// How long a value or an untrusted text is remembered, in nanoseconds: half an hour.
const MEMORY: u64 = 30 * 60 * 1_000_000_000;
/// Shortest value that does not recur by chance.
const SHORTEST: usize = 8;

/// Where a text came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The server.
    pub server: Arc<str>,
    /// Its tool.
    pub tool: Arc<str>,
    /// When.
    pub time: Timestamp,
}

/// A value of a private result on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Where strangers' text came in.
    pub untrusted: Origin,
    /// Where the value comes from.
    pub private: Origin,
    /// How many values were seen again.
    pub values: usize,
}

/// Whose sessions belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Agent {
    /// The client of this process.
    Client(Pid),
    /// The unknown client of this session.
    Session(SessionId),
}

/// What flowed on this machine in the last half hour, by client.
#[derive(Debug, Default)]
pub struct Flows {
    agents: HashMap<Agent, Flow>,
    /// Counts uses, to tell which agent was idle longest.
    uses: u64,
}

impl Flows {
    /// What flowed through the client of this session, if anything.
    pub fn known(&self, context: &SessionContext<'_>) -> Option<&Flow> {
        self.agents.get(&agent(context))
    }

    /// What flows through the client of this session. Where there are too many, the one that was
    /// idle longest is forgotten.
    pub fn of(&mut self, context: &SessionContext<'_>) -> &mut Flow {
        let agent = agent(context);
        if self.agents.len() >= AGENTS && !self.agents.contains_key(&agent) {
            let idle = self.agents.iter().min_by_key(|(_, flow)| flow.used);
            if let Some(idle) = idle.map(|(agent, _)| agent.clone()) {
                self.agents.remove(&idle);
            }
        }
        self.uses += 1;
        let flow = self.agents.entry(agent).or_default();
        flow.used = self.uses;
        flow
    }

    /// A session is over: nothing can follow where nobody else shares its client.
    pub fn session_ended(&mut self, session: &SessionId) {
        self.agents.remove(&Agent::Session(session.clone()));
    }
}

fn agent(context: &SessionContext<'_>) -> Agent {
    match context.client {
        Some(pid) => Agent::Client(pid),
        None => Agent::Session(context.session_id.clone()),
    }
}

/// What flowed through one client in the last half hour.
#[derive(Debug, Default)]
pub struct Flow {
    used: u64,
    hasher: RandomState,
    untrusted: Option<Origin>,
    order: VecDeque<u64>,
    values: HashMap<u64, Origin>,
}

impl Flow {
    /// Text of strangers came in.
    pub fn untrusted(&mut self, origin: Origin) {
        // The first one counts while it is remembered: what came before the private read matters.
        if self
            .untrusted
            .as_ref()
            .is_none_or(|known| origin.time.nanos_since(known.time) > MEMORY)
        {
            self.untrusted = Some(origin);
        }
    }

    /// Private text came in.
    pub fn private(&mut self, origin: &Origin, text: &str) {
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

    /// Text goes out through a tool of `server`. Says so when it has a value of another server's
    /// private result that was read after strangers' text came in.
    pub fn sends(&self, server: &str, tool: &str, now: Timestamp, text: &str) -> Option<Leak> {
        let untrusted = self
            .untrusted
            .as_ref()
            .filter(|origin| now.nanos_since(origin.time) <= MEMORY)?;
        let mut first: Option<&Origin> = None;
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
        Some(Leak {
            untrusted: untrusted.clone(),
            private,
            values: count,
        })
    }
}

/// Values that do not recur by chance: long runs with a digit or of mixed kinds, and addresses.
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
    .filter(|word| word.len() >= SHORTEST && word.len() <= 512 && telling(word))
}

fn telling(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let date =
        digits == 8 && word.bytes().filter(|byte| *byte == b'-').count() == 2 && word.len() == 10;
    !date
        && ((digits >= 3 && letters)
            || digits >= 9
            || word.contains('@')
            || (word.len() >= 24 && digits > 0))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn origin(server: &str, tool: &str, second: u64) -> Origin {
        Origin {
            server: server.into(),
            tool: tool.into(),
            time: Timestamp(second * 1_000_000_000),
        }
    }

    #[test]
    fn a_private_value_that_goes_out_after_strangers_text_is_a_leak() {
        let mut flow = Flow::default();
        flow.untrusted(origin("web", "fetch", 1));
        flow.private(
            &origin("files", "read_file", 2),
            "account: ACC-99120-X holder Jane",
        );
        let leak = flow
            .sends(
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
        let mut flow = Flow::default();
        flow.private(&origin("files", "read_file", 2), "ACC-99120-X");
        assert_eq!(
            flow.sends("mail", "send_email", now, "ACC-99120-X"),
            None,
            "no strangers' text"
        );
        flow.untrusted(origin("web", "fetch", 3));
        assert_eq!(
            flow.sends("mail", "send_email", now, "ACC-99120-X"),
            None,
            "read before the strangers' text"
        );
        flow.private(&origin("files", "read_file", 4), "ACC-99120-X");
        assert_eq!(
            flow.sends("mail", "send_email", now, "nothing of it"),
            None,
            "another value"
        );
        assert_eq!(
            flow.sends("files", "read_file", now, "ACC-99120-X"),
            None,
            "back to where it came from"
        );
        assert!(
            flow.sends("mail", "send_email", now, "ACC-99120-X")
                .is_some()
        );
        let late = Timestamp(4_000_000_000 + MEMORY + 1);
        assert_eq!(
            flow.sends("mail", "send_email", late, "ACC-99120-X"),
            None,
            "long ago"
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut flow = Flow::default();
        for index in 0..40 {
            let text: String = (0..PER_RESULT)
                .map(|value| format!("token-{index}-{value}-123 "))
                .collect();
            flow.private(&origin("files", "read_file", 1), &text);
        }
        assert!(flow.values.len() <= VALUES && flow.order.len() <= VALUES);
    }
}
