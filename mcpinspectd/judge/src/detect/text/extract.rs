//! Extracts every text that an agent would read from a definition or a message.
//!
//! A model sees the whole definition: keys, enum values, defaults and examples as well as the
//! description. So every string is extracted with its path, and the keys of schemas are texts of their
//! own. Values arrive decoded, so JSON escapes hide nothing.

use std::borrow::Cow;

use super::subject_text::{PathId, PathSegment, SubjectText};
use crate::detect::category::Part;
use crate::detect::json;
use crate::detect::json::Json;

/// The deepest nesting to follow.
const MAX_DEPTH: usize = json::MAX_DEPTH;
/// Most values of one subject to visit.
const VISITS: usize = 200_000;

/// A key longer than this is read as a sentence, in bytes.
const SENTENCE_KEY: usize = 32;

/// Extracts the texts of a tool's definition.
pub fn tool<'a>(text: &mut SubjectText<'a>, tool: &'a Json<'a>) {
    let mut walker = Walker { text, visits: 0 };
    let Json::Object(fields) = tool else {
        walker.value(PathId::ROOT, Part::Text, tool, 0);
        return;
    };
    for (key, value) in fields.iter() {
        let part = match key {
            "name" => Part::Name,
            "title" => Part::Title,
            "description" => Part::Description,
            "inputSchema" | "outputSchema" | "input_schema" | "parameters" => {
                let path = walker.text.child(PathId::ROOT, PathSegment::Key(key));
                walker.schema(path, value, 0);
                continue;
            }
            // The bytes of a picture are not text.
            "icons" => continue,
            _ => Part::Text,
        };
        let path = walker.text.child(PathId::ROOT, PathSegment::Key(key));
        walker.value(path, part, value, 0);
    }
}

/// Extracts all strings of any other value.
pub fn value<'a>(text: &mut SubjectText<'a>, value: &'a Json<'a>) {
    Walker { text, visits: 0 }.value(PathId::ROOT, Part::Text, value, 0);
}

/// The names of a tool's parameters and their enum values, in lower case and sorted. A text that mentions
/// one of them speaks about the tool itself.
pub fn parameter_names<'a>(tool: &'a Json<'a>) -> Vec<Cow<'a, str>> {
    let mut names = Vec::new();
    for key in ["inputSchema", "outputSchema", "input_schema", "parameters"] {
        if let Some(schema) = tool.get(key) {
            schema_names(schema, &mut names, 0);
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn schema_names<'a>(schema: &'a Json<'a>, names: &mut Vec<Cow<'a, str>>, depth: usize) {
    if depth > MAX_DEPTH || names.len() > 4096 {
        return;
    }
    match schema {
        Json::Object(fields) => {
            for (key, value) in fields.iter() {
                match (key, value) {
                    ("properties" | "$defs" | "definitions", Json::Object(properties)) => {
                        names.extend(properties.keys().map(lower));
                        for property in properties.values() {
                            schema_names(property, names, depth + 1);
                        }
                    }
                    ("enum" | "examples", Json::Array(values)) => {
                        names.extend(values.iter().filter_map(Json::as_str).map(lower));
                    }
                    ("const" | "default" | "format" | "type", Json::String(value)) => {
                        names.push(lower(value))
                    }
                    (_, Json::Object(_) | Json::Array(_)) => schema_names(value, names, depth + 1),
                    _ => {}
                }
            }
        }
        Json::Array(values) => values
            .iter()
            .for_each(|value| schema_names(value, names, depth + 1)),
        _ => {}
    }
}

fn lower(name: &str) -> Cow<'_, str> {
    let is_lower = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    match name.bytes().all(is_lower) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(name.to_lowercase()),
    }
}

/// A key with its separators replaced by blanks, so that its words are separate. Positions stay the same.
fn spaced(key: &str) -> Cow<'_, str> {
    if key.contains(['_', '-']) {
        Cow::Owned(key.replace(['_', '-'], " "))
    } else {
        Cow::Borrowed(key)
    }
}

struct Walker<'d, 'a> {
    text: &'d mut SubjectText<'a>,
    visits: usize,
}

impl<'a> Walker<'_, 'a> {
    /// Counts a visit. Returns whether a limit is reached.
    fn limit_reached(&mut self, depth: usize) -> bool {
        self.visits += 1;
        let reached = depth > MAX_DEPTH || self.visits > VISITS;
        if reached {
            self.text.mark_truncated();
        }
        reached
    }

    fn value(&mut self, path: PathId, part: Part, value: &'a Json<'a>, depth: usize) {
        if self.limit_reached(depth) {
            return;
        }
        match value {
            Json::String(text) => self.text.push(path, part, &**text),
            Json::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let path = self.text.child(path, PathSegment::Index(index));
                    self.value(path, part, value, depth + 1);
                }
            }
            Json::Object(fields) => {
                for (key, value) in fields.iter() {
                    // Pictures and sound travel as base64 beside their type. They are not text.
                    let binary = matches!(key, "data" | "blob") && fields.contains_key("mimeType");
                    if binary {
                        continue;
                    }
                    let path = self.text.child(path, PathSegment::Key(key));
                    if key.contains(char::is_whitespace) || key.len() > SENTENCE_KEY {
                        self.text.push(path, Part::Schema, spaced(key));
                    }
                    self.value(path, part, value, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Extracts the texts of a JSON Schema: names of properties are text, keywords are not.
    fn schema(&mut self, path: PathId, schema: &'a Json<'a>, depth: usize) {
        if self.limit_reached(depth) {
            return;
        }
        match schema {
            Json::Object(fields) => {
                for (key, value) in fields.iter() {
                    let below = self.text.child(path, PathSegment::Key(key));
                    match (key, value) {
                        (
                            "properties" | "patternProperties" | "$defs" | "definitions"
                            | "dependentSchemas",
                            Json::Object(properties),
                        ) => {
                            for (name, property) in properties.iter() {
                                let at = self.text.child(below, PathSegment::Key(name));
                                self.text.push(at, Part::Key, name);
                                if name.len() > SENTENCE_KEY {
                                    self.text.push(at, Part::Schema, spaced(name));
                                }
                                self.schema(at, property, depth + 1);
                            }
                        }
                        (
                            "type" | "$schema" | "$ref" | "format" | "pattern" | "$id" | "required",
                            Json::String(text),
                        ) if text.len() < 200 => {}
                        ("required" | "type", Json::Array(_)) => {}
                        (_, Json::String(text)) => self.text.push(below, Part::Schema, &**text),
                        _ => self.schema(below, value, depth + 1),
                    }
                }
            }
            Json::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let below = self.text.child(path, PathSegment::Index(index));
                    self.schema(below, value, depth + 1);
                }
            }
            Json::String(text) => self.text.push(path, Part::Schema, &**text),
            _ => {}
        }
    }
}
