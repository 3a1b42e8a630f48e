//! Puts a guard in front of the servers of a configuration, and removes it again.
//!
//! A person wrote the file, with comments, an order and a style of their own, and others read it. So nothing
//! is parsed and reprinted: words are inserted or removed in place in the text. Removing is
//! the exact reverse of inserting. The server's own command keeps its spelling and becomes the word after
//! `--`; if a server had no arguments, the blanks inside the brackets of the new list record that.
//!
//! - `json` and `codex` find each server's words in a file
//! - `start` says what a change replaces by what
//!
//! Libraries that edit such files in place do not keep every byte: `toml_edit` drops carriage returns, and after
//! `jsonc-parser` has inserted words and removed them, other blanks are left; it also refuses the lone surrogates
//! that clients write when they cut a text. So the parsers only locate the words. The file is read twice, however
//! many servers it describes: once to find them, once to check the result.

mod codex;
mod json;
mod start;

use std::ops::Range;

use thiserror::Error;

use self::start::{Plan, Start};
use super::config_file::{Layout, MAX_SERVERS};

/// What becomes of the servers.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// They start through a guard.
    Guard {
        /// The path of `mcpinspect`.
        program: &'a str,
        /// The guard's options for a server of this name.
        options: &'a dyn Fn(&str) -> Vec<String>,
    },
    /// They start as they did without a guard.
    Unguard,
}

/// What became of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its description was changed.
    Changed,
    /// It already was like that.
    Unchanged,
    /// It was not asked for.
    Other,
    /// It has a URL in place of a command.
    Url,
    /// Its description cannot be changed.
    Unusable(&'static str),
}

const ODD: Outcome =
    Outcome::Unusable("its syntax is too unusual to be changed safely: edit it by hand");
const NO_COMMAND: Outcome = Outcome::Unusable("it has neither a command nor a URL");
const NO_TEXT: Outcome = Outcome::Unusable("its command is not a string");
const NO_WORDS: Outcome = Outcome::Unusable("its arguments are not a list of strings");

/// A server in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedServer {
    /// Its name as written.
    pub name: String,
    /// The project that it is limited to.
    pub project: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it had a guard before.
    pub was_guarded: bool,
    /// Whether it has one now.
    pub is_guarded: bool,
}

/// A configuration after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Its text.
    pub text: String,
    /// All servers in it, in order.
    pub servers: Vec<EditedServer>,
}

/// Why a file is not a configuration that can be changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// It is not text.
    #[error("it is not valid UTF-8")]
    NotText,
    /// It cannot be read.
    #[error("it is not valid JSON, even without its comments: {0}")]
    NotJson(String),
    /// It cannot be read.
    #[error("it is not valid TOML: {0}")]
    NotToml(String),
    /// It is too large.
    #[error("it describes more than {MAX_SERVERS} servers")]
    TooMany,
}

/// What a configuration is written in.
#[derive(Clone, Copy)]
enum Language<'l> {
    /// JSON with comments and trailing commas; its servers are where the first of these layouts finds any.
    Json(&'l [Layout]),
    /// TOML, as Codex has it.
    Toml,
}

/// A server as a file describes it.
struct Described {
    name: String,
    project: Option<String>,
    start: Result<Start, Outcome>,
}

impl Described {
    fn words(&self) -> Option<Vec<&str>> {
        self.start.as_ref().ok().map(Start::texts)
    }
}

impl Language<'_> {
    /// The servers of a file in order.
    fn read(self, text: &str) -> Result<Vec<Described>, EditError> {
        match self {
            Self::Json(layouts) => json::read(text, layouts),
            Self::Toml => codex::read(text),
        }
    }

    /// What a file says apart from the commands of these servers; `None` for JSON, where a description is in one
    /// place, and nothing outside of it changes.
    fn rest(self, text: &str, servers: &[&str]) -> Option<toml::Table> {
        match self {
            Self::Json(_) => None,
            Self::Toml => codex::rest(text, servers),
        }
    }

    /// A word as a string of the language.
    fn quoted(self, word: &str) -> String {
        match self {
            Self::Json(_) => serde_json::Value::from(word).to_string(),
            Self::Toml => toml::Value::from(word).to_string(),
        }
    }

    /// How a list of arguments begins that is inserted with the guard.
    fn new_list(self) -> &'static str {
        match self {
            Self::Json(_) => "\"args\": [ ",
            Self::Toml => "args = [ ",
        }
    }
}

/// Changes all servers of a file, or the one of a name.
pub(super) fn edit(
    text: &[u8],
    layouts: &[Layout],
    wanted: Option<&str>,
    change: Change<'_>,
) -> Result<Edited, EditError> {
    let text = str::from_utf8(text).map_err(|_| EditError::NotText)?;
    let language = match layouts {
        [Layout::Codex] => Language::Toml,
        layouts => Language::Json(layouts),
    };
    let described = language.read(text)?;
    if described.len() >= MAX_SERVERS {
        return Err(EditError::TooMany);
    }
    let mut plans: Vec<Result<Plan, Outcome>> = described
        .iter()
        .map(
            |server| match wanted.is_none_or(|name| name == server.name) {
                true => server.start.as_ref().map_err(|why| *why)?.planned(
                    text,
                    language,
                    &server.name,
                    change,
                ),
                false => Err(Outcome::Other),
            },
        )
        .collect();
    let pieces = plans.iter().flatten().flat_map(|plan| &plan.pieces);
    let mut new = with(text, pieces.collect());
    if new != text && !is_meant(text, &new, language, &described, &plans) {
        new = text.to_owned();
        for plan in &mut plans {
            *plan = Err(plan.as_ref().map_or_else(|why| *why, |_| ODD));
        }
    }
    let servers = described.into_iter().zip(plans).map(|(server, plan)| {
        let was_guarded = server.start.is_ok_and(|start| start.guard() > 0);
        EditedServer {
            name: server.name,
            project: server.project,
            was_guarded,
            is_guarded: match plan {
                Ok(_) => matches!(change, Change::Guard { .. }),
                Err(_) => was_guarded,
            },
            outcome: plan.map_or_else(|why| why, |_| Outcome::Changed),
        }
    });
    Ok(Edited {
        servers: servers.collect(),
        text: new,
    })
}

/// Whether the new text says what it is to say, whatever was between the words: the same servers, each
/// started by the words of its plan, or by those that it had.
fn is_meant(
    old: &str,
    new: &str,
    language: Language<'_>,
    described: &[Described],
    plans: &[Result<Plan, Outcome>],
) -> bool {
    let Ok(now) = language.read(new) else {
        return false;
    };
    let meant = described.iter().zip(plans);
    let meant = meant.map(|(server, plan)| match plan {
        Ok(plan) => Some(plan.words.iter().map(String::as_str).collect()),
        Err(_) => server.words(),
    });
    let changed = described.iter().zip(plans).filter(|(_, plan)| plan.is_ok());
    let changed: Vec<&str> = changed.map(|(server, _)| &*server.name).collect();
    now.iter().map(Described::words).eq(meant)
        && language.rest(old, &changed) == language.rest(new, &changed)
}

/// A part of a text and what takes its place.
type Piece = (Range<usize>, String);

/// A text with parts replaced; the parts do not overlap.
fn with(text: &str, mut pieces: Vec<&Piece>) -> String {
    pieces.sort_by_key(|(at, _)| (at.start, at.end));
    let mut whole = String::new();
    let mut done = 0;
    for (at, new) in pieces {
        whole.push_str(&text[done..at.start]);
        whole.push_str(new);
        done = at.end;
    }
    whole.push_str(&text[done..]);
    whole
}

#[cfg(test)]
mod tests;
