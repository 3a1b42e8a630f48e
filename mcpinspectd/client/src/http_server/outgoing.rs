//! The headers that repeat parts of a message, for intermediaries that do not read bodies.
//!
//! Only the modern era has them. Its servers compare, and refuse a message whose headers are missing or say
//! something else. A tool's schema says which of its arguments are repeated (`x-mcp-header`).

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// Where a message of the modern era says its revision.
const REVISION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// The member of a parameter's schema that names its header.
const ANNOTATION: &str = "x-mcp-header";

/// Most arguments of a tool to repeat, and how deep they may be.
const MAX_PARAMETERS: usize = 64;
const MAX_DEPTH: usize = 16;

/// A message to send.
pub struct Outgoing {
    /// Its JSON.
    pub text: Bytes,
    /// Empty for an answer.
    pub method: String,
    /// Its id, if it is a request.
    pub request: Option<u64>,
    /// Which request it cancels, if it does.
    pub cancels: Option<u64>,
    /// Its revision, if it says one.
    pub revision: Option<HeaderValue>,
    /// The headers that repeat parts of it.
    pub mirrored: HeaderMap,
}

/// A request that waits for its answer.
#[derive(Clone, Copy)]
pub struct AwaitedRequest {
    pub id: u64,
    pub is_initialize: bool,
    pub is_modern: bool,
}

/// The arguments that are repeated in headers, by tool.
#[derive(Default)]
pub struct Tools(HashMap<String, Vec<Parameter>>);

struct Parameter {
    path: Vec<String>,
    header: HeaderName,
}

impl Outgoing {
    /// Reads a message.
    pub fn read(text: String, tools: &Tools) -> Self {
        // What this program sends is JSON; a script may send other things, which have no method.
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        let text_at = |path: &str| message.pointer(path).and_then(Value::as_str);
        let method = text_at("/method").unwrap_or_default().to_owned();
        let revision = text_at(REVISION).map(header_value);
        let cancels = (method == "notifications/cancelled")
            .then(|| message.pointer("/params/requestId")?.as_u64());
        let mut mirrored = HeaderMap::new();
        if revision.is_some() {
            mirrored.insert("mcp-method", header_value(&method));
            let name = match method.as_str() {
                "tools/call" | "prompts/get" => text_at("/params/name"),
                "resources/read" => text_at("/params/uri"),
                _ => None,
            };
            if let Some(name) = name {
                mirrored.insert("mcp-name", header_value(name));
            }
            if let ("tools/call", Some(name)) = (method.as_str(), name) {
                tools.mirror(name, message.pointer("/params/arguments"), &mut mirrored);
            }
        }
        let id = message.get("id").and_then(Value::as_u64);
        Self {
            request: id.filter(|_| !method.is_empty()),
            cancels: cancels.flatten(),
            revision,
            mirrored,
            method,
            text: text.into(),
        }
    }

    /// What to remember of it while its answer is awaited.
    pub fn pending(&self, id: u64) -> AwaitedRequest {
        AwaitedRequest {
            id,
            is_initialize: self.method == "initialize",
            is_modern: self.revision.is_some(),
        }
    }
}

impl Tools {
    /// Learns a tool's definition.
    pub fn learn(&mut self, tool: &Value) {
        if let Some(name) = tool.get("name").and_then(Value::as_str) {
            let mut found = Vec::new();
            if let Some(schema) = tool.get("inputSchema") {
                annotated(schema, &mut Vec::new(), &mut found);
            }
            self.0.insert(name.to_owned(), found);
        }
    }

    fn mirror(&self, tool: &str, arguments: Option<&Value>, headers: &mut HeaderMap) {
        for parameter in self.0.get(tool).into_iter().flatten() {
            let path = parameter.path.iter();
            let value = path.fold(arguments, |value, name| value?.get(name));
            let text = match value {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Bool(is)) => is.to_string(),
                Some(Value::Number(number)) => number.to_string(),
                _ => continue,
            };
            headers.insert(parameter.header.clone(), header_value(&text));
        }
    }
}

/// Finds the properties that have a header, down through properties alone.
fn annotated(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Parameter>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if found.len() >= MAX_PARAMETERS || path.len() >= MAX_DEPTH {
            return;
        }
        path.push(name.clone());
        let header = property.get(ANNOTATION).and_then(Value::as_str);
        let header = header.and_then(|header| format!("mcp-param-{header}").parse().ok());
        if let Some(header) = header {
            let path = path.clone();
            found.push(Parameter { path, header });
        }
        annotated(property, path, found);
        path.pop();
    }
}

/// A header's value: anything but plain text, and text that could be mistaken for Base64, is in Base64.
pub fn header_value(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    let encoded = match is_plain {
        true => HeaderValue::from_str(text),
        false => HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text))),
    };
    // Both are printable ASCII.
    encoded.unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(message: &Value, tools: &Tools) -> Outgoing {
        Outgoing::read(message.to_string(), tools)
    }

    fn headers(message: &Value, tools: &Tools) -> Vec<(String, String)> {
        let mirrored = read(message, tools).mirrored;
        let mirrored = mirrored.iter();
        mirrored
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()))
            .collect()
    }

    #[test]
    fn headers_repeat_messages_of_the_modern_era_only() {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "é", "_meta": meta}});
        let expected = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?w6k=?="),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers(&call, &Tools::default()), expected);
        let list = json!({"id": 1, "method": "tools/list", "params": {"name": "x", "_meta": meta}});
        assert_eq!(headers(&list, &Tools::default()).len(), 1);
        let legacy = json!({"id": 1, "method": "tools/call", "params": {"name": "x"}});
        assert_eq!(headers(&legacy, &Tools::default()), []);
        assert_eq!(header_value("=?base64?x"), "=?base64?PT9iYXNlNjQ/eA==?=");
        assert_eq!(header_value(" x"), "=?base64?IHg=?=");
    }

    #[test]
    fn a_schema_says_which_arguments_are_repeated() {
        let mut tools = Tools::default();
        tools.learn(&json!({"name": "t", "inputSchema": {"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "odd": {"type": "string", "x-mcp-header": "no token"},
            "plain": {"type": "string"},
            "deep": {"properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "absent": {"type": "integer", "x-mcp-header": "Absent"},
        }}}));
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = |name: &str| {
            json!({"id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta,
            "arguments": {"region": "eu", "odd": "x", "plain": "y", "deep": {"on": true}}}})
        };
        let mut found = headers(&call("t"), &tools);
        found.retain(|(name, _)| name.starts_with("mcp-param"));
        found.sort();
        let expected = [("mcp-param-on", "true"), ("mcp-param-region", "eu")];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(headers(&call("other"), &tools).len(), 2);
    }

    #[test]
    fn messages_are_told_apart() {
        let tools = Tools::default();
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 7}});
        let cancel = read(&cancel, &tools);
        assert_eq!((cancel.cancels, cancel.request), (Some(7), None));
        let answer = read(&json!({"id": 7, "result": {}}), &tools);
        assert_eq!((answer.request, answer.method.as_str()), (None, ""));
        assert_eq!(
            read(&json!({"id": 7, "method": "x"}), &tools).request,
            Some(7)
        );
    }
}
