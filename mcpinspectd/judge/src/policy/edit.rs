//! Changes parameters and results in their text.
//!
//! Parsing a message into a tree and writing it out again would sort its members and round its numbers. So
//! only the values that a rule names are replaced, and every other byte stays as the sender wrote it.

use std::borrow::Cow;

use mcpinspect_core::json_path::Pattern;
use mcpinspect_core::mcp::json;
use mcpinspect_core::text::redact;
use serde_json::value::RawValue;

use super::action::{Edit, Parent};
use super::lookup::lookup;
use super::value::whole_string;

/// A part of a text, and its replacement.
struct Change {
    start: usize,
    end: usize,
    text: String,
}

/// `value` with all of the changes, one after another; `None` if nothing is different.
pub(super) fn edited<'e>(
    value: &RawValue,
    edits: impl Iterator<Item = &'e Edit>,
) -> Option<Box<RawValue>> {
    let mut current: Option<Box<RawValue>> = None;
    for edit in edits {
        let text = current.as_deref().unwrap_or(value);
        if let Some(changed) = apply(text, edit) {
            current = Some(changed);
        }
    }
    current.filter(|changed| changed.get() != value.get())
}

fn apply(value: &RawValue, edit: &Edit) -> Option<Box<RawValue>> {
    let changes = match edit {
        Edit::Set {
            path,
            parent,
            value: new,
        } => {
            let new = new.to_string();
            let mut changes = replaced(value, path, |_| Some(new.clone()));
            if let Some((parent, member)) = parent {
                changes.extend(added(value, parent, member, &new));
            }
            changes
        }
        Edit::Redact {
            path,
            matches,
            with,
        } => replaced(value, path, |value| {
            let text = whole_string(value)?;
            let masked = match matches {
                Some(expression) => expression.replace_all(&text, with.as_str()),
                None => redact::secrets(&text),
            };
            let is_same = matches!(masked, Cow::Borrowed(_));
            (!is_same).then(|| serde_json::Value::from(masked.as_ref()).to_string())
        }),
    };
    // Text assembled from JSON in the places of JSON is JSON.
    RawValue::from_string(spliced(value.get(), changes)?).ok()
}

/// Replaces the values that a path leads to. Whatever is inside a replaced one is gone with it.
fn replaced(
    value: &RawValue,
    path: &Pattern,
    mut with: impl FnMut(&RawValue) -> Option<String>,
) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut done = 0;
    lookup(value, [(0, path)], |_, found| {
        let (start, end) = span(value, found);
        if start >= done
            && let Some(text) = with(found)
        {
            changes.push(Change { start, end, text });
            done = end;
        }
    });
    changes
}

/// Adds a member to the objects that lack it.
fn added(value: &RawValue, parent: &Parent, member: &str, new: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |object: &RawValue| {
        let (mut is_there, mut is_empty) = (false, true);
        let read = json::members(
            object.get(),
            |key| key == member.as_bytes(),
            |is_it, _| {
                is_there |= is_it;
                is_empty = false;
            },
        );
        if read.is_err() || is_there {
            return;
        }
        let (_, end) = span(value, object);
        let comma = if is_empty { "" } else { "," };
        let key = serde_json::Value::from(member);
        changes.push(Change {
            start: end - 1,
            end: end - 1,
            text: format!("{comma}{key}:{new}"),
        });
    };
    match parent {
        Parent::Root => add(value),
        Parent::Below(path) => lookup(value, [(0, path)], |_, object| add(object)),
    }
    changes
}

/// The position in `whole` of `part`, which was borrowed from it.
pub(super) fn span(whole: &RawValue, part: &RawValue) -> (usize, usize) {
    let start = offset(whole.get(), part.get());
    (start, start + part.get().len())
}

/// Where `part` starts in `whole`, from which it was borrowed.
pub(super) fn offset(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

/// `text` with changes that do not overlap; `None` if there are none.
fn spliced(text: &str, mut changes: Vec<Change>) -> Option<String> {
    if changes.is_empty() {
        return None;
    }
    changes.sort_by_key(|change| change.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for Change {
        start,
        end,
        text: new,
    } in changes
    {
        // One inside another was removed with it.
        if let Some(before) = text.get(done..start) {
            out.push_str(before);
            out.push_str(&new);
            done = end;
        }
    }
    out.push_str(text.get(done..)?);
    Some(out)
}

/// The array `list` without the elements that `goes` names; `None` if there are none.
pub(super) fn without(
    list: &RawValue,
    mut goes: impl FnMut(&RawValue) -> bool,
) -> Option<Box<RawValue>> {
    let mut kept = String::from("[");
    let mut is_less = false;
    // The text was validated with its message.
    let _ = json::elements(list.get(), |element| {
        if goes(element) {
            is_less = true;
        } else {
            if kept.len() > 1 {
                kept.push(',');
            }
            kept.push_str(element.get());
        }
        true
    });
    kept.push(']');
    is_less.then(|| RawValue::from_string(kept).ok()).flatten()
}

/// `whole` with `new` in place of `part`, which was borrowed from it.
pub(super) fn put(whole: &RawValue, part: &RawValue, new: &RawValue) -> Option<Box<RawValue>> {
    let (start, end) = span(whole, part);
    let text = new.get().to_owned();
    let changes = vec![Change { start, end, text }];
    RawValue::from_string(spliced(whole.get(), changes)?).ok()
}
