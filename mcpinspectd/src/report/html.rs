//! Text in HTML.

use std::fmt::{self, Write as _};

use crate::text::escape::is_hidden;

/// Untrusted text, escaped for the inside of an element or of a quoted attribute. Line breaks stay; all else
/// that shows nothing or acts on its surroundings is spelled out as `\u{…}`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' => f.write_char('\n')?,
                _ if is_hidden(character) => write!(f, "\\u{{{:x}}}", u32::from(character))?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Adds formatted text, which must be HTML already, to a page.
macro_rules! put {
    ($out:expr, $($argument:tt)*) => {{
        // Writing to a string cannot fail.
        let _ = std::fmt::Write::write_fmt($out, format_args!($($argument)*));
    }};
}
pub(super) use put;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markup_and_hidden_characters_have_no_effect() {
        let text = Text("<b a='x' c=\"y\">&amp;\u{202e}\u{1b}[0m\nz</b>").to_string();
        assert_eq!(
            text,
            "&lt;b a=&#39;x&#39; c=&quot;y&quot;&gt;&amp;amp;\\u{202e}\\u{1b}[0m\nz&lt;/b&gt;"
        );
    }

    proptest! {
        #[test]
        fn nothing_that_is_escaped_is_markup(text in any::<String>()) {
            let escaped = Text(&text).to_string();
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.chars().any(|c| is_hidden(c) && c != '\n'));
        }
    }
}
