//! Servers in JSON with comments and trailing commas, as in editors' settings files.
//!
//! Without comments, the text keeps its offsets, so each word is found where the parser's slice of it is.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::start::{Form, SpannedWord, Start, blanks_before};
use super::{Described, EditError, NO_COMMAND, NO_TEXT, NO_WORDS, Outcome};
use crate::identity::config_file;
use crate::identity::config_file::Layout;
use crate::identity::jsonc;

pub(super) const REPEATED: Outcome = Outcome::Unusable("it has a member twice: remove one of them");

/// The servers of a file in order.
pub(super) fn read(text: &str, layouts: &[Layout]) -> Result<Vec<Described>, EditError> {
    let mut blank = text.as_bytes().to_vec();
    jsonc::to_json(&mut blank);
    // Whole comments are blanked, so the rest is still valid text.
    let blank = String::from_utf8(blank).map_err(|_| EditError::NotText)?;
    serde_json::from_str::<IgnoredAny>(&blank)
        .map_err(|error| EditError::NotJson(error.to_string()))?;
    let file = File {
        text,
        blank: &blank,
    };
    let described = layouts
        .iter()
        .map(|layout| config_file::descriptions(&blank, *layout))
        .find(|described| !described.is_empty())
        .unwrap_or_default();
    let described = described.into_iter().map(|(name, raw, project)| Described {
        name,
        project,
        start: file.start(raw),
    });
    Ok(described.collect())
}

/// A description, or the object with the command in Zed's older form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members<'t> {
    #[serde(borrow, default, deserialize_with = "present")]
    command: Option<&'t RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    path: Option<&'t RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    args: Option<&'t RawValue>,
    url: Option<IgnoredAny>,
    http_url: Option<IgnoredAny>,
    server_url: Option<IgnoredAny>,
}

/// A member that is there, even if it is `null`.
fn present<'t, D: Deserializer<'t>>(value: D) -> Result<Option<&'t RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl<'t> Members<'t> {
    fn of(object: &'t str) -> Result<Self, Outcome> {
        // It is valid JSON.
        serde_json::from_str(object).map_err(|_| match object.starts_with('{') {
            true => REPEATED,
            false => Outcome::Unusable("its entry is not an object"),
        })
    }
}

/// A file, with and without its comments.
struct File<'t> {
    text: &'t str,
    blank: &'t str,
}

impl File<'_> {
    /// Reads a description, which is a part of the text without comments.
    fn start(&self, description: &str) -> Result<Start, Outcome> {
        let mut found = Members::of(description)?;
        let Some(mut command) = found.command else {
            let urls = [&found.url, &found.http_url, &found.server_url];
            return Err(match urls.iter().any(|url| url.is_some()) {
                true => Outcome::Url,
                false => NO_COMMAND,
            });
        };
        let mut name = "command";
        match command.get().as_bytes().first() {
            Some(b'[') => {
                let words = self.words(command)?;
                return match words.is_empty() {
                    true => Err(Outcome::Unusable("its command is empty")),
                    false => Ok(Start {
                        words,
                        form: Form::List,
                    }),
                };
            }
            // Zed's older form.
            Some(b'{') => {
                found = Members::of(command.get())?;
                let path = found.path;
                command = path.ok_or(Outcome::Unusable("its command has no path"))?;
                name = "path";
            }
            _ => {}
        }
        let at = self.place(command);
        let key = key_before(self.blank, at.start, name)?;
        let text = serde_json::from_str(command.get()).map_err(|_| NO_TEXT)?;
        let mut words = vec![SpannedWord { text, at }];
        if let Some(args) = found.args {
            words.extend(self.words(args)?);
        }
        Ok(Start {
            words,
            form: Form::Members {
                gap: Ok(format!(",{}", blanks_before(self.text, key))),
                list: found.args.map(|args| self.place(args)),
            },
        })
    }

    /// The words of a list: texts, and numbers as they are written.
    fn words(&self, list: &RawValue) -> Result<Vec<SpannedWord>, Outcome> {
        let values: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| NO_WORDS)?;
        let words = values.into_iter().map(|value| {
            let text = match value.get().as_bytes().first() {
                Some(b'-' | b'0'..=b'9') => Ok(value.get().to_owned()),
                _ => serde_json::from_str(value.get()).map_err(|_| NO_WORDS),
            };
            let at = self.place(value);
            text.map(|text| SpannedWord { text, at })
        });
        words.collect()
    }

    /// Where a value is in the text.
    fn place(&self, value: &RawValue) -> Range<usize> {
        let start = value.get().as_ptr() as usize - self.blank.as_ptr() as usize;
        start..start + value.get().len()
    }
}

/// Where the member of this name begins whose value is at `value`.
fn key_before(blank: &str, value: usize, name: &str) -> Result<usize, Outcome> {
    let before = blank[..value].trim_end().strip_suffix(':');
    let before = before.map(|before| before.trim_end().strip_suffix('"'));
    let before = before.flatten().and_then(|text| text.strip_suffix(name));
    let start = before.and_then(|before| before.strip_suffix('"'));
    start.map(str::len).ok_or(Outcome::Unusable(
        "a member's name contains escapes: write it without escapes",
    ))
}
