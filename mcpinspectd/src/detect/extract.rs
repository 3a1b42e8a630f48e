//! Every text that an agent would read, out of a definition or a message.
//!
//! A model sees the whole definition: keys, enum values, defaults and examples as well as the
//! description. So everything that is a string is taken, with its path, and keys of schemas are
//! taken as text of their own. JSON escapes are gone by then: values come decoded.

use std::borrow::Cow;

use super::category::{Part, Surface};
use super::document::{Document, NodeId, Segment};
use super::tree::{self, Tree};

/// Deepest nesting that is followed.
const DEPTH: usize = tree::DEPTH;
/// Most values of one subject that are visited.
const VISITS: usize = 200_000;

/// A key longer than this is read as a sentence, in bytes.
const SENTENCE_KEY: usize = 32;

/// What a message or a definition turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A tool's definition.
    Tool,
    /// A prompt's, resource's or template's definition, or a server's instructions.
    Declaration,
    /// A tool's result.
    ToolResult,
    /// A resource's content or a prompt's messages.
    Content,
    /// A request of the server to the model.
    Sampling,
    /// A request of the server to the user.
    Elicitation,
    /// An error.
    Error,
    /// A log message or another notification.
    Notification,
    /// Arguments of a call.
    Arguments,
}

impl Subject {
    /// Who wrote it and who reads it.
    pub fn surface(self) -> Surface {
        match self {
            Self::Tool | Self::Declaration => Surface::Definition,
            Self::Arguments => Surface::Argument,
            Self::ToolResult
            | Self::Content
            | Self::Sampling
            | Self::Elicitation
            | Self::Error
            | Self::Notification => Surface::Content,
        }
    }

    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Declaration => "declaration",
            Self::ToolResult => "tool_result",
            Self::Content => "content",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Error => "error",
            Self::Notification => "notification",
            Self::Arguments => "arguments",
        }
    }
}

/// Takes the texts of a tool's definition.
pub fn tool<'a>(document: &mut Document<'a>, tool: &'a Tree<'a>) {
    let mut walker = Walker {
        document,
        visits: 0,
    };
    let Tree::Object(fields) = tool else {
        walker.value(NodeId::ROOT, Part::Text, tool, 0);
        return;
    };
    for (key, value) in fields.iter() {
        let part = match key {
            "name" => Part::Name,
            "title" => Part::Title,
            "description" => Part::Description,
            "inputSchema" | "outputSchema" | "input_schema" | "parameters" => {
                let node = walker.document.node(NodeId::ROOT, Segment::Key(key));
                walker.schema(node, value, 0);
                continue;
            }
            // Pictures: their bytes are no text.
            "icons" => continue,
            _ => Part::Text,
        };
        let node = walker.document.node(NodeId::ROOT, Segment::Key(key));
        walker.value(node, part, value, 0);
    }
}

/// Takes all strings of any other value.
pub fn value<'a>(document: &mut Document<'a>, value: &'a Tree<'a>) {
    Walker {
        document,
        visits: 0,
    }
    .value(NodeId::ROOT, Part::Text, value, 0);
}

/// Names of a tool's parameters and enum values, lower case and sorted. A text that mentions one of
/// them speaks of the tool itself.
pub fn own_names<'a>(tool: &'a Tree<'a>) -> Vec<Cow<'a, str>> {
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

fn schema_names<'a>(schema: &'a Tree<'a>, names: &mut Vec<Cow<'a, str>>, depth: usize) {
    if depth > DEPTH || names.len() > 4096 {
        return;
    }
    match schema {
        Tree::Object(fields) => {
            for (key, value) in fields.iter() {
                match (key, value) {
                    ("properties" | "$defs" | "definitions", Tree::Object(properties)) => {
                        names.extend(properties.keys().map(lower));
                        for property in properties.values() {
                            schema_names(property, names, depth + 1);
                        }
                    }
                    ("enum" | "examples", Tree::Array(values)) => {
                        names.extend(values.iter().filter_map(Tree::as_str).map(lower));
                    }
                    ("const" | "default" | "format" | "type", Tree::String(value)) => {
                        names.push(lower(value))
                    }
                    (_, Tree::Object(_) | Tree::Array(_)) => schema_names(value, names, depth + 1),
                    _ => {}
                }
            }
        }
        Tree::Array(values) => values
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

/// A key with blanks in place of what parts words in names; positions stay.
fn spaced(key: &str) -> Cow<'_, str> {
    if key.contains(['_', '-']) {
        Cow::Owned(key.replace(['_', '-'], " "))
    } else {
        Cow::Borrowed(key)
    }
}

struct Walker<'d, 'a> {
    document: &'d mut Document<'a>,
    visits: usize,
}

impl<'a> Walker<'_, 'a> {
    fn enough(&mut self, depth: usize) -> bool {
        self.visits += 1;
        let enough = depth > DEPTH || self.visits > VISITS;
        if enough {
            self.document.cut_short();
        }
        enough
    }

    fn value(&mut self, node: NodeId, part: Part, value: &'a Tree<'a>, depth: usize) {
        if self.enough(depth) {
            return;
        }
        match value {
            Tree::String(text) => self.document.push(node, part, &**text),
            Tree::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let node = self.document.node(node, Segment::Index(index));
                    self.value(node, part, value, depth + 1);
                }
            }
            Tree::Object(fields) => {
                for (key, value) in fields.iter() {
                    // Pictures and sound travel as base64 beside their type; they are no text.
                    let binary = matches!(key, "data" | "blob") && fields.contains_key("mimeType");
                    if binary {
                        continue;
                    }
                    let node = self.document.node(node, Segment::Key(key));
                    if key.contains(char::is_whitespace) || key.len() > SENTENCE_KEY {
                        self.document.push(node, Part::Schema, spaced(key));
                    }
                    self.value(node, part, value, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// A JSON Schema: property names are text, keywords are not.
    fn schema(&mut self, node: NodeId, schema: &'a Tree<'a>, depth: usize) {
        if self.enough(depth) {
            return;
        }
        match schema {
            Tree::Object(fields) => {
                for (key, value) in fields.iter() {
                    let below = self.document.node(node, Segment::Key(key));
                    match (key, value) {
                        (
                            "properties" | "patternProperties" | "$defs" | "definitions"
                            | "dependentSchemas",
                            Tree::Object(properties),
                        ) => {
                            for (name, property) in properties.iter() {
                                let at = self.document.node(below, Segment::Key(name));
                                self.document.push(at, Part::Key, name);
                                if name.len() > SENTENCE_KEY {
                                    self.document.push(at, Part::Schema, spaced(name));
                                }
                                self.schema(at, property, depth + 1);
                            }
                        }
                        (
                            "type" | "$schema" | "$ref" | "format" | "pattern" | "$id" | "required",
                            Tree::String(text),
                        ) if text.len() < 200 => {}
                        ("required" | "type", Tree::Array(_)) => {}
                        (_, Tree::String(text)) => self.document.push(below, Part::Schema, &**text),
                        _ => self.schema(below, value, depth + 1),
                    }
                }
            }
            Tree::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let below = self.document.node(node, Segment::Index(index));
                    self.schema(below, value, depth + 1);
                }
            }
            Tree::String(text) => self.document.push(node, Part::Schema, &**text),
            _ => {}
        }
    }
}
