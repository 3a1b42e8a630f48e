//! How much space text takes on a terminal.
//!
//! A Chinese character takes two columns, a combining accent none.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How many lines a text takes.
pub fn wrapped(text: &str, width: usize) -> usize {
    // Most lines are short and need no closer look.
    match text.len() <= width {
        true => 1,
        false => wrap(text, width).len(),
    }
}

/// A text in lines of at most this many columns, broken where they end.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide > width {
            lines.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(line) = lines.last_mut() {
            line.push(character);
        }
    }
    lines
}

/// A sentence in lines of at most this many columns, broken between words where possible.
pub fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_inclusive(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + word.trim_end().width() <= width => line.push_str(word),
            _ => lines.extend(wrap(word, width)),
        }
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// The beginning of a text that fits, with a mark where it was cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        shown.push(character);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("文件文件", 5), "文件…");
        assert_eq!(cut("文件文件", 4), "文…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(
            (cut("abc", 1), cut("abc", 0)),
            ("…".to_owned(), String::new())
        );
        assert_eq!(wrap("文件文", 5), ["文件", "文"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap_words("one two  three", 8), ["one two  ", "three"]);
        assert_eq!(wrap_words("immeasurable", 5), ["immea", "surab", "le"]);
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_its_room(text in "\\PC{0,60}", width in 2usize..30) {
            prop_assert!(cut(&text, width).width() <= width);
            prop_assert_eq!(wrap_words(&text, width).concat(), text.clone());
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.width() <= width));
            prop_assert_eq!(lines.concat(), text);
        }
    }
}
