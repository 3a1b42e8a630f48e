//! An approval list: which definitions are approved, by whom and why, and which no longer are.
//!
//! Its text is JSON that people can read in a review, and it is signed as is, byte for byte. Each
//! change increments the serial number; of two lists with one name, the higher number counts.

use std::fmt;

use mcpinspect_core::model::{DefinitionHash, ItemKind, Timestamp};
use mcpinspect_judge::registry::{ItemKey, Listed, MAX_NAME};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Largest list, in bytes.
pub const LIST_MAX: usize = 8 << 20;
/// Most entries of a list.
const ENTRIES_MAX: usize = 32_768;
/// Most revocations to keep. The oldest go; what they were about stays unapproved.
const REVOKED_MAX: usize = 4_096;
/// Longest text, in bytes.
const TEXT_MAX: usize = 1_024;
/// The format that the text states.
const FORMAT: &str = "mcpinspect-approvals-1";

/// An approval list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalList {
    /// Its name. Lists with different names add up.
    pub name: String,
    /// Incremented with each change.
    pub serial: u64,
    /// When it was written.
    pub issued: Timestamp,
    /// When it expires, if ever.
    pub expires: Option<Timestamp>,
    /// What is approved.
    pub approvals: Vec<Entry>,
    /// What was approved and no longer is.
    pub revoked: Vec<Entry>,
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The server's name.
    pub server: String,
    /// What of it.
    pub key: ItemKey,
    /// Which definition.
    pub hash: DefinitionHash,
    /// Who decided.
    pub by: String,
    /// When.
    pub time: Timestamp,
    /// Why.
    pub reason: String,
    /// When an approval expires, if ever.
    pub expires: Option<Timestamp>,
}

impl Entry {
    /// Whether both are about the same definition.
    pub fn is_about(&self, other: &Self) -> bool {
        (&self.server, &self.key, self.hash) == (&other.server, &other.key, other.hash)
    }
}

/// Why a text is not an approval list.
#[derive(Debug, Error)]
pub enum ListError {
    /// It is not JSON of that form.
    #[error("not an approval list: {0}")]
    NotAList(String),
    /// It says something impossible.
    #[error("not a valid approval list: {0}")]
    Invalid(String),
    /// A change does not fit.
    #[error("{0}")]
    Unfit(String),
}

/// The list as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: String,
    list: String,
    serial: u64,
    issued: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    approvals: Vec<EntryText>,
    #[serde(default)]
    revoked: Vec<EntryText>,
}

/// An entry as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    server: String,
    item: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    hash: String,
    by: String,
    time: String,
    #[serde(default)]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

impl ApprovalList {
    /// An empty list.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn new(name: &str, now: Timestamp) -> Result<Self, ListError> {
        check_name(name)?;
        Ok(Self {
            name: name.to_owned(),
            serial: 0,
            issued: now,
            expires: None,
            approvals: Vec::new(),
            revoked: Vec::new(),
        })
    }

    /// The list with this text.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn parse(text: &str) -> Result<Self, ListError> {
        if text.len() > LIST_MAX {
            let problem = format!("larger than {LIST_MAX} bytes");
            return Err(ListError::Invalid(problem));
        }
        let text: Text =
            serde_json::from_str(text).map_err(|error| ListError::NotAList(error.to_string()))?;
        if text.format != FORMAT {
            let problem = format!("the format must be {FORMAT:?}");
            return Err(ListError::NotAList(problem));
        }
        check_name(&text.list)?;
        let list = Self {
            name: text.list,
            serial: text.serial,
            issued: time("issued", &text.issued)?,
            expires: some_time(text.expires.as_deref())?,
            approvals: entries(text.approvals)?,
            revoked: entries(text.revoked)?,
        };
        list.check()?;
        Ok(list)
    }

    /// Its text.
    ///
    /// # Errors
    /// It has become too large.
    pub fn text(&self) -> Result<String, ListError> {
        self.check()?;
        let text = Text {
            format: FORMAT.to_owned(),
            list: self.name.clone(),
            serial: self.serial,
            issued: self.issued.to_string(),
            expires: self.expires.map(|time| time.to_string()),
            approvals: self.approvals.iter().map(EntryText::of).collect(),
            revoked: self.revoked.iter().map(EntryText::of).collect(),
        };
        let mut text = serde_json::to_string_pretty(&text)
            .map_err(|error| ListError::Unfit(error.to_string()))?;
        text.push('\n');
        if text.len() > LIST_MAX {
            let problem = format!("the list would be larger than {LIST_MAX} bytes; begin another");
            return Err(ListError::Unfit(problem));
        }
        Ok(text)
    }

    /// Approves a definition, replacing any earlier approval or revocation of it.
    pub fn approve(&mut self, entry: Entry) {
        self.approvals.retain(|other| !other.is_about(&entry));
        self.revoked.retain(|other| !other.is_about(&entry));
        self.approvals.push(entry);
    }

    /// Revokes approvals of an item: of the definition with this hash, or of all. Returns how many.
    pub fn revoke(
        &mut self,
        server: &str,
        key: &ItemKey,
        hash: Option<DefinitionHash>,
        (by, reason, now): (&str, &str, Timestamp),
    ) -> usize {
        let fits = |entry: &mut Entry| {
            entry.server == server
                && entry.key == *key
                && hash.is_none_or(|hash| entry.hash == hash)
        };
        let mut gone: Vec<Entry> = self.approvals.extract_if(.., fits).collect();
        for entry in &mut gone {
            by.clone_into(&mut entry.by);
            reason.clone_into(&mut entry.reason);
            entry.time = now;
            entry.expires = None;
        }
        let count = gone.len();
        self.revoked
            .retain(|old| !gone.iter().any(|new| new.is_about(old)));
        self.revoked.append(&mut gone);
        let excess = self.revoked.len().saturating_sub(REVOKED_MAX);
        self.revoked.drain(..excess);
        count
    }

    /// Whether it counts at that time.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Adds what it says at that time to `listed`. Returns when it will say something else on its own.
    pub fn add_to(&self, listed: &mut Listed, now: Timestamp) -> Option<Timestamp> {
        let mut next = self.expires.filter(|end| *end > now);
        for entry in &self.revoked {
            listed.revoke(
                &entry.server,
                entry.key.clone(),
                entry.hash,
                self.description(entry),
            );
        }
        for entry in &self.approvals {
            let end = [self.expires, entry.expires].into_iter().flatten().min();
            match end {
                Some(end) if end <= now => {
                    let why = format!("expired {end} ({self})");
                    listed.revoke(&entry.server, entry.key.clone(), entry.hash, why);
                }
                _ => {
                    next = [next, end].into_iter().flatten().min();
                    listed.approve(
                        &entry.server,
                        entry.key.clone(),
                        entry.hash,
                        self.description(entry),
                    );
                }
            }
        }
        next
    }

    fn description(&self, entry: &Entry) -> String {
        let colon = if entry.reason.is_empty() { "" } else { ": " };
        format!("{}{colon}{} ({self})", entry.by, entry.reason)
    }

    fn check(&self) -> Result<(), ListError> {
        if self.approvals.len() > ENTRIES_MAX || self.revoked.len() > REVOKED_MAX {
            let problem = format!(
                "more than {ENTRIES_MAX} approvals or {REVOKED_MAX} revocations; begin another list"
            );
            return Err(ListError::Invalid(problem));
        }
        for entry in self.approvals.iter().chain(&self.revoked) {
            let long = [&entry.server, &entry.by, &entry.reason]
                .into_iter()
                .any(|text| text.len() > TEXT_MAX);
            if long || entry.key.name.len() > MAX_NAME {
                let problem = format!("a text is longer than {TEXT_MAX} bytes");
                return Err(ListError::Invalid(problem));
            }
            if entry.server.is_empty() || entry.by.is_empty() {
                let problem = "an entry has no server or no `by`";
                return Err(ListError::Invalid(problem.to_owned()));
            }
        }
        Ok(())
    }
}

impl fmt::Display for ApprovalList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list {}, serial {}", self.name, self.serial)
    }
}

impl EntryText {
    fn of(entry: &Entry) -> Self {
        let is_tool = entry.key.kind == ItemKind::Tool;
        Self {
            server: entry.server.clone(),
            item: entry.key.kind.as_str().to_owned(),
            tool: is_tool.then(|| entry.key.name.to_string()),
            hash: entry.hash.to_string(),
            by: entry.by.clone(),
            time: entry.time.to_string(),
            reason: entry.reason.clone(),
            expires: entry.expires.map(|time| time.to_string()),
        }
    }
}

fn entries(texts: Vec<EntryText>) -> Result<Vec<Entry>, ListError> {
    texts.into_iter().map(entry).collect()
}

fn entry(text: EntryText) -> Result<Entry, ListError> {
    let kind = ItemKind::from_word(&text.item)
        .ok_or_else(|| ListError::Invalid(format!("unknown item {:?}", text.item)))?;
    let key = match (kind, text.tool) {
        (ItemKind::Tool, Some(name)) => ItemKey::tool(&name),
        (ItemKind::Tool, None) => {
            let problem = "an entry for a tool has no tool name";
            return Err(ListError::Invalid(problem.to_owned()));
        }
        (kind, _) => ItemKey::only(kind),
    };
    let hash = text.hash.parse();
    Ok(Entry {
        server: text.server,
        key,
        hash: hash.map_err(|error| ListError::Invalid(format!("{error}")))?,
        by: text.by,
        time: time("time", &text.time)?,
        reason: text.reason,
        expires: some_time(text.expires.as_deref())?,
    })
}

fn time(what: &str, text: &str) -> Result<Timestamp, ListError> {
    Timestamp::parse(text)
        .ok_or_else(|| ListError::Invalid(format!("invalid time for {what}: {text:?}")))
}

fn some_time(text: Option<&str>) -> Result<Option<Timestamp>, ListError> {
    text.map(|text| time("expires", text)).transpose()
}

/// A name goes into events and file names.
fn check_name(name: &str) -> Result<(), ListError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let problem = format!(
            "invalid list name {name:?}: use 1 to 64 letters, digits, dots, hyphens and underscores"
        );
        return Err(ListError::Invalid(problem));
    }
    Ok(())
}
