//! Where two answers differ.
//!
//! What a program relies on first is the structure: that a member exists, and its type. So types come
//! before values: if types differ, values are not compared, and a comparison may stop at structure.
//! Lists of things with names (tools, prompts, resources) are compared item by item, in any order:
//! a missing one is one difference, and not one for each that follows. Other lists are compared in
//! order; if their lengths differ, what is equal at both ends is left out first.

use std::collections::HashMap;
use std::io::{self, Write};

use mcpinspect_core::json_path::{self, Down, Pattern, Position};
use mcpinspect_core::text::escape::printable;
use serde::Serialize;
use serde_json::Value;

/// What is not compared unless asked for: values that servers make up each time.
///
/// Cursors, states of requests and ids of tasks are not listed here: for those, see [`MADE_UP`], only the type
/// is compared.
pub const VOLATILE: [&str; 15] = [
    "notifications/message",
    "*.**._meta.**.*time*",
    "*.**._meta.**.*Time*",
    "*.**._meta.**.*date*",
    "*.**._meta.**.*Date*",
    "*.**._meta.**.*duration*",
    "*.**._meta.**.*Duration*",
    "*.**._meta.**.*At",
    "*.**._meta.**.*_at",
    "*.**._meta.**.*equestId",
    "*.**._meta.**.*request_id",
    "*.**._meta.**.traceparent",
    "*.**.annotations.lastModified",
    "*.result.task.*At",
    "tasks/*.result.**.*At",
];

/// Members of results whose values servers make up.
pub const MADE_UP: [&str; 3] = ["nextCursor", "requestState", "taskId"];

/// The member that identifies the items of a list: the first one that all have.
const NAMES: [&str; 4] = ["name", "uri", "uriTemplate", "id"];

/// Characters of a value to keep.
const EXCERPT: usize = 300;

/// Differences to keep; further ones are counted.
const MAX_DIFFERENCES: usize = 1000;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Which members there are, and their types.
    Structure,
    /// Values too.
    Values,
}

/// What to compare.
#[derive(Clone, Debug)]
pub struct Rules {
    ignored: Vec<Pattern>,
    depth: Depth,
}

/// How something differs, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// There is no answer.
    NoAnswer,
    /// An error instead of a result, or a result instead of an error.
    Outcome,
    /// It was there, but no longer is.
    Missing,
    /// It was not there.
    Added,
    /// It has a different type.
    Type,
    /// It has a different value.
    Value,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How.
    pub kind: Kind,
    /// The method.
    pub method: String,
    /// Where: a [`Pattern`].
    pub path: String,
    /// What was there, as the start of its JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// What is there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
    /// The number of the message on the tape, the first for which it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// How many times.
    pub times: u64,
}

/// Differences, with equal ones counted.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    found: Vec<Difference>,
    /// The index of each in `found`, by its kind, path and values.
    indexes: HashMap<(Kind, String, Option<String>, Option<String>), usize>,
    more: u64,
}

/// The request whose answers are compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its parameters.
    pub params: Option<&'a Value>,
    /// Its number on the tape.
    pub number: u64,
}

impl Rules {
    /// Compares as closely as `depth` says, except what is `ignored`.
    pub fn new(depth: Depth, ignored: Vec<Pattern>) -> Self {
        Self { ignored, depth }
    }

    /// The patterns of [`VOLATILE`].
    pub fn volatile() -> impl Iterator<Item = Pattern> {
        VOLATILE.iter().filter_map(|text| text.parse().ok())
    }

    /// Whether messages of this method are not compared at all.
    pub fn ignores(&self, method: &str, params: Option<&Value>) -> bool {
        self.ignored
            .iter()
            .any(|pattern| pattern.is_whole() && pattern.concerns(method, params))
    }

    /// Compares two answers: objects with a `result` or an `error`. Returns whether they are the same.
    pub fn compare(
        &self,
        subject: Subject<'_>,
        old: &Value,
        new: &Value,
        found: &mut Differences,
    ) -> bool {
        let patterns: Vec<&Pattern> = self
            .ignored
            .iter()
            .filter(|pattern| pattern.concerns(subject.method, subject.params))
            .collect();
        let at = patterns.iter().map(|pattern| pattern.start()).collect();
        let mut walk = ValueComparison {
            patterns,
            depth: self.depth,
            subject,
            path: subject.path(),
            found,
            is_same: true,
        };
        // What the protocol says about a failure, and what a tool says about one.
        let outcome = |answer: &Value| {
            let result = answer.get("result");
            let is_error = result.and_then(|result| result.get("isError"));
            (result.is_some(), is_error == Some(&Value::Bool(true)))
        };
        if outcome(old) == outcome(new) {
            walk.values("", at, old, new);
        } else if !walk.is_ignored(&at) {
            walk.add(Kind::Outcome, Some(old), Some(new));
        }
        walk.is_same
    }
}

impl Subject<'_> {
    /// The start of its answer's paths: the method and, if something is called, its name.
    pub fn path(&self) -> String {
        let mut path = self.method.to_owned();
        for member in ["name", "uri"] {
            let value = self.params.and_then(|params| params.get(member));
            if let Some(value) = value.and_then(Value::as_str)
                && value.len() <= EXCERPT
            {
                json_path::write_filter(&mut path, member, value);
            }
        }
        path
    }
}

impl Differences {
    /// Adds one, or counts it.
    pub fn add(&mut self, difference: Difference) {
        let Difference {
            kind,
            path,
            was,
            is,
            ..
        } = &difference;
        let key = (*kind, path.clone(), was.clone(), is.clone());
        let at = self.indexes.get(&key);
        if let Some(same) = at.and_then(|at| self.found.get_mut(*at)) {
            same.times += difference.times;
        } else if self.found.len() < MAX_DIFFERENCES {
            self.indexes.insert(key, self.found.len());
            self.found.push(difference);
        } else {
            self.more += difference.times;
        }
    }

    /// Those that were kept, by method and path, and how many were not.
    pub fn sorted(mut self) -> (Vec<Difference>, u64) {
        self.found.sort_by(|one, other| {
            let key = |difference: &Difference| (difference.method.clone(), difference.kind);
            let by_kind = key(one).cmp(&key(other));
            by_kind.then_with(|| one.path.cmp(&other.path))
        });
        (self.found, self.more)
    }
}

/// A simultaneous walk down two values.
struct ValueComparison<'a> {
    patterns: Vec<&'a Pattern>,
    depth: Depth,
    subject: Subject<'a>,
    path: String,
    found: &'a mut Differences,
    is_same: bool,
}

impl ValueComparison<'_> {
    fn is_ignored(&self, at: &[Position]) -> bool {
        let mut both = self.patterns.iter().zip(at);
        both.any(|(pattern, at)| pattern.ends(*at))
    }

    fn down(&self, at: &[Position], down: Down<'_>, child: &Value) -> Vec<Position> {
        let both = self.patterns.iter().zip(at);
        both.map(|(pattern, at)| pattern.step(*at, down, child))
            .collect()
    }

    fn add(&mut self, kind: Kind, was: Option<&Value>, is: Option<&Value>) {
        self.is_same = false;
        self.found.add(Difference {
            kind,
            method: self.subject.method.to_owned(),
            path: self.path.clone(),
            was: was.map(excerpt),
            is: is.map(excerpt),
            message: Some(self.subject.number),
            times: 1,
        });
    }

    /// Something that only one of them has.
    fn only(&mut self, kind: Kind, at: &[Position], value: &Value) {
        if self.is_ignored(at) {
            return;
        }
        match kind {
            Kind::Missing => self.add(kind, Some(value), None),
            _ => self.add(kind, None, Some(value)),
        }
    }

    fn values(&mut self, name: &str, at: Vec<Position>, old: &Value, new: &Value) {
        if self.is_ignored(&at) {
            return;
        }
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                let names = old
                    .keys()
                    .chain(new.keys().filter(|name| !old.contains_key(*name)));
                for name in names {
                    let length = self.path.len();
                    json_path::write_member(&mut self.path, name);
                    let down = Down::Member(name);
                    self.pair(name, &at, (down, old.get(name)), (down, new.get(name)));
                    self.path.truncate(length);
                }
            }
            (Value::Array(old), Value::Array(new)) => self.lists(&at, old, new),
            (Value::Number(one), Value::Number(other))
                if one.as_f64() == other.as_f64() && (one.is_f64() || other.is_f64()) => {}
            _ if old == new => {}
            _ if type_of(old) != type_of(new) => self.add(Kind::Type, Some(old), Some(new)),
            _ if self.depth == Depth::Structure || MADE_UP.contains(&name) => {}
            _ => self.add(Kind::Value, Some(old), Some(new)),
        }
    }

    fn pair(
        &mut self,
        name: &str,
        at: &[Position],
        (old_down, old): (Down<'_>, Option<&Value>),
        (new_down, new): (Down<'_>, Option<&Value>),
    ) {
        match (old, new) {
            (Some(old), Some(new)) => {
                let at = self.down(at, old_down, old);
                self.values(name, at, old, new);
            }
            (Some(old), None) => {
                let at = self.down(at, old_down, old);
                self.only(Kind::Missing, &at, old);
            }
            (None, Some(new)) => {
                let at = self.down(at, new_down, new);
                self.only(Kind::Added, &at, new);
            }
            (None, None) => {}
        }
    }

    fn lists(&mut self, at: &[Position], old: &[Value], new: &[Value]) {
        let named = NAMES
            .into_iter()
            .find_map(|name| Some((name, by_name(old, name)?, by_name(new, name)?)));
        let length = self.path.len();
        if let Some((member, old_names, new_names)) = named {
            let all = old.iter().enumerate();
            let added = new.iter().enumerate();
            for (index, element) in all {
                let name = name_of(element, member);
                let other = new_names.get(name).copied();
                let other = other.and_then(|index| Some((index, new.get(index)?)));
                json_path::write_filter(&mut self.path, member, name);
                let new = Down::Element(other.map_or(index, |(index, _)| index));
                let other = other.map(|(_, element)| element);
                self.pair("", at, (Down::Element(index), Some(element)), (new, other));
                self.path.truncate(length);
            }
            for (index, element) in added {
                let name = name_of(element, member);
                if old_names.contains_key(name) {
                    continue;
                }
                json_path::write_filter(&mut self.path, member, name);
                let down = Down::Element(index);
                self.pair("", at, (down, None), (down, Some(element)));
                self.path.truncate(length);
            }
            return;
        }
        // What is equal at both ends shows where something was removed or inserted.
        let (mut start, mut end) = (0, 0);
        if old.len() != new.len() {
            let equal = |(one, other): &(&Value, &Value)| one == other;
            start = old.iter().zip(new).take_while(equal).count();
            let (old, new) = (&old[start..], &new[start..]);
            end = old
                .iter()
                .rev()
                .zip(new.iter().rev())
                .take_while(equal)
                .count();
        }
        let (old_end, new_end) = (old.len() - end, new.len() - end);
        for index in start..old_end.max(new_end) {
            self.path.push_str(&format!("[{index}]"));
            let down = Down::Element(index);
            let old = old[..old_end].get(index);
            let new = new[..new_end].get(index);
            self.pair("", at, (down, old), (down, new));
            self.path.truncate(length);
        }
    }
}

/// Where things are in a list, by this member; `None` if it does not distinguish them, or there are none.
fn by_name<'a>(list: &'a [Value], member: &str) -> Option<HashMap<&'a str, usize>> {
    let mut names = HashMap::new();
    for (index, element) in list.iter().enumerate() {
        let name = element.get(member)?.as_str()?;
        if name.len() > EXCERPT || names.insert(name, index).is_some() {
            return None;
        }
    }
    Some(names)
}

fn name_of<'a>(element: &'a Value, member: &str) -> &'a str {
    let name = element.get(member).and_then(Value::as_str);
    name.unwrap_or_default()
}

/// The name of a value's type.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The start of a value's JSON, with nothing hidden.
pub fn excerpt(value: &Value) -> String {
    /// Takes a bounded start.
    struct Beginning(Vec<u8>);
    impl Write for Beginning {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // At most four bytes per character: enough for what is shown, and for the ellipsis.
            let room = (4 * EXCERPT + 8).saturating_sub(self.0.len());
            self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
            match bytes.len() <= room {
                true => Ok(bytes.len()),
                false => Err(io::ErrorKind::WriteZero.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut beginning = Beginning(Vec::new());
    // What did not fit is not shown.
    let _ = serde_json::to_writer(&mut beginning, value);
    printable(&String::from_utf8_lossy(&beginning.0), EXCERPT)
}

#[cfg(test)]
mod tests;
