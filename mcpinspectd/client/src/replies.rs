//! How the server is answered when it asks: as scripted, or no.
//!
//! Sampling, elicitation and roots ask a model or a person. A program that only tests has neither, so it
//! declines, unless it was given answers beforehand.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};
use thiserror::Error;

/// Answers to requests of the server, by method.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    scripted: HashMap<String, Scripted>,
}

#[derive(Clone, Debug)]
enum Scripted {
    /// Always the same.
    Same(Outcome),
    /// In order; then declined.
    InTurn(VecDeque<Outcome>),
}

/// The result or error of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A result.
    Result(Value),
    /// An error.
    Error(Value),
}

/// An answer to the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What it says.
    pub outcome: Outcome,
    /// Whether it was scripted; otherwise the request was declined, or was a `ping`.
    pub is_scripted: bool,
}

/// Why a script of answers cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RepliesError {
    /// It is not an object.
    #[error("expected an object with answers by method")]
    NotAnObject,
    /// An answer is not an object.
    #[error("the answer to `{0}` is neither an object nor a list of objects")]
    NotAnAnswer(String),
}

impl Replies {
    /// Reads `{METHOD: RESULT, METHOD: [RESULT, …]}`, where `{"error": …}` stands for an error. A single
    /// result answers every request of its method; a list answers as many as it has.
    ///
    /// # Errors
    /// It has another form.
    pub fn read(script: Value) -> Result<Self, RepliesError> {
        let Value::Object(methods) = script else {
            return Err(RepliesError::NotAnObject);
        };
        let mut scripted = HashMap::new();
        for (method, answer) in methods {
            let answer = match answer {
                Value::Object(answer) => Some(Scripted::Same(Outcome::read(answer))),
                Value::Array(answers) => answers
                    .into_iter()
                    .map(|answer| match answer {
                        Value::Object(answer) => Some(Outcome::read(answer)),
                        _ => None,
                    })
                    .collect::<Option<_>>()
                    .map(Scripted::InTurn),
                _ => None,
            };
            let answer = answer.ok_or_else(|| RepliesError::NotAnAnswer(method.clone()))?;
            scripted.insert(method, answer);
        }
        Ok(Self { scripted })
    }

    /// The answer to a request of this method.
    pub fn to(&mut self, method: &str) -> Reply {
        let scripted = match self.scripted.get_mut(method) {
            Some(Scripted::Same(outcome)) => Some(outcome.clone()),
            Some(Scripted::InTurn(outcomes)) => outcomes.pop_front(),
            None => None,
        };
        let is_scripted = scripted.is_some();
        Reply {
            outcome: scripted.unwrap_or_else(|| unscripted(method, "declined")),
            is_scripted,
        }
    }
}

impl Outcome {
    fn read(mut answer: Map<String, Value>) -> Self {
        match answer.remove("error") {
            Some(error) if answer.is_empty() => Self::Error(error),
            Some(error) => {
                answer.insert("error".to_owned(), error);
                Self::Result(Value::Object(answer))
            }
            None => Self::Result(Value::Object(answer)),
        }
    }

    /// The member of a response: its name and its value.
    pub fn member(&self) -> (&'static str, &Value) {
        match self {
            Self::Result(value) => ("result", value),
            Self::Error(value) => ("error", value),
        }
    }

    /// The response to the request with this id, as a line. The id is JSON text.
    pub fn response(&self, id: &str) -> String {
        let (name, value) = self.member();
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{value}}}")
    }
}

/// The answer to a request without a script: an empty result to `ping`, else no, with this
/// reason if the protocol has no word for it.
pub fn unscripted(method: &str, reason: &str) -> Outcome {
    match method {
        "ping" => Outcome::Result(json!({})),
        "elicitation/create" => Outcome::Result(json!({ "action": "decline" })),
        // The specification's example for a user who says no.
        "sampling/createMessage" => Outcome::Error(json!({ "code": -1, "message": reason })),
        _ => Outcome::Error(json!({ "code": -32601, "message": reason })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_the_same_or_in_turn_or_no() {
        let script = json!({"roots/list": {"roots": []}, "elicitation/create": [{"action": "accept"}, {"error": {"code": 7}}]});
        let mut replies = Replies::read(script).unwrap();
        for _ in 0..2 {
            let reply = replies.to("roots/list");
            assert_eq!(reply.outcome, Outcome::Result(json!({"roots": []})));
            assert!(reply.is_scripted);
        }
        let mut next = || replies.to("elicitation/create").outcome;
        assert_eq!(next(), Outcome::Result(json!({"action": "accept"})));
        assert_eq!(next(), Outcome::Error(json!({"code": 7})));
        assert_eq!(next(), Outcome::Result(json!({"action": "decline"})));
        let declined = replies.to("sampling/createMessage");
        assert!(!declined.is_scripted);
        assert_eq!(
            declined.outcome.response("\"a\""),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"declined"}}"#
        );
    }

    #[test]
    fn what_is_no_script_is_refused() {
        let error = |script: Value| Replies::read(script).unwrap_err();
        assert_eq!(error(json!([])), RepliesError::NotAnObject);
        for wrong in [json!({"a": 1}), json!({"a": [1]})] {
            assert_eq!(error(wrong), RepliesError::NotAnAnswer("a".to_owned()));
        }
    }
}
