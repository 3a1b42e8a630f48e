//! Selects parts of messages: `tools/call[name=x].arguments.path`.
//!
//! One language for what to substitute, what not to compare and where messages differ, so that a path in a
//! report can be passed back as an option:
//!
//! ```text
//! tools/call                        a method; * stands for any characters, as in tools/*
//!   [name=get-sum]                  only where this member of the parameters has this value
//!   .result .content                a member; * stands for any characters
//!   ["io.example/key"]              a member whose name has dots, brackets or equals signs
//!   [0] [*]                         an element of a list; any element
//!   [name=echo]                     the elements of a list whose member has this value
//!   .**                             any number of steps, also none
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::mcp::json;

/// Most steps of a path: a position in a pattern is a bit of 64.
const MAX_STEPS: usize = 60;

/// A path, possibly with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    method: String,
    filters: Vec<Filter>,
    steps: Vec<Step>,
}

/// A condition on a member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    member: String,
    value: Glob,
}

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(Glob),
    Index(usize),
    AnyIndex,
    Element(Filter),
    AnyDepth,
}

/// A name, with or without wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Glob {
    Exact(String),
    Wild(String),
}

/// Why text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// It begins with a step.
    #[error("must begin with a method; `*` stands for any")]
    NoMethod,
    /// A bracket or quote is not closed.
    #[error("missing end of `{0}`")]
    Open(char),
    /// A step has no name.
    #[error("empty step")]
    EmptyStep,
    /// Brackets contain neither a number, `*`, a quoted name nor `member=value`.
    #[error("invalid step `[{0}]`: expected [0], [*], [\"name\"] or [member=value]")]
    Bracket(String),
    /// It has an unexpected character.
    #[error("unexpected `{0}`")]
    Unexpected(char),
    /// It is too long.
    #[error("more than {MAX_STEPS} steps")]
    TooLong,
    /// There is nothing to assign.
    #[error("missing `=VALUE`")]
    NoValue,
}

impl Pattern {
    /// Whether it selects a message of this method, or the answer to one with these parameters.
    pub fn concerns(&self, method: &str, params: Option<&Value>) -> bool {
        glob(&self.method, method)
            && self
                .filters
                .iter()
                .all(|filter| params.is_some_and(|params| filter.holds(params)))
    }

    /// Whether it selects whole messages.
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// The names of members that it asks for, without those with wildcards.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        let filters = self.filters.iter().map(|filter| filter.member.as_str());
        let steps = self.steps.iter().filter_map(|step| match step {
            Step::Member(Glob::Exact(name)) => Some(name.as_str()),
            Step::Element(filter) => Some(filter.member.as_str()),
            _ => None,
        });
        filters.chain(steps)
    }

    /// Whether it names one place in a message.
    fn is_exact(&self) -> bool {
        self.steps.iter().all(|step| {
            matches!(
                step,
                Step::Member(Glob::Exact(_)) | Step::Index(_) | Step::Element(_)
            )
        })
    }

    /// Puts `new` wherever this path leads in `value`, and returns in how many places. A path without
    /// wildcards creates missing members.
    pub fn set(&self, value: &mut Value, new: &Value) -> usize {
        set(&self.steps, value, new, self.is_exact())
    }

    /// Wherever this path leads in `value`.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let mut found = Vec::new();
        self.find_from(self.start(), value, &mut found);
        found
    }

    fn find_from<'v>(&self, at: Position, value: &'v Value, found: &mut Vec<&'v Value>) {
        if at.is_lost() {
            return;
        }
        if self.ends(at) {
            found.push(value);
        }
        match value {
            Value::Object(members) => {
                for (name, child) in members {
                    self.find_from(self.step(at, Down::Member(name), child), child, found);
                }
            }
            Value::Array(elements) => {
                for (index, child) in elements.iter().enumerate() {
                    self.find_from(self.step(at, Down::Element(index), child), child, found);
                }
            }
            _ => {}
        }
    }

    /// The position before the first step.
    pub fn start(&self) -> Position {
        self.settle(1)
    }

    /// The position after a step to `child`: a member of an object, or an element of a list.
    pub fn step<N: Node + ?Sized>(
        &self,
        position: Position,
        down: Down<'_>,
        child: &N,
    ) -> Position {
        let mut next = 0;
        for (at, step) in self.steps.iter().enumerate() {
            if position.0 & (1 << at) == 0 {
                continue;
            }
            let goes_on = match (step, down) {
                (Step::AnyDepth, _) => {
                    next |= 1 << at;
                    continue;
                }
                (Step::Member(name), Down::Member(member)) => name.matches(member),
                (Step::AnyIndex, Down::Element(_)) => true,
                (Step::Index(index), Down::Element(element)) => *index == element,
                (Step::Element(filter), Down::Element(_)) => filter.holds(child),
                _ => false,
            };
            if goes_on {
                next |= 1 << (at + 1);
            }
        }
        self.settle(next)
    }

    /// Whether the path ends here.
    pub fn ends(&self, position: Position) -> bool {
        position.0 & (1 << self.steps.len()) != 0
    }

    /// `**` may match no step at all.
    fn settle(&self, mut position: u64) -> Position {
        for (at, step) in self.steps.iter().enumerate() {
            if *step == Step::AnyDepth && position & (1 << at) != 0 {
                position |= 1 << (at + 1);
            }
        }
        Position(position)
    }
}

/// Which steps of a pattern may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Position {
    /// Whether no way down leads to the path's end.
    pub fn is_lost(self) -> bool {
        self.0 == 0
    }
}

/// A step taken.
#[derive(Clone, Copy, Debug)]
pub enum Down<'a> {
    /// To this member.
    Member(&'a str),
    /// To this element.
    Element(usize),
}

/// A value that a path can go through.
pub trait Node {
    /// The text of the member `name`: a string without quotes, or another scalar as it is written.
    fn scalar(&self, name: &str) -> Option<Cow<'_, str>>;
}

impl Node for Value {
    fn scalar(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.get(name)? {
            Self::String(text) => Some(Cow::Borrowed(text)),
            other @ (Self::Bool(_) | Self::Number(_) | Self::Null) => {
                Some(Cow::Owned(other.to_string()))
            }
            _ => None,
        }
    }
}

impl Node for RawValue {
    fn scalar(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut found = None;
        // Anything but an object has no members.
        let _ = json::members(
            self.get(),
            |key| key == name.as_bytes(),
            |is_it, value| {
                if is_it {
                    found = Some(value);
                }
            },
        );
        let value = found?;
        match value.get().as_bytes().first()? {
            b'{' | b'[' => None,
            b'"' => json::string(value),
            _ => Some(Cow::Borrowed(value.get())),
        }
    }
}

impl Filter {
    fn holds<N: Node + ?Sized>(&self, value: &N) -> bool {
        value
            .scalar(&self.member)
            .is_some_and(|text| self.value.matches(&text))
    }
}

impl Glob {
    fn new(text: String) -> Self {
        match text.contains('*') {
            true => Self::Wild(text),
            false => Self::Exact(text),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == text,
            Self::Wild(pattern) => glob(pattern, text),
        }
    }
}

/// Whether `text` is what `pattern` says, where `*` stands for any characters.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn set(steps: &[Step], value: &mut Value, new: &Value, makes: bool) -> usize {
    let Some((step, below)) = steps.split_first() else {
        *value = new.clone();
        return 1;
    };
    match (step, value) {
        (Step::AnyDepth, value) => {
            // Bottom up: what was substituted is not examined again.
            let deeper: usize = match below.is_empty() {
                true => 0,
                false => children(value)
                    .map(|child| set(steps, child, new, makes))
                    .sum(),
            };
            deeper + set(below, value, new, makes)
        }
        (Step::Member(Glob::Exact(name)), Value::Object(members)) => {
            if makes && !members.contains_key(name) {
                let empty = match below.first() {
                    None => Value::Null,
                    Some(Step::Member(_)) => Value::Object(serde_json::Map::new()),
                    Some(_) => return 0,
                };
                members.insert(name.clone(), empty);
            }
            members
                .get_mut(name)
                .map_or(0, |child| set(below, child, new, makes))
        }
        (Step::Member(name), Value::Object(members)) => members
            .iter_mut()
            .filter(|(member, _)| name.matches(member))
            .map(|(_, child)| set(below, child, new, makes))
            .sum(),
        (Step::Index(index), Value::Array(elements)) => elements
            .get_mut(*index)
            .map_or(0, |child| set(below, child, new, makes)),
        (Step::AnyIndex, Value::Array(elements)) => elements
            .iter_mut()
            .map(|child| set(below, child, new, makes))
            .sum(),
        (Step::Element(filter), Value::Array(elements)) => elements
            .iter_mut()
            .filter(|child| filter.holds(&**child))
            .map(|child| set(below, child, new, makes))
            .sum(),
        _ => 0,
    }
}

fn children(value: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match value {
        Value::Array(elements) => Box::new(elements.iter_mut()),
        Value::Object(members) => Box::new(members.iter_mut().map(|(_, child)| child)),
        _ => Box::new(std::iter::empty()),
    }
}

/// A value to put somewhere: `PATH=VALUE`, where a value that is not JSON is a string.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Where.
    pub pattern: Pattern,
    /// What.
    pub value: Value,
}

impl FromStr for Assignment {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let (pattern, rest) = parse(text)?;
        let value = rest.strip_prefix('=').ok_or(PathError::NoValue)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Self { pattern, value })
    }
}

impl FromStr for Pattern {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        match parse(text)? {
            (pattern, "") => Ok(pattern),
            (_, rest) => Err(PathError::Unexpected(
                rest.chars().next().unwrap_or_default(),
            )),
        }
    }
}

/// Reads a path up to its end, or to an equals sign outside brackets.
fn parse(text: &str) -> Result<(Pattern, &str), PathError> {
    let (method, mut rest) = name(text);
    if method.is_empty() {
        return Err(PathError::NoMethod);
    }
    let mut pattern = Pattern {
        method: method.to_owned(),
        filters: Vec::new(),
        steps: Vec::new(),
    };
    loop {
        if let Some(after) = rest.strip_prefix('.') {
            let (name, after) = name(after);
            let step = match name {
                "" => return Err(PathError::EmptyStep),
                "**" => Step::AnyDepth,
                name => Step::Member(Glob::new(name.to_owned())),
            };
            // Two of them in a row are one.
            if step != Step::AnyDepth || pattern.steps.last() != Some(&Step::AnyDepth) {
                pattern.steps.push(step);
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = bracket(after)?;
            match step {
                Step::Element(filter) if pattern.steps.is_empty() => pattern.filters.push(filter),
                step => pattern.steps.push(step),
            }
            rest = after;
        } else if rest.is_empty() || rest.starts_with('=') {
            return Ok((pattern, rest));
        } else {
            return Err(PathError::Unexpected(
                rest.chars().next().unwrap_or_default(),
            ));
        }
        if pattern.steps.len() > MAX_STEPS {
            return Err(PathError::TooLong);
        }
    }
}

/// A name at the beginning of `text`, and what follows.
fn name(text: &str) -> (&str, &str) {
    let end = text.find(['.', '[', ']', '=', '"']);
    text.split_at(end.unwrap_or(text.len()))
}

/// The contents of brackets, and what follows them.
fn bracket(text: &str) -> Result<(Step, &str), PathError> {
    if text.starts_with('"') {
        let (name, rest) = quoted(text)?;
        let rest = rest.strip_prefix(']').ok_or(PathError::Open('['))?;
        return Ok((Step::Member(Glob::Exact(name)), rest));
    }
    let end = text.find([']', '=']).ok_or(PathError::Open('['))?;
    let (word, rest) = text.split_at(end);
    if let Some(value) = rest.strip_prefix('=') {
        let (value, rest) = match value.starts_with('"') {
            true => {
                let (value, rest) = quoted(value)?;
                (Glob::Exact(value), rest)
            }
            false => {
                let end = value.find(']').ok_or(PathError::Open('['))?;
                let (value, rest) = value.split_at(end);
                (Glob::new(value.to_owned()), rest)
            }
        };
        let rest = rest.strip_prefix(']').ok_or(PathError::Open('['))?;
        if word.is_empty() {
            return Err(PathError::EmptyStep);
        }
        let member = word.to_owned();
        return Ok((Step::Element(Filter { member, value }), rest));
    }
    let step = match (word, word.parse()) {
        ("*", _) => Step::AnyIndex,
        (_, Ok(index)) => Step::Index(index),
        _ => return Err(PathError::Bracket(word.to_owned())),
    };
    Ok((step, &rest[1..]))
}

/// A JSON string at the beginning of `text`, and what follows.
fn quoted(text: &str) -> Result<(String, &str), PathError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    match values.next() {
        Some(Ok(name)) => Ok((name, &text[values.byte_offset()..])),
        _ => Err(PathError::Open('"')),
    }
}

/// Writes a step of a report's path in the path language.
pub fn write_member(path: &mut String, member: &str) {
    let is_plain = !member.is_empty()
        && !member.contains(['.', '[', ']', '=', '"', '*'])
        && !member.chars().any(char::is_control);
    match is_plain {
        true => {
            path.push('.');
            path.push_str(member);
        }
        false => {
            path.push('[');
            path.push_str(&Value::from(member).to_string());
            path.push(']');
        }
    }
}

/// Writes a filter of a report's path in the path language.
pub fn write_filter(path: &mut String, member: &str, value: &str) {
    let is_plain = !value.contains([']', '"', '*']) && !value.chars().any(char::is_control);
    let value = match is_plain {
        true => value.to_owned(),
        false => Value::from(value).to_string(),
    };
    path.push_str(&format!("[{member}={value}]"));
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.method.clone();
        for filter in &self.filters {
            filter.write(&mut text);
        }
        for step in &self.steps {
            match step {
                Step::Member(Glob::Exact(name)) => write_member(&mut text, name),
                Step::Member(Glob::Wild(name)) => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
                Step::AnyIndex => text.push_str("[*]"),
                Step::Element(filter) => filter.write(&mut text),
                Step::AnyDepth => text.push_str(".**"),
            }
        }
        f.write_str(&text)
    }
}

impl Filter {
    fn write(&self, text: &mut String) {
        match &self.value {
            Glob::Exact(value) => write_filter(text, &self.member, value),
            Glob::Wild(value) => text.push_str(&format!("[{}={value}]", self.member)),
        }
    }
}

#[cfg(test)]
mod tests;
