//! Carries out a request over an established connection.

use std::time::Duration;

use mcpinspect_core::text::bound;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::capability;
use crate::connection::{Connection, tree};
use crate::era::{Era, Offer};
use crate::failure::{Category, Failure};
use crate::handshake::Greeting;

use super::request::CallRequest;
use super::schema;

/// How long a server may take to say that its tools changed, if the called one is missing.
const SETTLE: Duration = Duration::from_millis(500);

/// Longest text of a result in the message of a failure, in bytes.
const QUOTED: usize = 300;

/// The methods whose results are lists, and the member that has the list.
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
];

/// The outcome of a request. A tool that fails still has a result.
#[derive(Debug, Default)]
pub struct Outcome {
    pub result: Option<Box<RawValue>>,
    pub failure: Option<Failure>,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self {
            result: None,
            failure: Some(failure),
        }
    }
}

/// A session with a greeted server.
pub struct Session<'c, 'p> {
    pub connection: &'c mut Connection<'p>,
    pub(super) greeting: Greeting,
    tools: Option<Vec<Value>>,
}

impl<'c, 'p> Session<'c, 'p> {
    /// Greets the server.
    pub fn begin(connection: &'c mut Connection<'p>, offer: Offer) -> Result<Self, Failure> {
        let greeting = connection.greet(offer)?;
        Ok(Self {
            connection,
            greeting,
            tools: None,
        })
    }

    /// Carries out a request.
    pub fn perform(&mut self, request: &CallRequest) -> Outcome {
        match self.result(request) {
            Ok(result) => {
                let failure = (request.method == "tools/call")
                    .then(|| failed(&tree(&result)))
                    .flatten();
                Outcome {
                    result: Some(result),
                    failure,
                }
            }
            Err(failure) => failure.into(),
        }
    }

    fn result(&mut self, request: &CallRequest) -> Result<Box<RawValue>, Failure> {
        let method = self.method_of(request);
        if method == "discover" {
            return self.discover();
        }
        let params = self.prepared(request)?;
        if method.starts_with("notifications/") {
            self.connection.deliver(method, &params)?;
            return raw(&Value::Null);
        }
        match LISTS.iter().find(|(list, _)| *list == method) {
            Some((_, member)) if !params.contains_key("cursor") => {
                self.list(method, member, &params)
            }
            _ => self.connection.call(method, &params),
        }
    }

    /// The method to send. In the modern era, `server/discover` is the closest thing to a `ping`.
    pub fn method_of<'a>(&self, request: &'a CallRequest) -> &'a str {
        match (request.method.as_str(), self.greeting.era) {
            ("ping", Era::Modern) => "server/discover",
            (method, _) => method,
        }
    }

    /// Checks what can be checked before sending, and returns the parameters. Arguments that are text get
    /// their types.
    pub fn prepared(&mut self, request: &CallRequest) -> Result<Map<String, Value>, Failure> {
        let method = self.method_of(request);
        let mut params = request.params.clone();
        if !request.unchecked {
            request.check()?;
            let Greeting { era, version, .. } = &self.greeting;
            capability::check(method, *era, version, self.greeting.capabilities())?;
        }
        let name = params.get("name").and_then(Value::as_str);
        match (method, name) {
            ("tools/call", Some(name)) if !request.unchecked || !request.texts.is_empty() => {
                let name = name.to_owned();
                let found = self.tool(&name);
                let tool = match request.unchecked {
                    true => found.unwrap_or_default(),
                    false => found?,
                };
                // Without a schema, all arguments are valid.
                let schema = tool
                    .get("inputSchema")
                    .cloned()
                    .unwrap_or(Value::Bool(true));
                let mut arguments = request.arguments();
                for (name, text) in &request.texts {
                    arguments.insert(name.clone(), schema::typed(&schema, name, text));
                }
                if !request.unchecked {
                    schema::check(&name, &schema, &arguments)?;
                }
                params.insert("arguments".to_owned(), Value::Object(arguments));
            }
            ("prompts/get", Some(name)) if !request.unchecked => {
                let name = name.to_owned();
                self.check_prompt(&name, &request.arguments())?;
            }
            _ => {}
        }
        Ok(params)
    }

    /// A tool's definition.
    fn tool(&mut self, name: &str) -> Result<Value, Failure> {
        loop {
            let tools = match (
                self.tools.take(),
                self.connection.server_messages.tools_changed,
            ) {
                (Some(tools), false) => tools,
                _ => {
                    self.connection.server_messages.tools_changed = false;
                    self.elements("tools/list", "tools")?
                }
            };
            let tool = named(&tools, name).cloned();
            let names = names(&tools);
            self.tools = Some(tools);
            if let Some(tool) = tool {
                self.connection.learn(&tool);
                return Ok(tool);
            }
            // Some servers add tools after the greeting, and say so.
            self.connection.listen(SETTLE)?;
            if !self.connection.server_messages.tools_changed {
                return Err(unknown("tool", name, &names));
            }
        }
    }

    /// Checks that a prompt exists, and that its required arguments are there.
    fn check_prompt(&mut self, name: &str, arguments: &Map<String, Value>) -> Result<(), Failure> {
        let prompts = self.elements("prompts/list", "prompts")?;
        let Some(prompt) = named(&prompts, name) else {
            return Err(unknown("prompt", name, &names(&prompts)));
        };
        let declared = prompt.get("arguments").and_then(Value::as_array);
        let missing: Vec<&str> = declared
            .into_iter()
            .flatten()
            .filter(|argument| argument.get("required") == Some(&Value::Bool(true)))
            .filter_map(|argument| argument.get("name")?.as_str())
            .filter(|name| !arguments.contains_key(*name))
            .collect();
        let ill_typed: Vec<&str> = arguments
            .iter()
            .filter(|(_, value)| !value.is_string())
            .map(|(name, _)| name.as_str())
            .collect();
        if missing.is_empty() && ill_typed.is_empty() {
            return Ok(());
        }
        let message = match missing.is_empty() {
            true => format!(
                "the prompt `{name}` takes strings only; these arguments are not strings: {}",
                ill_typed.join(", ")
            ),
            false => format!(
                "the prompt `{name}` requires these arguments: {}",
                missing.join(", ")
            ),
        };
        Err(
            Failure::new(Category::Validation, "invalid_arguments", message)
                .with(json!({ "prompt": name, "missing": missing, "illTyped": ill_typed })),
        )
    }

    /// A list with all its pages, as one result.
    fn list(
        &mut self,
        method: &str,
        member: &str,
        params: &Map<String, Value>,
    ) -> Result<Box<RawValue>, Failure> {
        let mut pages = Vec::new();
        self.connection.pages(method, params, &mut pages)?;
        if pages.len() == 1
            && let Some(only) = pages.pop()
        {
            return Ok(only);
        }
        let mut all = Vec::new();
        let mut whole = Value::Null;
        for page in &pages {
            let mut page = tree(page);
            if let Some(Value::Array(elements)) = page.get_mut(member) {
                all.append(elements);
            }
            whole = page;
        }
        if let Value::Object(whole) = &mut whole {
            whole.insert(member.to_owned(), Value::Array(all));
            whole.remove("nextCursor");
        }
        raw(&whole)
    }

    fn elements(&mut self, method: &str, member: &str) -> Result<Vec<Value>, Failure> {
        let result = self.list(method, member, &Map::new())?;
        match tree(&result).get_mut(member) {
            Some(Value::Array(elements)) => Ok(std::mem::take(elements)),
            _ => Ok(Vec::new()),
        }
    }

    /// Everything that the server offers.
    fn discover(&mut self) -> Result<Box<RawValue>, Failure> {
        let Greeting { era, version, .. } = &self.greeting;
        let mut found = json!({
            "era": era,
            "protocolVersion": version,
            "serverInfo": self.greeting.server_info(),
            "capabilities": self.greeting.capabilities(),
            "instructions": self.greeting.result.get("instructions"),
        });
        for (method, member) in LISTS {
            let Greeting { era, version, .. } = &self.greeting;
            let offered = capability::check(method, *era, version, self.greeting.capabilities());
            let elements = match offered {
                Ok(()) => self.elements(method, member).or_else(|failure| {
                    // Many servers with resources know no templates.
                    match failure.is_refusal() {
                        true => {
                            self.connection.server_messages.warn(failure.message);
                            Ok(Vec::new())
                        }
                        false => Err(failure),
                    }
                })?,
                Err(_) => Vec::new(),
            };
            found[member] = Value::Array(elements);
        }
        raw(&found)
    }
}

/// The failure of a tool that says `isError`.
pub fn failed(result: &Value) -> Option<Failure> {
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    let content = result.get("content").and_then(Value::as_array);
    let text = content
        .into_iter()
        .flatten()
        .find_map(|block| block.get("text")?.as_str())
        .unwrap_or("the tool failed without giving a reason");
    let text = bound(text, QUOTED);
    Some(Failure::new(
        Category::Application,
        "is_error",
        text.as_ref(),
    ))
}

fn named<'a>(elements: &'a [Value], name: &str) -> Option<&'a Value> {
    let is_it = |element: &&Value| element.get("name").and_then(Value::as_str) == Some(name);
    elements.iter().find(is_it)
}

fn names(elements: &[Value]) -> Vec<String> {
    let names = elements.iter();
    let names = names.filter_map(|element| element.get("name")?.as_str());
    names.map(str::to_owned).collect()
}

fn unknown(what: &str, name: &str, names: &[String]) -> Failure {
    Failure::new(
        Category::Validation,
        "unknown_name",
        format!("the server has no {what} `{name}`"),
    )
    .with(json!({ "name": name, "offered": names }))
}

/// A value as the text of a result.
pub fn raw(value: &Value) -> Result<Box<RawValue>, Failure> {
    to_raw_value(value)
        .map_err(|error| Failure::new(Category::Protocol, "unreadable", error.to_string()))
}
