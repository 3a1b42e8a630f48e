//! Pages for people, such as the report of a session or of a fleet.
//!
//! A page is made to be passed on and opened anywhere, and its contents were written by programs that no one has
//! reason to trust. So it is one file that loads nothing and runs nothing: no script, a content security policy
//! that forbids everything but its own style sheet, and every text escaped.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use crate::text::escape::is_hidden;

/// Adds formatted text, which must be HTML already, to a page.
#[macro_export]
macro_rules! put {
    ($out:expr, $($argument:tt)*) => {{
        // Writing to a string cannot fail.
        let _ = std::fmt::Write::write_fmt($out, format_args!($($argument)*));
    }};
}
pub use put;

/// The style that all pages share.
const STYLE: &str = include_str!("style.css");

/// Begins a page that adds this style sheet of its own. The title is untrusted text.
pub fn begin(out: &mut String, title: &str, style: &str) {
    let style = format!("{STYLE}{style}");
    let hash = BASE64_STANDARD.encode(Sha256::digest(&style));
    let title = Text(title);
    put!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{style}</style></head><body>\n\
         <h1>{title}</h1>\n"
    );
}

/// Untrusted text, escaped for the inside of an element or of a quoted attribute. Line breaks stay; every other
/// character that is invisible or acts on its surroundings is spelled out as `\u{…}`.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a str);

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
