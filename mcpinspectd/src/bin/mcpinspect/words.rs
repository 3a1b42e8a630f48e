//! Two texts as one, with the words marked that went and that came.
//!
//! Marked as `[-gone-]{+new+}`, in colour or not: a paste into a ticket has none. The texts are a
//! stranger's. What hides or acts on a terminal is spelled out, what looks like a mark is not one
//! (`[\-`), and each line of it stands behind a bar, so that no text passes for the program's own.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use mcpinspectd::text::escape;
use similar::{Algorithm, ChangeTag, capture_diff_slices_deadline};

/// How long to look for the shortest difference of long texts.
const PATIENCE: Duration = Duration::from_millis(500);

/// Characters of unchanged text that are shown beside a change.
const BESIDE: usize = 60;

/// Characters of a changed text that are shown at its beginning and at its end.
const CHANGED: (usize, usize) = (1500, 500);

/// A part of both texts, or of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which of them has it: both (`Equal`), the older (`Delete`) or the newer (`Insert`).
    pub tag: ChangeTag,
    /// The part.
    pub text: String,
}

/// How pieces are shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With colours.
    pub colour: bool,
    /// With nothing left out.
    pub full: bool,
}

/// What became of `old` in `new`, in the order of the text.
pub fn pieces(old: &str, new: &str) -> Vec<Piece> {
    let (old, new) = (tokens(old), tokens(new));
    let deadline = Instant::now() + PATIENCE;
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    let mut weaver = Weaver::default();
    for operation in operations {
        for change in operation.iter_slices(&old, &new) {
            let (tag, tokens) = change;
            weaver.take(tag, &tokens.concat());
        }
    }
    weaver.finish()
}

/// Words, and every other character by itself.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut start = 0;
    let mut in_word = false;
    for (at, c) in text.char_indices() {
        if at > start && !(in_word && is_word(c)) {
            tokens.push(&text[start..at]);
            start = at;
        }
        in_word = is_word(c);
    }
    if start < text.len() {
        tokens.push(&text[start..]);
    }
    tokens
}

/// Joins changes with nothing but blanks and signs between them: a sentence that is replaced reads
/// better as one than word by word.
#[derive(Default)]
struct Weaver {
    pieces: Vec<Piece>,
    gone: String,
    come: String,
    between: String,
}

impl Weaver {
    fn take(&mut self, tag: ChangeTag, text: &str) {
        match tag {
            ChangeTag::Equal => {
                let changing = !self.gone.is_empty() || !self.come.is_empty();
                if changing && !text.contains(char::is_alphanumeric) {
                    self.between.push_str(text);
                } else {
                    self.flush();
                    self.push(ChangeTag::Equal, text.to_owned());
                }
            }
            ChangeTag::Delete | ChangeTag::Insert => {
                let between = std::mem::take(&mut self.between);
                self.gone.push_str(&between);
                self.come.push_str(&between);
                match tag {
                    ChangeTag::Delete => self.gone.push_str(text),
                    _ => self.come.push_str(text),
                }
            }
        }
    }

    fn flush(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        let come = std::mem::take(&mut self.come);
        let between = std::mem::take(&mut self.between);
        self.push(ChangeTag::Delete, gone);
        self.push(ChangeTag::Insert, come);
        self.push(ChangeTag::Equal, between);
    }

    fn push(&mut self, tag: ChangeTag, text: String) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.tag == tag => last.text.push_str(&text),
            _ => self.pieces.push(Piece { tag, text }),
        }
    }

    fn finish(mut self) -> Vec<Piece> {
        self.flush();
        self.pieces
    }
}

/// The pieces as lines, each behind a bar.
pub fn render(pieces: &[Piece], look: Look) -> String {
    let mut out = String::from("  | ");
    for (index, piece) in pieces.iter().enumerate() {
        let (open, close, style) = match piece.tag {
            ChangeTag::Equal => ("", "", Style::new()),
            ChangeTag::Delete => ("[-", "-]", AnsiColor::Red.on_default().strikethrough()),
            ChangeTag::Insert => ("{+", "+}", AnsiColor::Green.on_default()),
        };
        let style = if look.colour { style } else { Style::new() };
        let shown = if look.full {
            Shown::Whole(&piece.text)
        } else {
            let (first, last) = (index == 0, index + 1 == pieces.len());
            match piece.tag {
                // Next to nothing that changes, nothing needs to be shown.
                ChangeTag::Equal => shorten(
                    &piece.text,
                    if first { 0 } else { BESIDE },
                    if last { 0 } else { BESIDE },
                ),
                _ => shorten(&piece.text, CHANGED.0, CHANGED.1),
            }
        };
        out.push_str(&paint(style, open));
        match shown {
            Shown::Whole(text) => lines(text, style, &mut out),
            Shown::Ends(start, left_out, end) => {
                lines(start, style, &mut out);
                let note = format!(" …{left_out} characters…  ");
                out.push_str(&paint(dimmed(look.colour), note.trim_end()));
                out.push(' ');
                lines(end, style, &mut out);
            }
        }
        out.push_str(&paint(style, close));
    }
    out
}

fn dimmed(colour: bool) -> Style {
    if colour {
        Style::new().dimmed()
    } else {
        Style::new()
    }
}

fn paint(style: Style, text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("{style}{text}{style:#}")
    }
}

/// What is shown of a text.
enum Shown<'a> {
    Whole(&'a str),
    /// Its beginning, how many characters are left out, and its end.
    Ends(&'a str, usize, &'a str),
}

/// At most `start` characters of the beginning and `end` of the end, unless little would be saved.
fn shorten(text: &str, start: usize, end: usize) -> Shown<'_> {
    let count = text.chars().count();
    if count <= start + end + BESIDE {
        return Shown::Whole(text);
    }
    let at = |index| {
        text.char_indices()
            .nth(index)
            .map_or(text.len(), |(at, _)| at)
    };
    Shown::Ends(
        &text[..at(start)],
        count - start - end,
        &text[at(count - end)..],
    )
}

/// A stranger's text: nothing hidden, no marks, and a bar before each line.
fn lines(text: &str, style: Style, out: &mut String) {
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if index > 0 {
            out.push_str("\n  | ");
        }
        let mut shown = escape::plain(line).into_owned();
        for mark in ["[-", "-]", "{+", "+}"] {
            if shown.contains(mark) {
                let (one, other) = mark.split_at(1);
                shown = shown.replace(mark, &format!("{one}\\{other}"));
            }
        }
        out.push_str(&paint(style, &shown));
    }
    if text.ends_with('\n') {
        out.push_str("\n  | ");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Look = Look {
        colour: false,
        full: false,
    };

    fn diff(old: &str, new: &str) -> String {
        render(&pieces(old, new), PLAIN)
    }

    #[test]
    fn words_are_marked() {
        assert_eq!(
            diff("Reads a file.", "Reads a text file, fast."),
            "  | Reads a {+text +}file{+, fast+}."
        );
        assert_eq!(
            diff("one two three", "four five six"),
            "  | [-one two three-]{+four five six+}"
        );
        assert_eq!(diff("same", "same"), "  | same");
        assert_eq!(diff("", "new"), "  | {+new+}");
        assert_eq!(diff("old", ""), "  | [-old-]");
        assert_eq!(
            diff("read_file", "read_files"),
            "  | [-read_file-]{+read_files+}"
        );
        assert_eq!(diff("読む。", "書く。"), "  | [-読む-]{+書く+}。");
    }

    #[test]
    fn a_stranger_cannot_draw() {
        assert_eq!(diff("a", "a\u{1b}[2J"), "  | a{+\\u{1b}[2J+}");
        assert_eq!(
            diff("a", "a\nfiles is safe"),
            "  | a{+\\n\n  | files is safe+}"
        );
        assert_eq!(diff("a", "a-]{+b"), "  | a{+-\\]{\\+b+}");
        assert_eq!(diff("x\u{202e}", "x"), "  | x[-\\u{202e}-]");
    }

    #[test]
    fn colours_do_not_run_over_line_ends() {
        let look = Look {
            colour: true,
            full: false,
        };
        let shown = render(&pieces("", "a\nb"), look);
        assert_eq!(
            shown,
            "  | \u{1b}[32m{+\u{1b}[0m\u{1b}[32ma\\n\u{1b}[0m\n  | \u{1b}[32mb\u{1b}[0m\u{1b}[32m+}\u{1b}[0m"
        );
    }

    #[test]
    fn what_is_far_from_a_change_is_left_out() {
        let long = "word ".repeat(200);
        let shown = diff(&format!("{long}old {long}"), &format!("{long}new {long}"));
        assert!(shown.starts_with("  |  …940 characters… "), "{shown}");
        assert!(shown.contains("[-old-]{+new+}"), "{shown}");
        assert!(shown.ends_with("…941 characters… "), "{shown}");
        let shown = diff("", &"x".repeat(5000));
        assert!(shown.contains("…3000 characters…") && shown.len() < 2100);
        let full = Look {
            full: true,
            ..PLAIN
        };
        assert!(render(&pieces("", &"x".repeat(5000)), full).len() > 5000);
    }

    #[test]
    fn long_texts_do_not_take_long() {
        let old: String = (0..100_000_u64)
            .map(|n| format!("{} ", n * 7919 % 100_003))
            .collect();
        let new: String = (0..100_000_u64)
            .map(|n| format!("{} ", n * 104_729 % 100_003))
            .collect();
        let start = Instant::now();
        assert!(!pieces(&old, &new).is_empty());
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn both_texts_can_be_told_from_the_pieces(old in "[a-c \n.é]{0,40}", new in "[a-c \n.é]{0,40}") {
            let pieces = pieces(&old, &new);
            let side = |other| pieces.iter().filter(|piece| piece.tag != other).map(|piece| piece.text.as_str()).collect::<String>();
            prop_assert_eq!(side(ChangeTag::Insert), old);
            prop_assert_eq!(side(ChangeTag::Delete), new);
            let shown = render(&pieces, PLAIN);
            prop_assert!(shown.lines().all(|line| line.starts_with("  | ")));
        }
    }
}
