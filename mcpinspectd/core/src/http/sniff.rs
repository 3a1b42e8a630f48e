//! Tells HTTP from everything else, and MCP from other HTTP, by a few bytes.
//!
//! Most connections on a machine are not MCP, and neither is most of what goes through HTTP. The
//! first bytes of a connection say whether it is HTTP at all; the head of a request usually says
//! whether it can be MCP; if it does not, the first [512](super::Limits::max_undecided) bytes of its
//! body have to. Plain JSON-RPC proves nothing, because agents and block chains speak it too.

use super::head::{Content, Head, Method};
use super::part::{PREFACE, Role};
use super::two;
use crate::mcp::sniff::{Evidence, message_evidence};

/// This many bytes suffice to tell HTTP from anything else.
pub(super) const ENOUGH: usize = 32;

/// The longest method.
const METHOD: usize = 17;

/// How much of an undecided message to examine at first. After that, twice as much each time.
const FIRST_SNIFF: usize = 64;

/// What the first bytes of a direction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    One,
    Two,
    Neither,
    /// More are needed.
    Undecided,
}

/// Judges a direction by its first bytes. `is_joined` says that they may be from anywhere in it.
pub(super) fn guess(bytes: &[u8], role: Role, is_joined: bool) -> Guess {
    let text = match role {
        Role::Requests => request(bytes),
        Role::Responses => begins_with(bytes, b"HTTP/1."),
    };
    let frames = match two::Side::begins(bytes, role) {
        None => Guess::Undecided,
        // A server begins with its settings, and a client with the preface.
        Some(true) if is_joined || (role == Role::Responses && bytes[3] == 4) => Guess::Two,
        Some(_) => Guess::Neither,
    };
    match (text, frames) {
        (Guess::Neither, frames) => frames,
        (text, _) => text,
    }
}

fn begins_with(bytes: &[u8], wanted: &[u8]) -> Guess {
    if bytes.starts_with(wanted) {
        Guess::One
    } else if wanted.starts_with(bytes) {
        Guess::Undecided
    } else {
        Guess::Neither
    }
}

fn request(bytes: &[u8]) -> Guess {
    if bytes.starts_with(PREFACE) {
        return Guess::Two;
    }
    if PREFACE.starts_with(bytes) {
        return Guess::Undecided;
    }
    let is_letter = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    let method = bytes.iter().take_while(|byte| is_letter(byte)).count();
    match bytes.get(method..).unwrap_or_default() {
        [] if method <= METHOD => Guess::Undecided,
        [b' '] if (3..=METHOD).contains(&method) => Guess::Undecided,
        [b' ', first, ..] if (3..=METHOD).contains(&method) => {
            let is_host = bytes.starts_with(b"CONNECT ") && first.is_ascii_alphanumeric();
            if is_host || matches!(first, b'/' | b'*' | b'h' | b'[') {
                Guess::One
            } else {
                Guess::Neither
            }
        }
        _ => Guess::Neither,
    }
}

/// Whether an exchange is MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is.
    Mcp,
    /// It is not.
    Other,
    /// Its body has to tell.
    Undecided,
}

/// Judges an exchange by the head of its request.
pub(super) fn by_request(head: &Head) -> Verdict {
    let mcp = &head.mcp;
    let is_marked = mcp.session.is_some() || mcp.version.is_some() || mcp.method.is_some();
    // After a loss, any field may be the unknown one.
    let may_be = |wanted: bool| wanted || head.has_unknown_fields;
    let may_match = match head.method {
        Method::Post => may_be(head.content == Content::Json),
        Method::Get => may_be(head.accepts_events),
        Method::Delete => mcp.session.is_some(),
        Method::Head | Method::Connect | Method::Other => false,
    };
    match (may_match, is_marked) {
        (false, _) => Verdict::Other,
        (true, true) => Verdict::Mcp,
        (true, false) => Verdict::Undecided,
    }
}

/// Judges an exchange that is undecided by the head of its response.
pub(super) fn by_response(head: &Head) -> Verdict {
    match head.content {
        _ if head.mcp.session.is_some() => Verdict::Mcp,
        Content::Json | Content::Events => Verdict::Undecided,
        Content::Unknown if head.has_unknown_fields => Verdict::Undecided,
        Content::Unknown | Content::Other => Verdict::Other,
    }
}

/// The type of a body whose head does not state it, by its first byte.
pub(super) fn content(first: u8) -> Content {
    match first {
        b'{' | b'[' => Content::Json,
        b'e' | b'd' | b'i' | b'r' | b':' => Content::Events,
        _ => Content::Other,
    }
}

/// Looks at a message as it grows, at the same lengths however it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSniffer {
    next: usize,
}

impl Default for MessageSniffer {
    fn default() -> Self {
        Self { next: FIRST_SNIFF }
    }
}

impl MessageSniffer {
    /// Judges the start of a message, of which at most `max` bytes count. An exchange that is undecided
    /// at its end, or after `max` bytes, is [`Verdict::Other`].
    pub(super) fn sniff(&mut self, text: &[u8], is_whole: bool, max: usize) -> Verdict {
        while self.next <= max && self.next <= text.len() {
            let verdict = judge(&text[..self.next], false);
            self.next = match self.next {
                next if next == max => max + 1,
                next => (next * 2).min(max),
            };
            if verdict != Verdict::Undecided {
                return verdict;
            }
        }
        if text.len() > max || self.next > max {
            Verdict::Other
        } else if is_whole {
            match judge(text, true) {
                Verdict::Undecided => Verdict::Other,
                verdict => verdict,
            }
        } else {
            Verdict::Undecided
        }
    }
}

fn judge(text: &[u8], is_whole: bool) -> Verdict {
    match text.trim_ascii_start().first() {
        None => return Verdict::Undecided,
        Some(b'{' | b'[' | 0xef) => {}
        Some(_) => return Verdict::Other,
    }
    match message_evidence(text, is_whole) {
        Evidence::Mcp { .. } => Verdict::Mcp,
        Evidence::NotMcp { .. } => Verdict::Other,
        Evidence::Undecided { .. } => Verdict::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_told_by_its_first_bytes() {
        use Guess::{Neither, One, Two, Undecided};
        let settings = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
        for (role, bytes, wanted) in [
            (Role::Requests, &b"P"[..], Undecided),
            (Role::Requests, b"POST /mcp", One),
            (Role::Requests, b"M-SEARCH * HTTP/1.1", One),
            (Role::Requests, b"CONNECT example.org:443", One),
            (Role::Requests, PREFACE, Two),
            (Role::Requests, b"PRI * HTTP/2.0\r\n", Undecided),
            (Role::Requests, b"GET key\r\n", Neither),
            (Role::Requests, b"SSH-2.0-x", Neither),
            (Role::Requests, b"\x16\x03\x01\x02\0\x01\0\x01\xfc", Neither),
            (Role::Requests, b"*1\r\n$4\r\nPING\r\n", Neither),
            (Role::Requests, &settings[..], Neither),
            (Role::Responses, b"HTTP", Undecided),
            (Role::Responses, b"HTTP/1.1 200", One),
            (Role::Responses, &settings[..], Two),
            (Role::Responses, b"220 mail ESMTP", Neither),
        ] {
            assert_eq!(guess(bytes, role, false), wanted, "{bytes:?}");
        }
        assert_eq!(guess(settings, Role::Requests, true), Two);
        // Whatever it is, that is known soon.
        for byte in 0..=255 {
            for role in [Role::Requests, Role::Responses] {
                assert_ne!(guess(&[byte; ENOUGH], role, true), Undecided);
            }
        }
    }

    #[test]
    fn a_message_is_judged_at_the_same_lengths_however_it_is_cut() {
        let max = 512;
        let pad = |bytes: usize| " ".repeat(bytes);
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
            format!(
                r#"{{"jsonrpc":"2.0",{}"id":1,"method":"tools/list"}}"#,
                pad(470)
            ),
            format!(
                r#"{{"jsonrpc":"2.0",{}"id":1,"method":"tools/list"}}"#,
                pad(490)
            ),
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[]}"#.to_owned(),
            r#"{"model":"x","messages":[{"role":"user"}]}"#.to_owned(),
            "plain text".to_owned(),
            String::new(),
        ] {
            let whole = MessageSniffer::default().sniff(text.as_bytes(), true, max);
            let mut sniffer = MessageSniffer::default();
            let mut verdict = Verdict::Undecided;
            for end in 0..=text.len() {
                if verdict == Verdict::Undecided {
                    verdict = sniffer.sniff(&text.as_bytes()[..end], false, max);
                }
            }
            if verdict == Verdict::Undecided {
                verdict = sniffer.sniff(text.as_bytes(), true, max);
            }
            assert_eq!(verdict, whole, "{text}");
            let is_mcp = text.contains("tools/list") && text.len() < max;
            assert_eq!(whole == Verdict::Mcp, is_mcp, "{text}");
        }
    }
}
