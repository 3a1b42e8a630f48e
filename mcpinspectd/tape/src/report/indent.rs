//! JSON with line breaks and indentation.
//!
//! Only white space between values changes: the order of members, members of the same name and the spelling of
//! numbers and strings stay as sent, which a tree of values would not preserve.

/// Levels to indent; deeper ones stay at this level.
const DEEPEST: usize = 40;

/// `json`, indented, up to about `most` bytes: the rest is left out.
pub(super) fn indented(json: &str, most: usize) -> String {
    let mut out = String::new();
    let mut depth: usize = 0;
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        if out.len() >= most {
            break;
        }
        match character {
            '"' => {
                out.push('"');
                string(&mut characters, &mut out, most);
            }
            '{' | '[' => {
                out.push(character);
                while characters
                    .next_if(|next| next.is_ascii_whitespace())
                    .is_some()
                {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(depth, &mut out);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(depth, &mut out);
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(depth, &mut out);
            }
            ':' => out.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => out.push(character),
        }
    }
    out
}

/// Passes on a string's text and its closing quotation mark.
fn string(characters: &mut impl Iterator<Item = char>, out: &mut String, most: usize) {
    while let Some(character) = characters.next() {
        out.push(character);
        match character {
            '\\' => out.extend(characters.next()),
            '"' => return,
            _ if out.len() >= most => return,
            _ => {}
        }
    }
}

fn line(depth: usize, out: &mut String) {
    out.push('\n');
    for _ in 0..depth.min(DEEPEST) {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_white_space_changes() {
        let json = r#"{"b":[1,{"a" : "x,{\"y\\"},[ ]],"b":1.50e+3,"c":{}}"#;
        assert_eq!(
            indented(json, 1000),
            "{\n  \"b\": [\n    1,\n    {\n      \"a\": \"x,{\\\"y\\\\\"\n    },\n    []\n  ],\n  \"b\": 1.50e+3,\n  \"c\": {}\n}"
        );
        assert!(indented(&"[".repeat(1 << 20), 5000).len() < 6000);
        assert_eq!(indented("\"\\", 10), "\"\\");
    }

    proptest! {
        #[test]
        fn it_means_the_same(text in "[\\[\\]{}\",:\\\\ a1\n]{0,40}", value in any::<(String, Vec<i32>, Option<bool>)>()) {
            indented(&text, 1000);
            let json = serde_json::to_string(&value).unwrap();
            let read: Value = serde_json::from_str(&indented(&json, usize::MAX)).unwrap();
            prop_assert_eq!(read, serde_json::to_value(&value).unwrap());
        }
    }
}
