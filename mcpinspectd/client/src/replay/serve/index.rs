//! Matches a client's request with one on the tape.

use std::collections::{HashMap, HashSet, VecDeque};

use mcpinspect_core::mcp::message::Request;
use mcpinspect_core::mcp::{Budget, json};
use mcpinspect_core::model::Direction;
use mcpinspect_core::text::redact;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::replay::TREE;
use crate::replay::recording::{Recording, TapeMessageKind};

/// How requests are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// Each must be the next one on the tape, with the same parameters.
    Strict,
    /// It is the next one of its method, whatever its parameters.
    Sequential,
    /// It is the next one with its method and parameters. When the tape has no more, the last one is used
    /// again.
    ByParams,
}

/// Requests whose parameters describe the client, and not what it wants.
const GREETINGS: [&str; 2] = ["initialize", "server/discover"];

/// The requests and notifications of a tape's client.
#[derive(Debug)]
pub struct Index {
    matching: Matching,
    methods: HashSet<Box<str>>,
    /// Those that are left, in order, by matching key.
    requests: HashMap<String, VecDeque<usize>>,
    /// Their matching keys in order, if order counts.
    order: VecDeque<String>,
    /// The last one of each, which is reused.
    last: HashMap<String, usize>,
    notifications: HashMap<Box<str>, VecDeque<usize>>,
    /// Whether secrets are masked before requests are compared, as they are on the tape.
    is_masked: bool,
}

impl Index {
    /// The requests and notifications of `recording`.
    pub fn new(recording: &Recording, matching: Matching) -> Self {
        let mut index = Self {
            matching,
            methods: HashSet::new(),
            requests: HashMap::new(),
            order: VecDeque::new(),
            last: HashMap::new(),
            notifications: HashMap::new(),
            is_masked: !recording.header.is_anonymised
                && recording.messages.iter().any(|recorded| recorded.is_masked),
        };
        for (at, recorded) in recording.messages.iter().enumerate() {
            if recorded.direction == Direction::ServerToClient {
                continue;
            }
            match &recorded.kind {
                TapeMessageKind::Request { method, .. } => {
                    let message = recorded.message();
                    let raw = message.as_ref().and_then(|message| message.params());
                    let params = raw.and_then(|raw| json::value(raw, &mut Budget::of(TREE)));
                    let key = index.key(method, raw, params.as_ref());
                    if matching == Matching::Strict {
                        index.order.push_back(key.clone());
                    }
                    index.methods.insert(method.clone());
                    index.last.insert(key.clone(), at);
                    index.requests.entry(key).or_default().push_back(at);
                }
                TapeMessageKind::Notification { method } => {
                    let all = index.notifications.entry(method.clone());
                    all.or_default().push_back(at);
                }
                _ => {}
            }
        }
        index
    }

    /// Whether the tape has requests of this method.
    pub fn has(&self, method: &str) -> bool {
        self.methods.contains(method)
    }

    /// The index of this request on the tape.
    pub fn request(&mut self, request: &Request<'_>, params: Option<&Value>) -> Option<usize> {
        let key = self.key(&request.method, request.params, params);
        if self.matching == Matching::Strict {
            if self.order.front() != Some(&key) {
                return None;
            }
            self.order.pop_front();
        }
        let next = self.requests.get_mut(&key).and_then(VecDeque::pop_front);
        match self.matching {
            Matching::ByParams => next.or_else(|| self.last.get(&key).copied()),
            _ => next,
        }
    }

    /// The index on the tape of the next notification of this method.
    pub fn notification(&mut self, method: &str) -> Option<usize> {
        self.notifications.get_mut(method)?.pop_front()
    }

    /// The indexes of the requests that were not made, in order.
    pub fn left(&self) -> Vec<usize> {
        let mut left: Vec<usize> = self.requests.values().flatten().copied().collect();
        left.sort_unstable();
        left
    }

    /// The matching key of a request.
    fn key(&self, method: &str, raw: Option<&RawValue>, params: Option<&Value>) -> String {
        if self.matching == Matching::Sequential || GREETINGS.contains(&method) {
            return method.to_owned();
        }
        let params = match (params, raw) {
            (Some(Value::Object(members)), _) => {
                let mut members = members.clone();
                // It concerns only the two programs: tokens, traces, versions.
                members.remove("_meta");
                Value::Object(members).to_string()
            }
            (Some(other), _) => other.to_string(),
            (None, Some(raw)) => raw.get().to_owned(),
            (None, None) => "{}".to_owned(),
        };
        match self.is_masked {
            true => format!("{method}\n{}", redact::json(&params)),
            false => format!("{method}\n{params}"),
        }
    }
}
