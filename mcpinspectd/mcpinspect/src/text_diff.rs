//! Word-by-word differences of two texts, shown as one on a terminal.
//!
//! Changes are marked as `[-old-]{+new+}` even in colour, because colours are lost when the output is
//! pasted into a ticket. The texts are untrusted: hidden and control characters are spelled out,
//! marks in the text itself are escaped (`[\-`), and each line follows a bar, so that no text can
//! pass for the program's own output.

use anstyle::{AnsiColor, Style};
use mcpinspect_core::text::diff::{ChangeTag, Span};
use mcpinspect_core::text::escape;

/// Characters of unchanged text to show beside a change.
const CONTEXT: usize = 60;

/// Characters to show of the start and of the end of a long changed text.
const CHANGED: (usize, usize) = (1500, 500);

/// How to render a difference.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether to use colours.
    pub colour: bool,
    /// Whether to show long texts in full.
    pub full: bool,
}

/// Renders spans as lines, each after a bar.
pub fn render(spans: &[Span], options: Options) -> String {
    let mut out = String::from("  | ");
    for (index, span) in spans.iter().enumerate() {
        let (open, close, style) = match span.tag {
            ChangeTag::Equal => ("", "", Style::new()),
            ChangeTag::Delete => ("[-", "-]", AnsiColor::Red.on_default().strikethrough()),
            ChangeTag::Insert => ("{+", "+}", AnsiColor::Green.on_default()),
        };
        let style = if options.colour { style } else { Style::new() };
        let shown = if options.full {
            Excerpt::Whole(&span.text)
        } else {
            let (first, last) = (index == 0, index + 1 == spans.len());
            match span.tag {
                // No context is needed where no change follows or precedes.
                ChangeTag::Equal => shorten(
                    &span.text,
                    if first { 0 } else { CONTEXT },
                    if last { 0 } else { CONTEXT },
                ),
                _ => shorten(&span.text, CHANGED.0, CHANGED.1),
            }
        };
        out.push_str(&paint(style, open));
        match shown {
            Excerpt::Whole(text) => lines(text, style, &mut out),
            Excerpt::Ends(start, left_out, end) => {
                lines(start, style, &mut out);
                let note = format!(" …{left_out} characters…  ");
                out.push_str(&paint(dimmed(options.colour), note.trim_end()));
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

/// The parts of a text to show.
enum Excerpt<'a> {
    Whole(&'a str),
    /// Its beginning, the number of omitted characters, and its end.
    Ends(&'a str, usize, &'a str),
}

/// Keeps `start` characters of the beginning and `end` of the end, unless that would save little.
fn shorten(text: &str, start: usize, end: usize) -> Excerpt<'_> {
    let count = text.chars().count();
    if count <= start + end + CONTEXT {
        return Excerpt::Whole(text);
    }
    let at = |index| {
        text.char_indices()
            .nth(index)
            .map_or(text.len(), |(at, _)| at)
    };
    Excerpt::Ends(
        &text[..at(start)],
        count - start - end,
        &text[at(count - end)..],
    )
}

/// Writes untrusted text: hidden characters and marks escaped, a bar before each line.
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
    use mcpinspect_core::text::diff::diff;
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Options = Options {
        colour: false,
        full: false,
    };

    fn rendered(old: &str, new: &str) -> String {
        render(&diff(old, new), PLAIN)
    }

    #[test]
    fn words_are_marked() {
        assert_eq!(
            rendered("Reads a file.", "Reads a text file, fast."),
            "  | Reads a {+text +}file{+, fast+}."
        );
        assert_eq!(
            rendered("one two three", "four five six"),
            "  | [-one two three-]{+four five six+}"
        );
        assert_eq!(rendered("same", "same"), "  | same");
        assert_eq!(rendered("", "new"), "  | {+new+}");
        assert_eq!(rendered("old", ""), "  | [-old-]");
        assert_eq!(
            rendered("read_file", "read_files"),
            "  | [-read_file-]{+read_files+}"
        );
        assert_eq!(rendered("読む。", "書く。"), "  | [-読む-]{+書く+}。");
    }

    #[test]
    fn untrusted_text_cannot_forge_output() {
        assert_eq!(rendered("a", "a\u{1b}[2J"), "  | a{+\\u{1b}[2J+}");
        assert_eq!(
            rendered("a", "a\nfiles is safe"),
            "  | a{+\\n\n  | files is safe+}"
        );
        assert_eq!(rendered("a", "a-]{+b"), "  | a{+-\\]{\\+b+}");
        assert_eq!(rendered("x\u{202e}", "x"), "  | x[-\\u{202e}-]");
    }

    #[test]
    fn colours_do_not_run_over_line_ends() {
        let options = Options {
            colour: true,
            full: false,
        };
        let shown = render(&diff("", "a\nb"), options);
        assert_eq!(
            shown,
            "  | \u{1b}[32m{+\u{1b}[0m\u{1b}[32ma\\n\u{1b}[0m\n  | \u{1b}[32mb\u{1b}[0m\u{1b}[32m+}\u{1b}[0m"
        );
    }

    #[test]
    fn text_far_from_a_change_is_omitted() {
        let long = "word ".repeat(200);
        let shown = rendered(&format!("{long}old {long}"), &format!("{long}new {long}"));
        assert!(shown.starts_with("  |  …940 characters… "), "{shown}");
        assert!(shown.contains("[-old-]{+new+}"), "{shown}");
        assert!(shown.ends_with("…941 characters… "), "{shown}");
        let shown = rendered("", &"x".repeat(5000));
        assert!(shown.contains("…3000 characters…") && shown.len() < 2100);
        let full = Options {
            full: true,
            ..PLAIN
        };
        assert!(render(&diff("", &"x".repeat(5000)), full).len() > 5000);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_told_from_the_pieces(old in "[a-c \n.é]{0,40}", new in "[a-c \n.é]{0,40}") {
            let spans = diff(&old, &new);
            let side = |other| spans.iter().filter(|span| span.tag != other).map(|span| span.text.as_str()).collect::<String>();
            prop_assert_eq!(side(ChangeTag::Insert), old);
            prop_assert_eq!(side(ChangeTag::Delete), new);
            let shown = render(&spans, PLAIN);
            prop_assert!(shown.lines().all(|line| line.starts_with("  | ")));
        }
    }
}
