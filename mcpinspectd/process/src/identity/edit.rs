//! Puts a guard in front of the servers of a configuration, and removes it again.
//!
//! A person wrote the file, with comments, an order and a style of their own, and others read it. So nothing
//! is parsed and reprinted: words are inserted or removed in place in the text. Removing is
//! the exact reverse of inserting. The server's own command keeps its spelling and becomes the word after
//! `--`; if a server had no arguments, the blanks inside the brackets of the new list record that.

pub(super) mod codex;

use std::ops::Range;

use mcpinspect_core::mcp::json;
use thiserror::Error;

use super::config_file::{self, Layout, MAX_ENTRY, MAX_SERVERS};
use super::jsonc;
use crate::launcher;

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
    #[error("it is not UTF-8")]
    NotText,
    /// It cannot be read.
    #[error("it is not JSON, also without its comments: {0}")]
    NotJson(String),
    /// It cannot be read.
    #[error("it is not TOML: {0}")]
    NotToml(String),
    /// It is too large.
    #[error("it describes more than {MAX_SERVERS} servers")]
    TooMany,
}

/// Changes all servers of a file, or the one of a name.
pub(super) fn edit(
    text: &[u8],
    layouts: &[Layout],
    wanted: Option<&str>,
    change: Change<'_>,
) -> Result<Edited, EditError> {
    let original = str::from_utf8(text).map_err(|_| EditError::NotText)?;
    let blanked = blanked(original);
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&blanked) {
        return Err(EditError::NotJson(error.to_string()));
    }
    let described = layouts
        .iter()
        .map(|layout| config_file::descriptions(&blanked, *layout))
        .find(|described| !described.is_empty())
        .unwrap_or_default();
    if described.len() >= MAX_SERVERS {
        return Err(EditError::TooMany);
    }
    let (mut servers, mut pieces) = (Vec::new(), Vec::new());
    for (name, raw, project) in described {
        let start = raw.as_ptr() as usize - blanked.as_ptr() as usize;
        let own = &original[start..start + raw.len()];
        let was_guarded = is_guarded(own);
        let outcome = match wanted.is_none_or(|wanted| wanted == name) {
            false => Outcome::Other,
            true => match changed(own, &name, change) {
                Ok(new) if new == own => Outcome::Unchanged,
                Ok(new) => {
                    pieces.push((start..start + raw.len(), new));
                    Outcome::Changed
                }
                Err(outcome) => outcome,
            },
        };
        servers.push(EditedServer {
            name,
            project,
            outcome,
            was_guarded,
            is_guarded: match outcome {
                Outcome::Changed => matches!(change, Change::Guard { .. }),
                _ => was_guarded,
            },
        });
    }
    let text = with(original, pieces);
    Ok(Edited { text, servers })
}

/// A text with parts replaced; the parts do not overlap.
fn with(text: &str, mut pieces: Vec<(Range<usize>, String)>) -> String {
    pieces.sort_by_key(|(at, _)| (at.start, at.end));
    let mut whole = String::new();
    let mut done = 0;
    for (at, new) in pieces {
        whole.push_str(&text[done..at.start]);
        whole.push_str(&new);
        done = at.end;
    }
    whole.push_str(&text[done..]);
    whole
}

/// The text without comments, at the same offsets.
fn blanked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    jsonc::to_json(&mut bytes);
    // Whole comments are blanked, so the rest is still valid text.
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_guarded(description: &str) -> bool {
    let blank = blanked(description);
    Start::read(description, &blank).is_ok_and(|start| start.guarded().is_some())
}

/// A description after a change.
fn changed(description: &str, name: &str, change: Change<'_>) -> Result<String, Outcome> {
    if description.len() > MAX_ENTRY {
        return Err(Outcome::Unusable("its description is too long"));
    }
    let bare = {
        let blank = blanked(description);
        Start::read(description, &blank)?.unguard()
    };
    let new = match change {
        Change::Unguard => bare,
        Change::Guard { program, options } => {
            let blank = blanked(&bare);
            Start::read(&bare, &blank)?.guard(program, &options(name))?
        }
    };
    // Whatever is between the words: the result can be read again.
    let blank = blanked(&new);
    match Start::read(&new, &blank) {
        Ok(start) if start.guarded().is_some() == matches!(change, Change::Guard { .. }) => Ok(new),
        _ => Err(Outcome::Unusable(
            "its spelling is too odd to be changed safely: change it by hand",
        )),
    }
}

/// A word of a command, decoded, and its position.
struct Word {
    text: String,
    at: Range<usize>,
}

/// How a description says to start its server.
struct Start<'t> {
    text: &'t str,
    command: Word,
    /// Where the member with the command begins.
    key: usize,
    /// Whether the command and its arguments are one list, as in OpenCode.
    is_list: bool,
    /// The list of arguments with its brackets, and where the member begins.
    arguments: Option<(Range<usize>, usize, Vec<Word>)>,
}

/// The members that matter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Command,
    Path,
    Args,
    Url,
    Other,
}

const REPEATED: Outcome = Outcome::Unusable("it repeats a member: remove one of them");

impl<'t> Start<'t> {
    /// Reads the description `text`, which is `blank` without its comments.
    fn read(text: &'t str, blank: &'t str) -> Result<Self, Outcome> {
        let found = members(blank, blank)?;
        let one = |found: &[(Key, Range<usize>)], key| {
            let mut all = found.iter().filter(|(other, _)| *other == key);
            let first = all.next().map(|(_, at)| at.clone());
            match all.next() {
                Some(_) => Err(REPEATED),
                None => Ok(first),
            }
        };
        let Some(command) = one(&found, Key::Command)? else {
            return Err(match found.iter().any(|(key, _)| *key == Key::Url) {
                true => Outcome::Url,
                false => Outcome::Unusable("it has neither a command nor a URL"),
            });
        };
        if blank[command.clone()].starts_with('[') {
            return Self::of_list(text, blank, command);
        }
        let (name, command, args) = match blank[command.clone()].starts_with('{') {
            false => ("command", command, one(&found, Key::Args)?),
            // Zed's older form.
            true => {
                let found = members(blank, &blank[command])?;
                let path = one(&found, Key::Path)?;
                let path = path.ok_or(Outcome::Unusable("its command has no path"))?;
                ("path", path, one(&found, Key::Args)?)
            }
        };
        let arguments = args.map(|at| {
            let words = words(blank, &blank[at.clone()])?;
            Ok((at.clone(), key_before(blank, at.start, "args")?, words))
        });
        Ok(Self {
            text,
            is_list: false,
            key: key_before(blank, command.start, name)?,
            command: Word {
                text: serde_json::from_str(&blank[command.clone()])
                    .map_err(|_| Outcome::Unusable("its command is not a text"))?,
                at: command,
            },
            arguments: arguments.transpose()?,
        })
    }

    fn of_list(text: &'t str, blank: &str, list: Range<usize>) -> Result<Self, Outcome> {
        let mut words = words(blank, &blank[list.clone()])?;
        if words.is_empty() {
            return Err(Outcome::Unusable("its command is empty"));
        }
        Ok(Self {
            text,
            key: list.start,
            is_list: true,
            command: words.remove(0),
            arguments: Some((list.clone(), list.start, words)),
        })
    }

    fn words(&self) -> &[Word] {
        self.arguments.as_ref().map_or(&[], |(.., words)| words)
    }

    /// The position of the server's own command among the arguments, if there is a guard in front of it.
    fn guarded(&self) -> Option<usize> {
        let words = self.words();
        let all: Vec<&str> = std::iter::once(self.command.text.as_str())
            .chain(words.iter().map(|word| word.text.as_str()))
            .collect();
        // One less: the first is the command itself.
        Some(launcher::behind_guard(&all)? - 1)
    }

    /// The description with a guard in front.
    fn guard(&self, program: &str, options: &[String]) -> Result<String, Outcome> {
        let words = self.words();
        let is_line = !self.is_list && words.is_empty() && self.command.text.contains(' ');
        if is_line && !self.command.text.starts_with('/') {
            return Err(Outcome::Unusable(
                "its command is a whole line: write the first word as `command`, the others as `args`",
            ));
        }
        let quoted = |word: &str| serde_json::Value::from(word).to_string();
        let own = &self.text[self.command.at.clone()];
        let mut before = vec![quoted("guard")];
        before.extend(options.iter().map(|option| quoted(option)));
        before.push(quoted("--"));
        if self.is_list {
            let first = self.command.at.start;
            let gap = blanks_before(self.text, first);
            before.insert(0, quoted(program));
            let list: String = before.iter().map(|word| format!("{word},{gap}")).collect();
            return Ok(with(self.text, vec![(first..first, list)]));
        }
        before.push(own.to_owned());
        let list = match (&self.arguments, words.first()) {
            (Some(_), Some(first)) => {
                let gap = blanks_before(self.text, first.at.start);
                let mut list = String::new();
                for word in before {
                    list.push_str(&format!("{word},{gap}"));
                }
                (first.at.start..first.at.start, list)
            }
            (Some((at, ..)), None) => (at.start + 1..at.start + 1, before.join(", ")),
            (None, _) => {
                let gap = blanks_before(self.text, self.key);
                let list = format!(",{gap}\"args\": [ {} ]", before.join(", "));
                (self.command.at.end..self.command.at.end, list)
            }
        };
        let command = (self.command.at.clone(), quoted(program));
        Ok(with(self.text, vec![command, list]))
    }

    /// The description without a guard.
    fn unguard(&self) -> String {
        let (Some(own), Some((list, key, words))) = (self.guarded(), &self.arguments) else {
            return self.text.to_owned();
        };
        let (Some(first), Some(own_word)) = (words.first(), words.get(own)) else {
            return self.text.to_owned();
        };
        if self.is_list {
            let gone = self.command.at.start..own_word.at.start;
            return with(self.text, vec![(gone, String::new())]);
        }
        let added = self.was_added(list, *key, first.at.start, own_word.at.end);
        without_guard(
            self.text,
            &self.command,
            words,
            own,
            added.then_some(list.end),
        )
    }

    /// Whether the list of arguments was inserted with the guard.
    fn was_added(&self, list: &Range<usize>, key: usize, first: usize, last: usize) -> bool {
        let text = self.text;
        let before = text.get(self.command.at.end..key);
        let gap = before.and_then(|before| before.strip_prefix(','));
        gap.is_some_and(|gap| gap.chars().all(char::is_whitespace))
            && text.get(key..first) == Some("\"args\": [ ")
            && text.get(last..list.end) == Some(" ]")
    }
}

/// A text in which the server's own command, the word `own` of the guard's arguments, takes the guard's place.
/// `added` is where the list of arguments ends, if it was inserted with the guard: it is removed too, unless the
/// server has arguments by now.
fn without_guard(
    text: &str,
    command: &Word,
    words: &[Word],
    own: usize,
    added: Option<usize>,
) -> String {
    let (Some(first), Some(own_word)) = (words.first(), words.get(own)) else {
        return text.to_owned();
    };
    let gone = match (words.get(own + 1), added) {
        (Some(next), _) => first.at.start..next.at.start,
        (None, Some(end)) => command.at.end..end,
        (None, None) => first.at.start..own_word.at.end,
    };
    let own = text[own_word.at.clone()].to_owned();
    with(text, vec![(command.at.clone(), own), (gone, String::new())])
}

/// The members of an object that matter, and where their values are in `whole`.
fn members(whole: &str, object: &str) -> Result<Vec<(Key, Range<usize>)>, Outcome> {
    let key = |name: &[u8]| match name {
        b"command" => Key::Command,
        b"path" => Key::Path,
        b"args" => Key::Args,
        b"url" | b"httpUrl" | b"serverUrl" => Key::Url,
        _ => Key::Other,
    };
    let mut found = Vec::new();
    json::members(object, key, |key, value| {
        if key != Key::Other {
            found.push((key, place(whole, value.get())));
        }
    })
    .map_err(|_| Outcome::Unusable("its description is not an object"))?;
    Ok(found)
}

/// The words of a list of arguments.
fn words(whole: &str, list: &str) -> Result<Vec<Word>, Outcome> {
    const NO_WORDS: Outcome = Outcome::Unusable("its arguments are not a list of texts");
    let mut words = Vec::new();
    let mut are_words = true;
    json::elements(list, |value| {
        let text = value.get();
        let word = match text.starts_with('"') {
            true => serde_json::from_str(text).ok(),
            false => text
                .starts_with(|c: char| c == '-' || c.is_ascii_digit())
                .then(|| text.to_owned()),
        };
        are_words &= word.is_some();
        words.extend(word.map(|text| Word {
            text,
            at: place(whole, value.get()),
        }));
        are_words
    })
    .map_err(|_| NO_WORDS)?;
    are_words.then_some(words).ok_or(NO_WORDS)
}

/// Where a part of a text is in it.
fn place(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Where the member of this name begins whose value is at `value`.
fn key_before(blank: &str, value: usize, name: &str) -> Result<usize, Outcome> {
    let before = blank[..value].trim_end().strip_suffix(':');
    let before = before.map(|before| before.trim_end().strip_suffix('"'));
    let before = before.flatten().and_then(|text| text.strip_suffix(name));
    let start = before.and_then(|before| before.strip_suffix('"'));
    start.map(str::len).ok_or(Outcome::Unusable(
        "a member's name is spelled with escapes: write it plainly",
    ))
}

/// A line break with what follows, if nothing else precedes `at`, or else one blank.
fn blanks_before(text: &str, at: usize) -> &str {
    let before = &text[..at];
    let blanks = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
    match blanks.contains('\n') {
        true => blanks,
        false => " ",
    }
}

#[cfg(test)]
mod tests;
