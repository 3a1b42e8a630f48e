//! Words, and what takes the place of a word.
//!
//! Two sentences that ask for the same thing name different tools, hosts and files. So names are read as
//! what they are (the server's own tool, a parameter, an identifier of unknown origin, an address), and only
//! the other words as themselves. Scripts without blanks between words are read character by character.

use compact_str::CompactString;

use crate::detect::words::WORDS;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TokenClass {
    /// A word.
    Word,
    /// A character of a script that is written without blanks.
    Character,
    /// The tool's own name.
    Itself,
    /// Another tool of the same server.
    OwnTool,
    /// A parameter of the tool.
    Parameter,
    /// A tool of another server, if that is known.
    ForeignTool,
    /// A name that begins with a verb, as tool names do.
    ToolLike,
    /// Another name that is not a word.
    Identifier,
    /// A URL or a host.
    Url,
    /// A mail address.
    Email,
    /// A path.
    Path,
    /// A number, or a time.
    Number,
    /// A punctuation mark that shows structure.
    Mark,
}

/// How many classes there are.
pub const CLASSES: usize = 13;

/// A token of a sentence.
#[derive(Clone, Debug)]
pub struct Token {
    /// In lower case. Words are short: hardly any needs memory of its own.
    pub text: CompactString,
    /// What it is.
    pub class: TokenClass,
}

/// Whose names are known.
pub trait NameLookup {
    /// What `word`, in lower case, names. `plain` says that it looks like an ordinary word.
    fn class(&self, word: &str, plain: bool) -> Option<TokenClass>;
}

/// Longest token, in bytes; the rest is left out.
const LONGEST: usize = 64;

/// Most tokens of a sentence.
pub const TOKENS: usize = 160;

/// Whether a script is written without blanks between words.
pub fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

fn technical(c: char) -> bool {
    (c.is_alphanumeric() && !is_unspaced(c))
        || matches!(
            c,
            '_' | '~'
                | '/'
                | '.'
                | '@'
                | ':'
                | '+'
                | '%'
                | '$'
                | '#'
                | '='
                | '&'
                | '-'
                | '\''
                | '’'
        )
        || is_mark_letter(c)
}

/// Marks that belong to the preceding letter.
fn is_mark_letter(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036f}' | '\u{0900}'..='\u{0dff}' | '\u{064b}'..='\u{0652}')
}

/// The tokens of a sentence, at most [`TOKENS`].
pub fn tokens(text: &str, names: &dyn NameLookup) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if out.len() >= TOKENS {
            break;
        }
        if is_unspaced(c) {
            push(&mut out, &rest[..c.len_utf8()], TokenClass::Character);
            rest = &rest[c.len_utf8()..];
        } else if technical(c) {
            let end = rest.find(|c| !technical(c)).unwrap_or(rest.len());
            run(&rest[..end], names, &mut out);
            rest = &rest[end..];
        } else {
            if matches!(c, '|' | '{' | '?' | '!' | '<' | '*' | '？' | '！') {
                push(&mut out, &rest[..c.len_utf8()], TokenClass::Mark);
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    out.truncate(TOKENS);
    out
}

/// Adds a token, whose text is in lower case.
fn push(out: &mut Vec<Token>, text: &str, class: TokenClass) {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push(Token {
        text: text[..end].into(),
        class,
    });
}

/// Reads a run of characters without blanks.
fn run(run: &str, names: &dyn NameLookup, out: &mut Vec<Token>) {
    let edge = |c: char| {
        matches!(
            c,
            '.' | ':' | '-' | '\'' | '’' | '=' | '&' | '+' | '#' | '%'
        )
    };
    let bare = run
        .trim_start_matches(edge)
        .trim_end_matches(|c| edge(c) || c == '/');
    if bare.is_empty() {
        return;
    }
    let lower = lowercase(bare);
    let plain = bare.chars().all(char::is_lowercase);
    if let Some(class) = names.class(&lower, plain) {
        return push(out, &lower, class);
    }
    let ascii = bare.is_ascii();
    if lower.contains("://") || lower.starts_with("www.") {
        return push(out, &lower, TokenClass::Url);
    }
    if let Some((before, after)) = lower.split_once('@')
        && !before.is_empty()
        && after.contains('.')
    {
        return push(out, &lower, TokenClass::Email);
    }
    if bare.starts_with(['~', '/', '$']) && bare.len() > 1
        || (ascii && bare.contains('/') && (bare.contains('.') || bare.matches('/').count() > 1))
        || bare.starts_with("./")
    {
        return push(out, &lower, TokenClass::Path);
    }
    if bare.starts_with(|c: char| c.is_ascii_digit())
        && bare
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ':' | '-' | '/' | '%'))
    {
        return push(out, "0", TokenClass::Number);
    }
    let dotted = ascii && bare.contains('.') && !bare.contains("..");
    if dotted || (ascii && (bare.contains('_') || camel(bare))) {
        let last = bare.rsplit(['.', '/', ':']).next().unwrap_or(bare);
        if let Some(class) = names.class(&lowercase(last), false) {
            return push(out, &lower, class);
        }
        if dotted && !bare.contains('_') && !camel(bare) {
            // A host, a file, or two words without a blank after the full stop.
            let parts: Vec<&str> = lower.split('.').collect();
            let end = parts.last().copied().unwrap_or_default();
            if parts.iter().all(|part| !part.is_empty())
                && (end.len() <= 4 || parts.len() > 2 || end == "example")
            {
                let class = match WORDS.hosts.domains.contains(end) {
                    true => TokenClass::Url,
                    false => TokenClass::Path,
                };
                return push(out, &lower, class);
            }
        } else {
            let class = match tool_like(last) {
                true => TokenClass::ToolLike,
                false => TokenClass::Identifier,
            };
            return push(out, &lower, class);
        }
    }
    for word in lower
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’') || is_mark_letter(c)))
    {
        if word.is_empty() {
            continue;
        }
        if word.chars().all(|c| c.is_numeric()) {
            push(out, "0", TokenClass::Number);
        } else if let Some(class) = names.class(word, true) {
            push(out, word, class);
        } else {
            push(out, word, TokenClass::Word);
        }
    }
}

fn lowercase(text: &str) -> CompactString {
    if !text.is_ascii() {
        return CompactString::from_str_to_lowercase(text);
    }
    let mut lower = CompactString::from(text);
    lower.make_ascii_lowercase();
    lower
}

fn camel(name: &str) -> bool {
    name.as_bytes()
        .windows(2)
        .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

/// Whether a name begins with a verb and continues.
fn tool_like(name: &str) -> bool {
    let end = name
        .find(|c: char| !c.is_ascii_lowercase())
        .unwrap_or(name.len());
    end < name.len() && WORDS.tool_names.first_verbs.contains(&name[..end])
}
