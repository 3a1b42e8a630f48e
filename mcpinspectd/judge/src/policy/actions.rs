//! Turns actions as written into executable ones, and reports what is wrong with them.

use std::time::Duration;

use toml::Spanned;

use super::action::{Action, Answer, Destination, Edit, Measure, Parent, Question};
use super::decide::MAX_DELAY;
use super::format::{RawAnswer, RawDestination, RawRedact, RawRule, RawSet};
use super::mistake::{Mistake, at, duration, path};
use super::text::expression;

/// The code of an error that answers a blocked request: one of those that JSON-RPC leaves to servers, and that
/// MCP and its SDKs do not use.
const CODE: i64 = -32090;
/// Longest text of an answer, in bytes.
const MESSAGE_LIMIT: usize = 4096;
/// How long a person has to answer, unless the rule says otherwise, and at most: what follows the message
/// waits too, and clients do not wait forever.
const ANSWER_TIME: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(600);
/// Longest question, in bytes.
const QUESTION_LIMIT: usize = 300;
/// Longest URL, in bytes.
const URL_LIMIT: usize = 2048;
/// Most changes of one rule.
const EDIT_LIMIT: usize = 64;
/// Replaces a masked text.
const MASK: &str = "«redacted»";

/// Every action.
const ACTIONS: &str =
    "allow, block, error, ask, modify, hide, delay, log, alert, fork, webhook, freeze and kill";

impl RawRule {
    /// What the rule does.
    pub(super) fn action(&self) -> Result<Action, Mistake> {
        let word = self.action.get_ref().as_str();
        let (action, fields): (Action, &[&str]) = match word {
            "allow" => (Action::Allow, &[]),
            "log" => (Action::Log, &[]),
            "alert" => (Action::Alert, &[]),
            "hide" => (Action::Hide, &[]),
            "freeze" => (Action::Contain(Measure::Freeze), &[]),
            "kill" => (Action::Contain(Measure::Kill), &[]),
            "block" => (self.block()?, &["message", "answer", "code"]),
            "error" => (self.error()?, &["message", "code"]),
            "modify" => (self.modify()?, &["set", "redact"]),
            "delay" => (Action::Delay(self.waits()?), &["delay"]),
            "ask" => (
                self.ask()?,
                &["question", "timeout", "message", "answer", "code"],
            ),
            "fork" => (Action::Fork(self.destination()?), &["to"]),
            "webhook" => (Action::Webhook(self.webhook()?), &["url"]),
            other => {
                let problem = format!("unknown action `{other}`: the actions are {ACTIONS}");
                return Err(at(&self.action, problem));
            }
        };
        let given = [
            ("message", self.message.as_ref().map(Spanned::span)),
            ("answer", self.answer.as_ref().map(Spanned::span)),
            ("code", self.code.as_ref().map(Spanned::span)),
            ("set", self.set.as_ref().map(Spanned::span)),
            ("redact", self.redact.as_ref().map(Spanned::span)),
            ("delay", self.delay.as_ref().map(Spanned::span)),
            ("question", self.question.as_ref().map(Spanned::span)),
            ("timeout", self.timeout.as_ref().map(Spanned::span)),
            ("to", self.to.as_ref().map(Spanned::span)),
            ("url", self.url.as_ref().map(Spanned::span)),
        ];
        for (field, span) in given {
            if let Some(span) = span.filter(|_| !fields.contains(&field)) {
                let problem =
                    format!("`{field}` has no effect with the action `{word}`; remove it");
                return Err((span.start, problem));
            }
        }
        Ok(action)
    }

    fn block(&self) -> Result<Action, Mistake> {
        self.refusal("Blocked by policy").map(Action::Block)
    }

    fn ask(&self) -> Result<Action, Mistake> {
        let timeout = self.timeout.as_ref();
        let text = self.question.as_ref().map(|question| {
            let text = question.get_ref();
            match text.len() <= QUESTION_LIMIT && !text.trim().is_empty() {
                true => Ok(text.clone()),
                false => Err(at(
                    question,
                    format!("a `question` must have 1 to {QUESTION_LIMIT} bytes"),
                )),
            }
        });
        Ok(Action::Ask(Question {
            text: text.transpose()?,
            timeout: timeout.map_or(Ok(ANSWER_TIME), |text| duration(text, ANSWER_LIMIT))?,
            denial: self.refusal("Not allowed by the user")?,
        }))
    }

    /// What the sender of a message that does not pass gets.
    fn refusal(&self, what: &str) -> Result<Answer, Mistake> {
        let usual = || match &self.name {
            Some(name) => format!("{what}: {name}"),
            None => format!("{what} ({})", self.id.get_ref()),
        };
        let as_result = self
            .answer
            .as_ref()
            .is_some_and(|answer| *answer.get_ref() == RawAnswer::Result);
        if let (true, Some(code)) = (as_result, &self.code) {
            return Err(at(code, "`code` is only for errors, not for results"));
        }
        Ok(Answer {
            message: self.text()?.unwrap_or_else(usual),
            code: self.code.as_ref().map_or(CODE, |code| *code.get_ref()),
            as_result,
            is_injected: false,
        })
    }

    fn destination(&self) -> Result<Destination, Mistake> {
        let needed = "`fork` needs `to = { file = \"/…\" }` or `to = { command = [\"…\"] }`";
        let Some(to) = &self.to else {
            return Err(at(&self.action, needed));
        };
        match to.get_ref() {
            RawDestination {
                file: Some(file),
                command: None,
            } if file.is_absolute() => Ok(Destination::File(file.clone())),
            RawDestination {
                file: Some(_),
                command: None,
            } => Err(at(to, "`file` must be an absolute path")),
            RawDestination {
                file: None,
                command: Some(command),
            } if command.first().is_some_and(|program| !program.is_empty()) => {
                Ok(Destination::Command(command.clone()))
            }
            _ => Err(at(to, needed)),
        }
    }

    fn webhook(&self) -> Result<String, Mistake> {
        let Some(url) = &self.url else {
            return Err(at(
                &self.action,
                "`webhook` needs a URL: url = \"https://…\"",
            ));
        };
        let text = url.get_ref();
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let is_one = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            && text.len() <= URL_LIMIT
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_one {
            true => Ok(text.clone()),
            false => Err(at(url, "invalid URL: expected `http://…` or `https://…`")),
        }
    }

    fn error(&self) -> Result<Action, Mistake> {
        let (Some(message), Some(code)) = (self.text()?, &self.code) else {
            return Err(at(&self.action, "`error` needs a `code` and a `message`"));
        };
        Ok(Action::Block(Answer {
            message,
            code: *code.get_ref(),
            as_result: false,
            is_injected: true,
        }))
    }

    fn text(&self) -> Result<Option<String>, Mistake> {
        match &self.message {
            Some(message) if message.get_ref().len() > MESSAGE_LIMIT => {
                let problem = format!("`message` has more than {MESSAGE_LIMIT} bytes");
                Err(at(message, problem))
            }
            Some(message) => Ok(Some(message.get_ref().clone())),
            None => Ok(None),
        }
    }

    fn waits(&self) -> Result<Duration, Mistake> {
        match &self.delay {
            Some(delay) => duration(delay, MAX_DELAY),
            None => Err(at(&self.action, "`delay` needs a time: delay = \"500ms\"")),
        }
    }

    fn modify(&self) -> Result<Action, Mistake> {
        let set = self.set.iter().flat_map(|set| set.get_ref());
        let redact = self.redact.iter().flat_map(|redact| redact.get_ref());
        let mut edits = set.map(RawSet::edit).collect::<Result<Vec<_>, _>>()?;
        for redact in redact {
            edits.push(redact.edit()?);
        }
        if edits.is_empty() {
            return Err(at(&self.action, "`modify` needs `set` or `redact`"));
        }
        if edits.len() > EDIT_LIMIT {
            return Err(at(&self.action, format!("more than {EDIT_LIMIT} changes")));
        }
        Ok(Action::Modify(edits))
    }
}

impl RawSet {
    fn edit(&self) -> Result<Edit, Mistake> {
        let value = serde_json::to_value(&self.value).map_err(|error| {
            at(
                &self.path,
                format!("the value cannot be written as JSON: {error}"),
            )
        })?;
        if matches!(self.value, toml::Value::Datetime(_)) {
            return Err(at(
                &self.path,
                "the value cannot be written as JSON: write a date as a string",
            ));
        }
        Ok(Edit::Set {
            path: path(&self.path)?,
            parent: self.parent()?,
            value,
        })
    }

    /// Where to add a missing member, if the path ends with a plain one.
    fn parent(&self) -> Result<Option<(Parent, String)>, Mistake> {
        let text = self.path.get_ref();
        let (parent, member) = match text.rsplit_once('.') {
            Some((parent, member)) => (Some(parent), member),
            None => (None, text.as_str()),
        };
        if member.contains(['*', '[', ']', '"']) {
            return Ok(None);
        }
        let parent = match parent {
            Some(parent) => {
                let span = self.path.span();
                Parent::Below(path(&Spanned::new(span, parent.to_owned()))?)
            }
            None => Parent::Root,
        };
        Ok(Some((parent, member.to_owned())))
    }
}

impl RawRedact {
    fn edit(&self) -> Result<Edit, Mistake> {
        let matches = match (&self.matches, self.secrets) {
            (Some(matches), false) => {
                let expression = expression(matches.get_ref());
                Some(expression.map_err(|problem| at(matches, problem))?)
            }
            (None, true) => None,
            _ => {
                let problem = "give `matches`, or `secrets = true`";
                return Err(at(&self.path, problem));
            }
        };
        if matches.is_none() && self.with.is_some() {
            return Err(at(
                &self.path,
                "`with` has no effect with `secrets`; remove it",
            ));
        }
        Ok(Edit::Redact {
            path: path(&self.path)?,
            matches,
            with: self.with.clone().unwrap_or_else(|| MASK.to_owned()),
        })
    }
}
