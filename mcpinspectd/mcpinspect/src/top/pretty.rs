//! A message's text as lines to read.
//!
//! It shows what was said, to the letter: members keep their order, even if two have the same name, and numbers
//! keep their digits. So the text is broken into lines by its structure, and not parsed into values and written
//! again. Invisible characters and those that act on a terminal are spelled out.

use mcpinspect_core::text::escape::plain;

/// Bytes of a text to show; for longer ones, `mcpinspect show --full` is better.
const MAX_TEXT: usize = 1 << 20;

/// Levels to indent; a text may have thousands.
const MAX_INDENT: usize = 24;

/// The lines of a JSON text, safe to show.
pub fn lines(json: &str) -> Vec<String> {
    let shown = cut(json);
    let mut page = Page::default();
    let mut is_string = false;
    let mut is_escaped = false;
    let mut characters = shown.chars().filter(unless_space()).peekable();
    while let Some(character) = characters.next() {
        if is_string {
            page.line.push(character);
            is_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                page.line.push(character);
                is_string = true;
            }
            '{' | '[' => {
                page.line.push(character);
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => page.line.push(end),
                    None => page.turn(page.depth + 1),
                }
            }
            '}' | ']' => {
                page.turn(page.depth.saturating_sub(1));
                page.line.push(character);
            }
            ',' => {
                page.line.push(character);
                page.turn(page.depth);
            }
            ':' => page.line.push_str(": "),
            _ => page.line.push(character),
        }
    }
    page.turn(0);
    finish(page.lines, json.len() - shown.len())
}

/// The lines of any other text, safe to show.
pub fn plain_lines(text: &str) -> Vec<String> {
    let shown = cut(text);
    let lines = shown.lines().map(|line| plain(line).into_owned());
    finish(lines.collect(), text.len() - shown.len())
}

/// Lets everything through except white space outside of strings.
fn unless_space() -> impl FnMut(&char) -> bool {
    let mut is_string = false;
    let mut is_escaped = false;
    move |character| {
        let is_inside = is_string;
        if is_string {
            is_string = is_escaped || *character != '"';
            is_escaped = !is_escaped && *character == '\\';
        } else {
            is_string = *character == '"';
        }
        is_inside || !character.is_ascii_whitespace()
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

fn finish(mut lines: Vec<String>, left_out: usize) -> Vec<String> {
    if left_out > 0 {
        lines.push(format!(
            "… {left_out} more bytes; `mcpinspect show --full` prints everything"
        ));
    }
    lines
}

#[derive(Default)]
struct Page {
    lines: Vec<String>,
    line: String,
    depth: usize,
}

impl Page {
    /// Ends the line; the next one is indented to this depth.
    fn turn(&mut self, depth: usize) {
        if !self.line.trim().is_empty() {
            self.lines.push(plain(&self.line).into_owned());
        }
        self.depth = depth;
        self.line = "  ".repeat(depth.min(MAX_INDENT));
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::text::escape::is_hidden;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn structure_makes_lines_and_nothing_else_changes() {
        let json = r#"{"b":1.50,"b": [ ],"a":[{"x":"{\"[,:\\"},null , true],"e":{}}"#;
        assert_eq!(
            lines(json),
            [
                "{",
                "  \"b\": 1.50,",
                "  \"b\": [],",
                "  \"a\": [",
                "    {",
                r#"      "x": "{\"[,:\\""#,
                "    },",
                "    null,",
                "    true",
                "  ],",
                "  \"e\": {}",
                "}",
            ]
        );
        assert_eq!(lines("7"), ["7"]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn large_texts_end_with_a_word_about_the_rest() {
        let shown = lines(&format!("\"{}\"", "é".repeat(MAX_TEXT)));
        assert_eq!(shown.len(), 2);
        assert!(shown[1].contains("more bytes"), "{}", shown[1]);
        let deep = lines(&"[".repeat(100_000));
        assert!(deep.iter().all(|line| line.len() <= 2 * MAX_INDENT + 1));
        assert_eq!(plain_lines("a\nb\u{1b}[2J"), ["a", "b\\u{1b}[2J"]);
    }

    proptest! {
        #[test]
        fn every_json_stays_what_it_is(text in any::<String>(), key in any::<String>(), number in any::<i64>()) {
            let value = serde_json::json!({key: [text, number, {}]});
            let shown = lines(&value.to_string());
            prop_assert!(!shown.iter().any(|line| line.chars().any(is_hidden)));
            let whole = shown.concat();
            if !value.to_string().chars().any(is_hidden) {
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&whole).ok(), Some(value));
            }
        }

        #[test]
        fn anything_else_is_harmless(text in any::<String>()) {
            for line in lines(&text).iter().chain(&plain_lines(&text)) {
                prop_assert!(!line.chars().any(is_hidden), "{line:?}");
            }
        }
    }
}
