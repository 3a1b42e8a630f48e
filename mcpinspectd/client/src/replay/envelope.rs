//! Messages under new ids, with values substituted.
//!
//! A message goes out as it was recorded, text for text: only the members of its envelope that change are
//! replaced. Parameters are parsed and rewritten only if something in them has to be another value:
//!
//! - what the user substitutes,
//! - the id that a cancellation names,
//! - what the recorded server made up and wants back: cursors, states of requests, ids of tasks. The
//!   new server made up others, which are put in their place.

use std::collections::HashMap;

use mcpinspect_core::json_path::Assignment;
use mcpinspect_core::mcp::json;
use mcpinspect_core::mcp::{Budget, Message};
use serde_json::Value;

use super::TREE;

/// Members of a result that come back as a parameter, and their names there.
const CARRIED: [(&str, &str); 3] = [
    ("nextCursor", "cursor"),
    ("requestState", "requestState"),
    ("taskId", "taskId"),
];

/// Where else the id of a task appears.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// `text` on one line, with these members of its envelope (names and JSON texts) replaced or added. `None`
/// if it is not an object.
pub fn edited(text: &str, replace: &[(&str, &str)]) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut is_there = vec![false; replace.len()];
    let mut member = |name: &str, value: &str| {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(&Value::from(name).to_string());
        out.push(':');
        // Line breaks in JSON text are white space.
        out.extend(value.chars().map(|char| match char {
            '\n' | '\r' => ' ',
            other => other,
        }));
    };
    let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    json::members(text, key, |name, value| {
        let at = replace.iter().position(|(other, _)| *other == name);
        match at.and_then(|at| Some((is_there.get_mut(at)?, replace.get(at)?))) {
            Some((is_there, (_, new))) => {
                if !std::mem::replace(is_there, true) {
                    member(&name, new);
                }
            }
            None => member(&name, value.get()),
        }
    })
    .ok()?;
    for (is_there, (name, value)) in is_there.iter().zip(replace) {
        if !is_there {
            member(name, value);
        }
    }
    match out.is_empty() {
        true => Some("{}".to_owned()),
        false => {
            out.push('}');
            Some(out)
        }
    }
}

/// What has a different name than on the tape.
#[derive(Debug, Default)]
pub struct Renamed {
    /// Requests' ids, as JSON text.
    ids: HashMap<Box<str>, u64>,
    /// What the server made up.
    values: HashMap<String, String>,
}

/// A message ready to send.
#[derive(Debug, PartialEq)]
pub struct Outgoing {
    /// The line, without its end.
    pub line: String,
    /// Its parameters, if they were read.
    pub params: Option<Value>,
    /// By assignment: in how many places it was substituted.
    pub places: Vec<usize>,
}

impl Renamed {
    /// Notes a request's new id.
    pub fn id(&mut self, old: &str, new: u64) {
        self.ids.insert(old.into(), new);
    }

    /// The new id of the request that a cancellation cancels, if it was sent.
    pub fn cancels(&self, params: &Value) -> Option<u64> {
        let id = params.get("requestId")?.to_string();
        self.ids.get(id.as_str()).copied()
    }

    /// Learns from an answer what the server made up this time.
    pub fn learn(&mut self, old: &Value, new: &Value) {
        for (old, new) in [(Some(old), Some(new)), (old.get("task"), new.get("task"))] {
            for (name, _) in CARRIED {
                let member = |value: Option<&Value>| value?.get(name)?.as_str().map(str::to_owned);
                if let (Some(old), Some(new)) = (member(old), member(new))
                    && old != new
                {
                    self.values.insert(old, new);
                }
            }
        }
    }

    /// Whether parameters may name something that has a different name now.
    fn may_change(&self, method: &str) -> bool {
        !self.values.is_empty() || method == CANCELLED
    }

    fn apply(&self, method: &str, params: &mut Value) -> bool {
        let mut changed = false;
        let mut put = |value: Option<&mut Value>| {
            if let Some(value) = value
                && let Some(new) = value.as_str().and_then(|old| self.values.get(old))
            {
                *value = Value::String(new.clone());
                changed = true;
            }
        };
        for (_, name) in CARRIED {
            put(params.get_mut(name));
        }
        let meta = params.get_mut("_meta");
        let related = meta.and_then(|meta| meta.get_mut(RELATED_TASK));
        put(related.and_then(|task| task.get_mut("taskId")));
        if method == CANCELLED
            && let Some(new) = self.cancels(params)
        {
            params["requestId"] = new.into();
            changed = true;
        }
        changed
    }
}

/// The notification that cancels a request.
pub const CANCELLED: &str = "notifications/cancelled";

/// `text`, a recorded request or notification, under its new id (if it has one), with values
/// substituted. `None` if it is neither.
pub fn outgoing(
    text: &str,
    message: &Message<'_>,
    id: Option<u64>,
    assignments: &[Assignment],
    renamed: &Renamed,
) -> Option<Outgoing> {
    let method = message.method()?;
    let mut params = message
        .params()
        .and_then(|params| json::value(params, &mut Budget::of(TREE)));
    let mut changed = false;
    let mut places = vec![0; assignments.len()];
    if renamed.may_change(method)
        && let Some(params) = &mut params
    {
        changed = renamed.apply(method, params);
    }
    for (assignment, places) in assignments.iter().zip(&mut places) {
        let pattern = &assignment.pattern;
        if !pattern.concerns(method, params.as_ref()) {
            continue;
        }
        // What could not be read is left unchanged.
        if params.is_none() && message.params().is_none() {
            params = Some(Value::Object(serde_json::Map::new()));
        }
        if let Some(params) = &mut params {
            *places = pattern.set(params, &assignment.value);
            changed |= *places > 0;
        }
    }
    let id = id.map(|id| id.to_string());
    let new = params.as_ref().filter(|_| changed).map(Value::to_string);
    let mut replace = Vec::new();
    if let Some(id) = &id {
        replace.push(("id", id.as_str()));
    }
    if let Some(new) = &new {
        replace.push(("params", new.as_str()));
    }
    Some(Outgoing {
        line: edited(text, &replace)?,
        params,
        places,
    })
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::mcp::{Payload, parse};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn sent(text: &str, id: Option<u64>, assignments: &[&str], renamed: &Renamed) -> Value {
        let Ok(Payload::Single(parsed)) = parse(text.as_bytes()) else {
            panic!("{text} is no message");
        };
        let assignments: Vec<Assignment> = assignments
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let outgoing = outgoing(text, &parsed.message, id, &assignments, renamed).unwrap();
        serde_json::from_str(&outgoing.line).unwrap()
    }

    #[test]
    fn only_what_changes_is_written_anew() {
        let text = "{ \"method\":\"m\",\n \"params\": {\"b\":1.50, \"a\": 1e400},\r\n\"id\":\"x\",\"more\":[1 , 2]}";
        assert_eq!(
            edited(text, &[("id", "7")]).as_deref(),
            Some(
                "{\"method\":\"m\",\"params\":{\"b\":1.50, \"a\": 1e400},\"id\":7,\"more\":[1 , 2]}"
            )
        );
        assert_eq!(edited("{}", &[]).as_deref(), Some("{}"));
        assert_eq!(edited("{}", &[("id", "1")]).as_deref(), Some("{\"id\":1}"));
        assert_eq!(
            edited("{\"id\":1,\"id\":2}", &[("id", "3")]).as_deref(),
            Some("{\"id\":3}")
        );
        assert_eq!(edited("[]", &[]), None);
        assert_eq!(edited("{\"a\":", &[]), None);
    }

    #[test]
    fn values_are_substituted_where_the_method_and_its_parameters_say() {
        let call = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"x","arguments":{"path":"/home"}}}"#;
        let renamed = Renamed::default();
        let set = ["tools/call[name=x].arguments.path=/tmp"];
        let message = sent(call, Some(9), &set, &renamed);
        assert_eq!(message["id"], 9);
        assert_eq!(message["params"]["arguments"]["path"], "/tmp");
        let other = [
            "tools/call[name=y].arguments.path=/tmp",
            "tools/list.cursor=1",
        ];
        let message = sent(call, Some(9), &other, &renamed);
        assert_eq!(message["params"]["arguments"]["path"], "/home");
        let list = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#;
        let message = sent(list, Some(2), &other, &renamed);
        assert_eq!(message["params"], json!({"cursor": 1}));
    }

    #[test]
    fn what_a_server_made_up_comes_back_as_the_new_one_made_it_up() {
        let mut renamed = Renamed::default();
        renamed.id("\"a\"", 12);
        renamed.learn(
            &json!({"nextCursor": "old", "task": {"taskId": "t-1"}, "text": "old"}),
            &json!({"nextCursor": "new", "task": {"taskId": "t-2"}, "text": "x"}),
        );
        let page = r#"{"id":1,"method":"tools/list","params":{"cursor":"old","other":"old"}}"#;
        let message = sent(page, Some(2), &[], &renamed);
        assert_eq!(message["params"], json!({"cursor": "new", "other": "old"}));
        let task = r#"{"id":1,"method":"tasks/get","params":{"taskId":"t-1"}}"#;
        assert_eq!(
            sent(task, Some(3), &[], &renamed)["params"]["taskId"],
            "t-2"
        );
        let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        assert_eq!(sent(cancel, None, &[], &renamed)["params"]["requestId"], 12);
        let other = r#"{"method":"notifications/cancelled","params":{"requestId":"b"}}"#;
        assert_eq!(sent(other, None, &[], &renamed)["params"]["requestId"], "b");
    }

    proptest! {
        #[test]
        fn a_new_id_changes_nothing_else(id in "[a-z0-9\"\\\\é]{0,8}", new: u64, members in prop::collection::btree_map("[a-zé\" .]{1,6}", any::<i64>(), 0..5)) {
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "m", "params": members});
            let changed = sent(&message.to_string(), Some(new), &[], &Renamed::default());
            let mut wanted = message;
            wanted["id"] = new.into();
            prop_assert_eq!(changed, wanted);
        }
    }
}
