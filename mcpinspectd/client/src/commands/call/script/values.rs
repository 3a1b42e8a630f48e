//! Values that a step saves and later steps name: `${name}`.
//!
//! A string that consists of just a name becomes the value, of any type; inside a longer string, a
//! value is inserted as text. `$${` is a literal `${`.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// What has been saved.
pub type Saved = HashMap<String, Value>;

/// The names in all strings of these parameters, in order.
pub fn names(params: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    visit(&Value::Object(params.clone()), &mut |text| {
        for piece in pieces(text) {
            if let Piece::Name(name) = piece {
                names.push(name.to_owned());
            }
        }
    });
    names
}

fn visit(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(elements) => elements.iter().for_each(|element| visit(element, see)),
        Value::Object(members) => members.values().for_each(|member| visit(member, see)),
        _ => {}
    }
}

/// Replaces names with saved values.
///
/// # Errors
/// The name of a value that was not saved, because its step did not run or did not have it.
pub fn fill(value: &mut Value, saved: &Saved) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if let Some(filled) = filled(text, saved)? {
                *value = filled;
            }
            Ok(())
        }
        Value::Array(elements) => elements
            .iter_mut()
            .try_for_each(|element| fill(element, saved)),
        Value::Object(members) => members
            .values_mut()
            .try_for_each(|member| fill(member, saved)),
        _ => Ok(()),
    }
}

fn filled(text: &str, saved: &Saved) -> Result<Option<Value>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let find = |name: &str| saved.get(name).ok_or_else(|| name.to_owned());
    let pieces = pieces(text);
    if let [Piece::Name(name)] = pieces.as_slice() {
        return find(name).map(|value| Some(value.clone()));
    }
    let mut whole = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => whole.push_str(text),
            Piece::Name(name) => match find(name)? {
                Value::String(text) => whole.push_str(text),
                other => whole.push_str(&other.to_string()),
            },
        }
    }
    Ok(Some(Value::String(whole)))
}

/// A piece of a string.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    Name(&'t str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            pieces.push(Piece::Text(before));
            pieces.push(Piece::Text("${"));
            rest = after.get(2..).unwrap_or_default();
            continue;
        }
        let Some((name, after)) = after.get(2..).and_then(|name| name.split_once('}')) else {
            break;
        };
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Name(name));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_become_values() {
        let saved: Saved = [("n", json!(5)), ("t", json!("x")), ("o", json!({"a": 1}))]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        for (before, after) in [
            (json!("${n}"), json!(5)),
            (
                json!(["a${n}b${t}", {"k": "${o}"}]),
                json!(["a5bx", {"k": {"a": 1}}]),
            ),
            (json!("$${n} costs ${n}$"), json!("${n} costs 5$")),
            (json!("${open"), json!("${open")),
            (json!("plain $"), json!("plain $")),
        ] {
            let mut value = before.clone();
            fill(&mut value, &saved).unwrap();
            assert_eq!(value, after, "{before}");
        }
        assert_eq!(fill(&mut json!("a ${m}"), &saved), Err("m".to_owned()));
        let params = json!({"a": ["${x}", "$${y}"], "b": "${z} ${x}"});
        assert_eq!(names(params.as_object().unwrap()), ["x", "z", "x"]);
    }
}
