//! Servers in Codex's configuration, which is TOML.
//!
//! A server's words need not be adjacent: tables may be written in lines, in braces, or with dots. So
//! each word is located where the parser says it is.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::start::{Form, SpannedWord, Start, blanks_before};
use super::{Described, EditError, NO_COMMAND, NO_TEXT, NO_WORDS, Outcome};
use crate::identity::config_file::CODEX;

/// The servers of a file in order.
pub(super) fn read(text: &str) -> Result<Vec<Described>, EditError> {
    let file =
        DeTable::parse(text).map_err(|error| EditError::NotToml(error.message().to_owned()))?;
    let servers = file.get_ref().get(CODEX).map(Spanned::get_ref);
    let Some(DeValue::Table(servers)) = servers else {
        return Ok(Vec::new());
    };
    let mut servers: Vec<_> = servers.iter().collect();
    servers.sort_by_key(|(name, _)| name.span().start);
    let described = servers.into_iter().map(|(name, server)| Described {
        name: name.get_ref().to_string(),
        project: None,
        start: start(text, server),
    });
    Ok(described.collect())
}

fn start(text: &str, server: &Spanned<DeValue<'_>>) -> Result<Start, Outcome> {
    let DeValue::Table(members) = server.get_ref() else {
        return Err(Outcome::Unusable("its entry is not a table"));
    };
    let Some((key, command)) = members.get_key_value("command") else {
        return Err(match members.contains_key("url") {
            true => Outcome::Url,
            false => NO_COMMAND,
        });
    };
    let mut words = vec![word(command).ok_or(NO_TEXT)?];
    let list = members.get("args");
    if let Some(list) = list {
        let DeValue::Array(list) = list.get_ref() else {
            return Err(NO_WORDS);
        };
        let list: Option<Vec<SpannedWord>> = list.iter().map(word).collect();
        words.extend(list.ok_or(NO_WORDS)?);
    }
    Ok(Start {
        words,
        form: Form::Members {
            gap: gap(text, server.span(), key.span().start),
            list: list.map(Spanned::span),
        },
    })
}

/// What is between the command, a member that begins at `key`, and one that follows it.
fn gap(text: &str, table: Range<usize>, key: usize) -> Result<String, Outcome> {
    if text[table].starts_with('{') {
        return Ok(format!(",{}", blanks_before(text, key)));
    }
    let before = &text[..key];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let indent = &before[line..];
    if !indent.trim_matches([' ', '\t']).is_empty() {
        return Err(Outcome::Unusable(
            "its command is written as a dotted key: write its arguments (`args = []`) in the same way",
        ));
    }
    let end = match before[..line].ends_with("\r\n") {
        true => "\r\n",
        false => "\n",
    };
    Ok(format!("{end}{indent}"))
}

/// A text with its position.
fn word(value: &Spanned<DeValue<'_>>) -> Option<SpannedWord> {
    match value.get_ref() {
        DeValue::String(text) => Some(SpannedWord {
            text: text.to_string(),
            at: value.span(),
        }),
        _ => None,
    }
}

/// What a file says apart from the commands of these servers.
pub(super) fn rest(text: &str, servers: &[&str]) -> Option<toml::Table> {
    let mut file: toml::Table = toml::from_str(text).ok()?;
    let described = file.get_mut(CODEX)?.as_table_mut()?;
    for name in servers {
        let server = described.get_mut(*name)?.as_table_mut()?;
        server.remove("command");
        server.remove("args");
    }
    Some(file)
}

#[cfg(test)]
mod tests;
