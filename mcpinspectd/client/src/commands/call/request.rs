//! The request to make: a method and its parameters, from options or from a step of a script.
//!
//! Options have names that people know (`--tool`, `--uri`); parameters have those of the protocol. This is
//! the only place that knows both.

use crate::failure::{Category, Failure};
use serde_json::{Map, Value, json};

/// A method and its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallRequest {
    /// The method, or `discover` for everything that a server offers.
    pub method: String,
    /// Its known parameters.
    pub params: Map<String, Value>,
    /// Arguments of a tool as text: the tool's schema says what types they have.
    pub texts: Vec<(String, String)>,
    /// Whether to send it even if the server does not offer it, or its schema refuses it.
    pub unchecked: bool,
}

/// Parameters by their names for people.
#[derive(Clone, Debug, Default)]
pub struct RequestParts {
    pub tool: Option<String>,
    pub prompt: Option<String>,
    pub uri: Option<String>,
    pub level: Option<String>,
    pub arguments: Option<Map<String, Value>>,
    pub params: Option<Map<String, Value>>,
    pub texts: Vec<(String, String)>,
}

impl RequestParts {
    /// Puts the parts in their places for `method`.
    ///
    /// # Errors
    /// In words: a part has no place in this method.
    pub fn request(self, method: &str) -> Result<CallRequest, String> {
        let misplaced = [
            ("tool", self.tool.is_some(), method == "tools/call"),
            (
                "prompt",
                self.prompt.is_some(),
                matches!(method, "prompts/get" | "completion/complete"),
            ),
            (
                "uri",
                self.uri.is_some(),
                method == "completion/complete"
                    || (method.starts_with("resources/") && !method.ends_with("list")),
            ),
            ("level", self.level.is_some(), method == "logging/setLevel"),
            (
                "arguments",
                self.arguments.is_some() || !self.texts.is_empty(),
                matches!(method, "tools/call" | "prompts/get" | "completion/complete"),
            ),
        ];
        for (part, given, belongs) in misplaced {
            if given && !belongs {
                return Err(format!(
                    "`{method}` takes no {part}; use params for other parameters"
                ));
            }
        }
        if self.prompt.is_some() && self.uri.is_some() {
            return Err("give either a prompt or a uri to complete, not both".to_owned());
        }
        let mut request = CallRequest {
            method: method.to_owned(),
            params: self.params.unwrap_or_default(),
            ..CallRequest::default()
        };
        let mut put = |name: &str, value: Value| request.params.insert(name.to_owned(), value);
        let arguments = self.arguments.unwrap_or_default();
        if method == "completion/complete" {
            if let Some(name) = self.prompt {
                put("ref", json!({ "type": "ref/prompt", "name": name }));
            } else if let Some(uri) = self.uri {
                put("ref", json!({ "type": "ref/resource", "uri": uri }));
            }
            let texts = self.texts.into_iter();
            let texts = texts.map(|(name, text)| (name, Value::String(text)));
            let mut all = arguments.into_iter().chain(texts);
            if let Some((name, value)) = all.next() {
                put("argument", json!({ "name": name, "value": value }));
            }
            return match all.next() {
                Some(_) => Err(
                    "completion takes exactly one argument; use params for its context".to_owned(),
                ),
                None => Ok(request),
            };
        }
        if let Some(name) = self.tool.or(self.prompt) {
            put("name", name.into());
        }
        if let Some(uri) = self.uri {
            put("uri", uri.into());
        }
        if let Some(level) = self.level {
            put("level", level.into());
        }
        if !arguments.is_empty() {
            put("arguments", Value::Object(arguments));
        }
        if method == "prompts/get" {
            // A prompt's arguments are strings.
            for (name, text) in self.texts {
                request.add_argument(name, text.into());
            }
        } else {
            request.texts = self.texts;
        }
        Ok(request)
    }
}

impl CallRequest {
    /// The arguments of a tool or prompt.
    pub fn arguments(&self) -> Map<String, Value> {
        match self.params.get("arguments") {
            Some(Value::Object(arguments)) => arguments.clone(),
            _ => Map::new(),
        }
    }

    fn add_argument(&mut self, name: String, value: Value) {
        let arguments = self.params.entry("arguments").or_insert_with(|| json!({}));
        if let Value::Object(arguments) = arguments {
            arguments.insert(name, value);
        }
    }

    /// Checks that the parameters required by the method are there.
    ///
    /// # Errors
    /// One is missing, or has the wrong type.
    pub fn check(&self) -> Result<(), Failure> {
        let needed: &[(&str, &str)] = match self.method.as_str() {
            "tools/call" => &[("name", "the tool (`--tool`)")],
            "prompts/get" => &[("name", "the prompt (`--prompt`)")],
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                &[("uri", "the resource (`--uri`)")]
            }
            "logging/setLevel" => &[("level", "the level (`--level`)")],
            "completion/complete" => &[
                ("ref", "what to complete (`--prompt` or `--uri`)"),
                ("argument", "the argument to complete (`--arg`)"),
            ],
            _ => &[],
        };
        for (member, what) in needed {
            let is_right = match (self.params.get(*member), *member) {
                (Some(Value::Object(_)), "ref" | "argument") => true,
                (Some(Value::String(_)), member) => !matches!(member, "ref" | "argument"),
                _ => false,
            };
            if !is_right {
                return Err(Failure::new(
                    Category::Validation,
                    "missing_parameter",
                    format!("`{}` needs {what}", self.method),
                )
                .with(json!({ "method": self.method, "parameter": member })));
            }
        }
        match self.params.get("arguments") {
            None | Some(Value::Object(_)) => Ok(()),
            Some(_) => Err(Failure::new(
                Category::Validation,
                "invalid_arguments",
                "arguments must be an object",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(given: &[(&str, &str)]) -> Vec<(String, String)> {
        let given = given.iter();
        given
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn parts_find_their_places() {
        let request = RequestParts {
            prompt: Some("p".to_owned()),
            texts: texts(&[("a", "1")]),
            ..RequestParts::default()
        };
        let get = request.clone().request("prompts/get").unwrap();
        assert_eq!(
            Value::Object(get.params),
            json!({"name": "p", "arguments": {"a": "1"}})
        );
        let complete = request.request("completion/complete").unwrap();
        let expected = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "1"}});
        assert_eq!(Value::Object(complete.params.clone()), expected);
        complete.check().unwrap();
    }

    #[test]
    fn parts_without_a_place_are_refused() {
        let tool = || RequestParts {
            tool: Some("t".to_owned()),
            ..RequestParts::default()
        };
        assert!(
            tool()
                .request("tools/list")
                .unwrap_err()
                .contains("no tool")
        );
        assert!(tool().request("tools/call").unwrap().check().is_ok());
        let two = RequestParts {
            texts: texts(&[("a", "1"), ("b", "2")]),
            ..RequestParts::default()
        };
        assert!(two.request("completion/complete").is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        for method in [
            "tools/call",
            "prompts/get",
            "resources/read",
            "completion/complete",
            "logging/setLevel",
        ] {
            let failure = RequestParts::default()
                .request(method)
                .unwrap()
                .check()
                .unwrap_err();
            assert_eq!(failure.category, Category::Validation, "{method}");
        }
        let params = json!({"name": 1});
        let request = RequestParts {
            params: params.as_object().cloned(),
            ..RequestParts::default()
        };
        assert!(request.request("tools/call").unwrap().check().is_err());
        RequestParts::default()
            .request("tools/list")
            .unwrap()
            .check()
            .unwrap();
    }
}
