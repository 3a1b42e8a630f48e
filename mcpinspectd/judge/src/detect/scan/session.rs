//! Whole sessions: the messages of one agent and its servers, in order.
//!
//! A single message does not show what an agent does after it has read something. A line
//! `{"messages": [{"server", "direction", "message"}, …]}` goes through the same detector as the live stream, with
//! one client for all of its servers, and is judged as one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mcpinspect_core::mcp::{Message, Outcome, Payload, parse};
use mcpinspect_core::model::{
    Action, DefinitionHash, Direction, Pid, ServerId, SessionId, Timestamp, ToolStatus, publisher,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::line::Line;

use crate::detect::analysis::Report;
use crate::detect::api::{
    Detector, MessageInContext, Offer, SessionContext, ToolDefinition, Verdict,
};
use crate::detect::json::Json;
use crate::detect::layers::Layers;
use crate::detect::runtime::RuntimeDetector;
use crate::detect::weighted_rules::{ActiveRules, WeightedRules};

/// Most findings of a session to list.
const DETECTIONS: usize = 256;
/// The client of all servers in a session.
const CLIENT: Pid = Pid(1);
/// The time from one message to the next, in nanoseconds.
const STEP: u64 = 1_000_000_000;

/// What was found in a session.
#[derive(Debug)]
pub(super) struct JudgedSession {
    /// The findings of all its messages together.
    pub(super) report: Report,
    /// The index of the first message that raised an alert.
    pub(super) alert_at: Option<usize>,
    /// The other members of its line.
    pub(super) extra: Map<String, Value>,
}

/// Judges a line that is a session; `None` if it is something else.
pub(super) fn judge_line(
    rules: &Arc<WeightedRules>,
    layers: Layers,
    line: &Line,
    now: Timestamp,
) -> Option<JudgedSession> {
    let content = line
        .may_be_session()
        .then(|| line.content().ok())
        .flatten()?;
    let messages = content.value.get("messages").and_then(Json::as_array)?;
    let is_session =
        |one: &Json<'_>| one.get("message").is_some() && one.get("direction").is_some();
    if !messages.first().is_some_and(is_session) {
        return None;
    }
    let judged = judge(rules, layers, messages, content.user, now);
    Some(JudgedSession {
        extra: content.extra,
        ..judged
    })
}

/// A session that is being judged.
struct Session {
    detector: RuntimeDetector,
    /// The requests waiting for an answer, by server and id: the method, and the called tool.
    open: HashMap<(String, String), (String, Option<String>)>,
    user: Option<u32>,
    /// The servers with a page of a listing still to come.
    listing: HashSet<String>,
}

/// Judges the messages of a session whose servers run as `user`. The session begins at `now`.
fn judge(
    rules: &Arc<WeightedRules>,
    layers: Layers,
    messages: &[Json<'_>],
    user: Option<u32>,
    now: Timestamp,
) -> JudgedSession {
    let active = Arc::new(ActiveRules::new(Arc::clone(rules)));
    let mut session = Session {
        detector: RuntimeDetector::new(active).with_layers(layers),
        open: HashMap::new(),
        user,
        listing: HashSet::new(),
    };
    let mut judged = JudgedSession {
        report: Report::clean(),
        alert_at: None,
        extra: Map::new(),
    };
    for (index, one) in messages.iter().enumerate() {
        let time = Timestamp(now.0.saturating_add(index as u64 * STEP));
        session.message(one, time, &mut |score, verdict| {
            if verdict.action >= Action::Alert {
                judged.alert_at.get_or_insert(index);
            }
            judged.report.action = judged.report.action.max(verdict.action);
            judged.report.severity = judged.report.severity.max(verdict.max_severity);
            judged.report.score = judged.report.score.max(score);
            let room = DETECTIONS.saturating_sub(judged.report.detections.len());
            let found = verdict.detections.into_iter().take(room);
            judged.report.detections.extend(found.map(|mut detection| {
                detection.field = format!("messages[{index}].message.{}", detection.field);
                detection
            }));
        });
    }
    judged
}

impl Session {
    /// Judges one message.
    fn message(&mut self, one: &Json<'_>, time: Timestamp, tell: &mut dyn FnMut(f32, Verdict)) {
        let text = |key: &str| one.get(key).and_then(Json::as_str).unwrap_or_default();
        let server = text("server");
        let direction = match text("direction") {
            "server_to_client" => Direction::ServerToClient,
            _ => Direction::ClientToServer,
        };
        let Some(raw) = one
            .get("message")
            .and_then(|message| to_raw_value(&Value::from(message.clone())).ok())
        else {
            return;
        };
        let Ok(Payload::Single(parsed)) = parse(raw.get().as_bytes()) else {
            return;
        };
        let message = &parsed.message;
        let (reply_to, tool) = self.exchange(server, message);
        let (server_id, session_id) = (ServerId(server.into()), SessionId(server.into()));
        let context = SessionContext {
            server_id: &server_id,
            user: self.user,
            session_id: &session_id,
            client: Some(CLIENT),
            time,
        };
        if let Message::Response(response) = message
            && let Outcome::Result(result) = response.outcome
        {
            match reply_to.as_deref() {
                Some("tools/list") => {
                    let listing = Listing::of(result);
                    self.offered(&context, &listing);
                    for definition in listing.tools {
                        self.definition(&context, definition, tell);
                    }
                }
                Some("initialize" | "server/discover") => {
                    for introduction in introductions(result) {
                        let new = ToolStatus::New;
                        let verdict = self.detector.introduction(&context, introduction, new);
                        tell(0.0, verdict);
                    }
                }
                _ => {}
            }
        }
        let message = MessageInContext {
            direction,
            message,
            reply_to: reply_to.as_deref(),
            tool: tool.as_deref(),
        };
        let verdict = self.detector.message(&context, &message);
        tell(self.detector.last_score(), verdict);
    }

    /// Tells the detector which tools a page of a listing offers.
    fn offered(&mut self, context: &SessionContext<'_>, listing: &Listing<'_>) {
        let server = &*context.server_id.0;
        let last = listing.next.is_none();
        let first = match last {
            true => !self.listing.remove(server),
            false => self.listing.insert(server.to_owned()),
        };
        let definitions: Vec<Json<'_>> = listing
            .tools
            .iter()
            .map(|tool| Json::from_raw(tool))
            .collect();
        let names = definitions
            .iter()
            .filter_map(|tool| tool.get("name")?.as_str());
        let names: Vec<&str> = names.collect();
        let publisher = publisher(server);
        let offer = Offer {
            names: &names,
            publisher: publisher.as_deref(),
            first,
            last,
        };
        self.detector.offered(context, &offer);
    }

    /// Judges a tool's definition.
    fn definition(
        &mut self,
        context: &SessionContext<'_>,
        definition: &RawValue,
        tell: &mut dyn FnMut(f32, Verdict),
    ) {
        let name = Json::from_raw(definition);
        let name = name.get("name").and_then(Json::as_str).unwrap_or_default();
        let tool = ToolDefinition {
            name,
            hash: DefinitionHash::of(definition.get().as_bytes()),
            definition,
            status: ToolStatus::New,
            pinned: None,
        };
        let verdict = self.detector.tool(context, &tool);
        tell(self.detector.last_score(), verdict);
    }

    /// What a message answers, and the tool that it is about.
    fn exchange(
        &mut self,
        server: &str,
        message: &Message<'_>,
    ) -> (Option<String>, Option<String>) {
        let key = |id: &str| (server.to_owned(), id.to_owned());
        match message {
            Message::Request(request) => {
                let method = request.method.to_string();
                let tool = message.params().filter(|_| method == "tools/call");
                let tool = tool.and_then(|params| {
                    Json::from_raw(params)
                        .get("name")
                        .and_then(Json::as_str)
                        .map(str::to_owned)
                });
                self.open.insert(key(request.id.0), (method, tool.clone()));
                (None, tool)
            }
            Message::Response(response) => {
                let request = response.id.and_then(|id| self.open.remove(&key(id.0)));
                request.map_or((None, None), |(method, tool)| (Some(method), tool))
            }
            Message::Notification(_) => (None, None),
        }
    }
}

/// What a server says about itself in its first result.
fn introductions(result: &RawValue) -> impl Iterator<Item = &RawValue> {
    #[derive(Default, serde::Deserialize)]
    struct First<'a> {
        #[serde(borrow)]
        instructions: Option<&'a RawValue>,
        #[serde(borrow, rename = "serverInfo")]
        server_info: Option<&'a RawValue>,
    }
    let first: First<'_> = serde_json::from_str(result.get()).unwrap_or_default();
    [first.instructions, first.server_info]
        .into_iter()
        .flatten()
}

/// The result of a `tools/list`.
#[derive(Default, serde::Deserialize)]
struct Listing<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, rename = "nextCursor")]
    next: Option<&'a RawValue>,
}

impl<'a> Listing<'a> {
    /// Reads a result; anything that is not a listing is an empty one.
    fn of(result: &'a RawValue) -> Self {
        serde_json::from_str(result.get()).unwrap_or_default()
    }
}
