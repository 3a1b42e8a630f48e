//! The same for Codex, whose configuration is TOML.
//!
//! A server's words need not be adjacent: tables may be written in lines, in braces, or with dots. So
//! each word is located where the parser says it is, and after a change the file is read again: except for
//! the command and its arguments, it must say the same as before.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    Change, EditError, Edited, EditedServer, Outcome, Word, blanks_before, with, without_guard,
};
use crate::identity::config_file::{CODEX, MAX_SERVERS};
use crate::launcher;

const ODD: Outcome =
    Outcome::Unusable("its spelling is too odd to be changed safely: change it by hand");

/// Changes all servers of a file, or the one of a name.
pub(in crate::identity) fn edit(
    text: &[u8],
    wanted: Option<&str>,
    change: Change<'_>,
) -> Result<Edited, EditError> {
    let original = str::from_utf8(text).map_err(|_| EditError::NotText)?;
    let names = names(original).map_err(|error| EditError::NotToml(error.message().to_owned()))?;
    if names.len() >= MAX_SERVERS {
        return Err(EditError::TooMany);
    }
    let mut edited = Edited {
        text: original.to_owned(),
        servers: Vec::new(),
    };
    for name in names {
        let was_guarded =
            Start::read(&edited.text, &name).is_ok_and(|start| start.guarded().is_some());
        let outcome = match wanted.is_none_or(|wanted| wanted == name) {
            false => Outcome::Other,
            true => match changed(&edited.text, &name, change) {
                Ok(new) if new == edited.text => Outcome::Unchanged,
                Ok(new) => {
                    edited.text = new;
                    Outcome::Changed
                }
                Err(outcome) => outcome,
            },
        };
        edited.servers.push(EditedServer {
            name,
            project: None,
            outcome,
            was_guarded,
            is_guarded: match outcome {
                Outcome::Changed => matches!(change, Change::Guard { .. }),
                _ => was_guarded,
            },
        });
    }
    Ok(edited)
}

/// The names of the servers in order.
fn names(text: &str) -> Result<Vec<String>, toml::de::Error> {
    let file = DeTable::parse(text)?;
    let servers = file.get_ref().get(CODEX).map(Spanned::get_ref);
    let Some(DeValue::Table(servers)) = servers else {
        return Ok(Vec::new());
    };
    let mut names: Vec<_> = servers
        .iter()
        .map(|(name, _)| (name.span().start, name.get_ref().to_string()))
        .collect();
    names.sort_unstable();
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// The file after a change of one server.
fn changed(text: &str, name: &str, change: Change<'_>) -> Result<String, Outcome> {
    let start = Start::read(text, name)?;
    let own: Vec<String> = start.own().map(str::to_owned).collect();
    let bare = start.unguard();
    let (new, words) = match change {
        Change::Unguard => (bare, own),
        Change::Guard { program, options } => {
            let options = options(name);
            let new = Start::read(&bare, name)?.guard(program, &options)?;
            let before = [program, "guard"].map(str::to_owned).into_iter();
            let before = before.chain(options).chain(["--".to_owned()]);
            (new, before.chain(own).collect())
        }
    };
    let says = Start::read(&new, name)?;
    let is_meant = says.words().eq(words.iter().map(String::as_str));
    match is_meant && rest(text, name) == rest(&new, name) {
        true => Ok(new),
        false => Err(ODD),
    }
}

/// What a file says apart from one server's command.
fn rest(text: &str, name: &str) -> Option<toml::Table> {
    let mut file: toml::Table = toml::from_str(text).ok()?;
    let servers = file.get_mut(CODEX)?.as_table_mut()?;
    let server = servers.get_mut(name)?.as_table_mut()?;
    server.remove("command");
    server.remove("args");
    Some(file)
}

/// How a file says to start a server.
struct Start<'t> {
    text: &'t str,
    /// Where the name of the member with the command is.
    key: Range<usize>,
    command: Word,
    /// The list of arguments with its brackets, and where the member's name begins.
    arguments: Option<(Range<usize>, usize, Vec<Word>)>,
}

impl<'t> Start<'t> {
    fn read(text: &'t str, name: &str) -> Result<Self, Outcome> {
        const NO_WORDS: Outcome = Outcome::Unusable("its arguments are not a list of texts");
        let file = DeTable::parse(text).map_err(|_| ODD)?;
        let servers = file.get_ref().get(CODEX).map(Spanned::get_ref);
        let server = match servers {
            Some(DeValue::Table(servers)) => servers.get(name).map(Spanned::get_ref),
            _ => None,
        };
        let Some(DeValue::Table(server)) = server else {
            return Err(Outcome::Unusable("its description is not a table"));
        };
        let Some((key, command)) = server.get_key_value("command") else {
            return Err(match server.contains_key("url") {
                true => Outcome::Url,
                false => Outcome::Unusable("it has neither a command nor a URL"),
            });
        };
        let command = word(command).ok_or(Outcome::Unusable("its command is not a text"))?;
        let arguments = server.get_key_value("args").map(|(key, list)| {
            let DeValue::Array(words) = list.get_ref() else {
                return Err(NO_WORDS);
            };
            let words: Option<Vec<Word>> = words.iter().map(word).collect();
            Ok((list.span(), key.span().start, words.ok_or(NO_WORDS)?))
        });
        Ok(Self {
            text,
            key: key.span(),
            command,
            arguments: arguments.transpose()?,
        })
    }

    fn arguments(&self) -> &[Word] {
        self.arguments.as_ref().map_or(&[], |(.., words)| words)
    }

    /// The command and its arguments.
    fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.command)
            .chain(self.arguments())
            .map(|word| word.text.as_str())
    }

    /// The position of the server's own command among the arguments, if there is a guard in front of it.
    fn guarded(&self) -> Option<usize> {
        let words: Vec<&str> = self.words().collect();
        // One less: the first is the command itself.
        Some(launcher::behind_guard(&words)? - 1)
    }

    /// The server's own command and arguments.
    fn own(&self) -> impl Iterator<Item = &str> {
        let guard = self.guarded().map_or(0, |own| own + 1);
        self.words().skip(guard)
    }

    /// The file with a guard in front.
    fn guard(&self, program: &str, options: &[String]) -> Result<String, Outcome> {
        let quoted = |word: &str| toml::Value::from(word).to_string();
        let own = &self.text[self.command.at.clone()];
        let mut before = vec![quoted("guard")];
        before.extend(options.iter().map(|option| quoted(option)));
        before.extend([quoted("--"), own.to_owned()]);
        let list = match (&self.arguments, self.arguments().first()) {
            (Some(_), Some(first)) => {
                let gap = blanks_before(self.text, first.at.start);
                let list: String = before.iter().map(|word| format!("{word},{gap}")).collect();
                (first.at.start..first.at.start, list)
            }
            (Some((at, ..)), None) => (at.start + 1..at.start + 1, before.join(", ")),
            (None, _) => {
                let end = self.command.at.end;
                let gap = self.gap()?;
                (end..end, format!("{gap}args = [ {} ]", before.join(", ")))
            }
        };
        let command = (self.command.at.clone(), quoted(program));
        Ok(with(self.text, vec![command, list]))
    }

    /// What is between the command and a member that follows it.
    fn gap(&self) -> Result<String, Outcome> {
        let before = &self.text[..self.key.start];
        let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
        let blanks = line.trim_start_matches([' ', '\t']);
        match line.trim_end_matches([' ', '\t']).chars().last() {
            None => {
                let end = match before.ends_with(&format!("\r\n{line}")) {
                    true => "\r\n",
                    false => "\n",
                };
                Ok(format!("{end}{}", &line[..line.len() - blanks.len()]))
            }
            Some('{' | ',') => Ok(", ".to_owned()),
            Some(_) => Err(Outcome::Unusable(
                "its command is spelled with dots: give it arguments (`args = []`) in the same way",
            )),
        }
    }

    /// The file without a guard.
    fn unguard(&self) -> String {
        let (Some(own), Some((list, key, words))) = (self.guarded(), &self.arguments) else {
            return self.text.to_owned();
        };
        let (Some(first), Some(own_word)) = (words.first(), words.get(own)) else {
            return self.text.to_owned();
        };
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
        let gap = self.gap().ok();
        gap.is_some_and(|gap| text.get(self.command.at.end..key) == Some(&gap))
            && text.get(key..first) == Some("args = [ ")
            && text.get(last..list.end) == Some(" ]")
    }
}

/// A text with its position.
fn word(value: &Spanned<DeValue<'_>>) -> Option<Word> {
    match value.get_ref() {
        DeValue::String(text) => Some(Word {
            text: text.to_string(),
            at: value.span(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
