//! The server's lines as the tape has them: under new ids, for the request that they are about.

use std::collections::HashMap;

use mcpinspect_core::mcp::message::{Message, Outcome};
use mcpinspect_core::mcp::{Budget, json as text};
use mcpinspect_core::model::Direction;
use serde_json::{Value, json};

use crate::replay::TREE;
use crate::replay::compare::Subject;
use crate::replay::envelope::{CANCELLED, edited};
use crate::replay::recording::{Recording, TapeMessage, TapeMessageKind};

/// Where notifications of a subscription name the request that opened it.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The revision to answer with if neither side names one.
const REVISION: &str = "2025-11-25";

/// What the server says because of each message of the client: progress reports because of the request
/// that they name, everything else because of the client's last request or notification before it.
pub fn follows(recording: &Recording) -> HashMap<usize, Vec<usize>> {
    let mut follows: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut tokens: HashMap<String, usize> = HashMap::new();
    let mut last = None;
    for (at, recorded) in recording.messages.iter().enumerate() {
        let params = || params_of(recorded);
        match (recorded.direction, &recorded.kind) {
            (Direction::ClientToServer, TapeMessageKind::Request { .. }) => {
                last = Some(at);
                if recorded.text.contains("progressToken")
                    && let Some(token) = params().as_ref().and_then(token)
                {
                    tokens.insert(token.to_string(), at);
                }
            }
            (Direction::ClientToServer, TapeMessageKind::Notification { .. }) => last = Some(at),
            (Direction::ServerToClient, TapeMessageKind::Notification { method }) => {
                let params = (&**method == "notifications/progress")
                    .then(params)
                    .flatten();
                let token = params
                    .as_ref()
                    .and_then(|params| params.get("progressToken"));
                let client_request =
                    token.and_then(|token| tokens.get(&token.to_string()).copied());
                if let Some(because) = client_request.or(last) {
                    follows.entry(because).or_default().push(at);
                }
            }
            (Direction::ServerToClient, TapeMessageKind::Request { .. }) => {
                if let Some(because) = last {
                    follows.entry(because).or_default().push(at);
                }
            }
            _ => {}
        }
    }
    follows
}

/// A message under another id.
pub fn with_id(recorded: &TapeMessage, id: &str) -> Option<String> {
    edited(&recorded.text, &[("id", id)])
}

/// An answer under the client's id; `change` receives its result or error as the member of an object, and returns
/// whether it changed something.
pub fn answer(
    recorded: &TapeMessage,
    id: &str,
    change: impl FnOnce(&mut Value) -> bool,
) -> Option<String> {
    let Some(Message::Response(response)) = recorded.message() else {
        return None;
    };
    let (name, raw) = match response.outcome {
        Outcome::Result(raw) => ("result", raw),
        Outcome::Error(raw) => ("error", raw),
    };
    if let Some(value) = text::value(raw, &mut Budget::of(TREE)) {
        let mut answer = json!({ name: value });
        if change(&mut answer) {
            let new = answer.get(name).map(Value::to_string)?;
            return edited(&recorded.text, &[("id", id), (name, &new)]);
        }
    }
    with_id(recorded, id)
}

/// A notification, adapted to the client's request as it is now: its id and its parameters.
pub fn notification(
    recorded: &TapeMessage,
    old: Option<&TapeMessage>,
    now: Option<(&str, Option<&Value>)>,
) -> Option<String> {
    let as_it_is = || edited(&recorded.text, &[]);
    let (Some(old), Some((id, new))) = (old, now) else {
        return as_it_is();
    };
    let Some(mut params) = params_of(recorded) else {
        return as_it_is();
    };
    let old_params = params_of(old);
    let old_id: Value = match &old.kind {
        TapeMessageKind::Request { id, .. } => serde_json::from_str(id).unwrap_or_default(),
        _ => return as_it_is(),
    };
    let id: Value = serde_json::from_str(id).unwrap_or_default();
    let mut changed = false;
    let mut put = |target: Option<&mut Value>, old: &Value, new: &Value| {
        if let Some(target) = target
            && target == old
        {
            *target = new.clone();
            changed = true;
        }
    };
    let tokens = (
        old_params.as_ref().and_then(token),
        new.and_then(|params| token(params)),
    );
    if let (Some(old), Some(new)) = tokens {
        put(params.get_mut("progressToken"), old, new);
    }
    if recorded.method() == Some(CANCELLED) {
        put(params.get_mut("requestId"), &old_id, &id);
    }
    let meta = params.get_mut("_meta");
    put(
        meta.and_then(|meta| meta.get_mut(SUBSCRIPTION)),
        &old_id,
        &id,
    );
    match changed {
        true => edited(&recorded.text, &[("params", &params.to_string())]),
        false => as_it_is(),
    }
}

/// An answer to `initialize` for a tape that begins after it.
pub fn greeting(recording: &Recording, params: Option<&Value>) -> Value {
    let header = &recording.header;
    let mut capabilities = serde_json::Map::new();
    for (beginning, capability) in [
        ("tools/", "tools"),
        ("prompts/", "prompts"),
        ("resources/", "resources"),
        ("logging/", "logging"),
        ("completion/", "completions"),
    ] {
        let mut requests = recording.requests(Direction::ClientToServer);
        if requests.any(|(_, recorded)| {
            recorded
                .method()
                .is_some_and(|name| name.starts_with(beginning))
        }) {
            capabilities.insert(capability.to_owned(), json!({}));
        }
    }
    let client_request = params.and_then(|params| params.get("protocolVersion")?.as_str());
    let revision = header.protocol_version.as_deref().or(client_request);
    let info = header.server_info.as_ref();
    let info: Option<Value> = info.and_then(|info| serde_json::from_str(info.0.get()).ok());
    let info = info.unwrap_or_else(|| json!({"name": header.server_id, "version": "0"}));
    json!({
        "protocolVersion": revision.unwrap_or(REVISION),
        "capabilities": capabilities,
        "serverInfo": info,
    })
}

/// A request's path: its method and, if something is called by name, that name.
pub fn path(method: &str, params: Option<&Value>) -> String {
    let method = text::cut(method, 200);
    Subject {
        method,
        params,
        number: 0,
    }
    .path()
}

fn token(params: &Value) -> Option<&Value> {
    params.get("_meta")?.get("progressToken")
}

/// The parameters of a message of the tape.
pub fn params_of(recorded: &TapeMessage) -> Option<Value> {
    let message = recorded.message();
    let params = message.as_ref().and_then(|message| message.params())?;
    text::value(params, &mut Budget::of(TREE))
}
