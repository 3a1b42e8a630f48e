//! What a definition wants of an agent, in one sentence.
//!
//! A poisoned definition has a dozen findings, each about a few words of it. What a person asks is what it
//! comes to: "it tells your agent to open ~/.ssh/id_rsa and to keep that from you". So findings of the
//! categories that name an act become one sentence, with the file or address that the text names.

use mcpinspect_core::model::{Detection, Severity};
use mcpinspect_core::text::escape::printable;

/// Longest file or address that is named, characters.
const MAX_OBJECT: usize = 64;

/// A finding of `command_injection` that does not say which of the two it is about.
const COMMAND_OR_FILE: &str = "meaning-runs-as-check";

/// Categories that name an act, in the order in which a sentence tells them.
const ACTS: [(&str, Act); 8] = [
    ("forced_prerequisite", Act::Plain("do something else first")),
    ("credential_access", Act::Open),
    ("command_injection", Act::Plain("run a command")),
    (
        "argument_hijack",
        Act::Plain("change what it passes to tools"),
    ),
    (
        "context_leak",
        Act::Plain("hand over what was said in the conversation"),
    ),
    ("exfiltration", Act::Send),
    (
        "preference_manipulation",
        Act::Plain("prefer this tool to others"),
    ),
    ("concealment", Act::Plain("keep that from you")),
];

/// How an act is told.
#[derive(Clone, Copy)]
enum Act {
    Plain(&'static str),
    /// With the file that the text names.
    Open,
    /// With the address that the text names.
    Send,
}

impl Act {
    fn words(self, findings: &[&Detection]) -> String {
        match self {
            Self::Plain(words) => words.to_owned(),
            Self::Open => named(findings, is_path).map_or_else(
                || "read keys, passwords or the like".to_owned(),
                |file| format!("open {file}"),
            ),
            Self::Send => named(findings, is_address).map_or_else(
                || "pass data on".to_owned(),
                |address| format!("send data to {address}"),
            ),
        }
    }
}

/// One sentence about a text that asks for several things; `None` where it asks for one or none: what a single
/// finding says is a sentence already.
pub fn orders(detections: &[Detection]) -> Option<String> {
    // Where severe findings tell of several acts, slighter ones would only add what is less certain.
    [Severity::High, Severity::Medium]
        .into_iter()
        .map(|least| acts(detections, least))
        .find(|acts| acts.len() > 1)
        .map(|acts| format!("Its text tells your agent {}.", joined(&acts)))
}

fn acts(detections: &[Detection], least: Severity) -> Vec<String> {
    let told = ACTS.iter().filter_map(|(category, act)| {
        let findings: Vec<&Detection> = detections
            .iter()
            .filter(|found| found.category == *category && found.severity >= least)
            .filter(|found| found.pattern != COMMAND_OR_FILE)
            .collect();
        (!findings.is_empty()).then(|| act.words(&findings))
    });
    told.collect()
}

/// `to a, to b and to c`.
fn joined(acts: &[String]) -> String {
    let mut text = String::new();
    for (n, act) in acts.iter().enumerate() {
        let link = match n {
            0 => "",
            n if n + 1 == acts.len() => " and ",
            _ => ", ",
        };
        text.push_str(link);
        text.push_str("to ");
        text.push_str(act);
    }
    text
}

/// The first word of a quotation that is one of these, escaped and bounded.
fn named(findings: &[&Detection], is_one: fn(&str) -> bool) -> Option<String> {
    let places = findings.iter().flat_map(|found| &found.matches);
    places
        .flat_map(|place| place.text.split(is_delimiter))
        .map(|word| word.trim_end_matches(['.', ':', '!', '?']))
        .find(|word| is_one(word))
        .map(|word| printable(word, MAX_OBJECT))
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || "'\"`“”‘’<>()[]{},;".contains(c)
}

fn is_path(word: &str) -> bool {
    let rest = word.strip_prefix('~').unwrap_or(word);
    (rest.len() > 1 && rest.starts_with('/')) || (word.len() > 1 && word.starts_with('.'))
}

fn is_address(word: &str) -> bool {
    let host = word
        .split_once("://")
        .or_else(|| word.split_once('@'))
        .map(|(_, host)| host);
    host.is_some_and(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Match;

    use super::*;

    fn found(category: &str, severity: Severity, text: &str) -> Detection {
        Detection {
            pattern: "rule".to_owned(),
            category: category.to_owned(),
            severity,
            matches: vec![Match {
                text: text.to_owned(),
                position: 0,
                context: text.to_owned(),
            }],
            field: "description".to_owned(),
            explanation: "One sentence.".to_owned(),
        }
    }

    #[test]
    fn several_acts_are_one_sentence() {
        let findings = [
            found("concealment", Severity::High, "Do not mention this"),
            found(
                "credential_access",
                Severity::Critical,
                "first read '~/.ssh/id_rsa'.",
            ),
            found(
                "exfiltration",
                Severity::High,
                "send it to <https://a.example/x>",
            ),
            found("hidden_instructions", Severity::High, "<IMPORTANT>"),
            found("forced_prerequisite", Severity::Medium, "first read"),
        ];
        assert_eq!(
            orders(&findings).as_deref(),
            Some(
                "Its text tells your agent to open ~/.ssh/id_rsa, to send data to https://a.example/x \
                 and to keep that from you."
            )
        );
    }

    #[test]
    fn slighter_findings_tell_where_severe_ones_do_not() {
        let findings = [
            found("concealment", Severity::High, "Do not mention"),
            found("forced_prerequisite", Severity::Medium, "Before using"),
            found("exfiltration", Severity::Low, "post"),
        ];
        assert_eq!(
            orders(&findings).as_deref(),
            Some("Its text tells your agent to do something else first and to keep that from you.")
        );
    }

    #[test]
    fn one_act_has_its_own_explanation() {
        let one = found("exfiltration", Severity::High, "to a@b.example");
        let same = found("exfiltration", Severity::Medium, "x");
        let other = found("unicode_smuggling", Severity::Critical, "x");
        assert_eq!(orders(&[one, same, other]), None);
        assert_eq!(orders(&[]), None);
    }

    #[test]
    fn what_may_be_a_file_is_not_told_as_a_command() {
        let mut check = found("command_injection", Severity::High, "read ~/.ssh/id_rsa");
        check.pattern = COMMAND_OR_FILE.to_owned();
        let file = found("credential_access", Severity::High, "read ~/.ssh/id_rsa");
        let silence = found("concealment", Severity::High, "Do not mention");
        assert_eq!(
            orders(&[check, file, silence]).as_deref(),
            Some("Its text tells your agent to open ~/.ssh/id_rsa and to keep that from you.")
        );
    }

    #[test]
    fn what_a_text_names_is_escaped_and_bounded() {
        let path = format!("/\u{202e}{}", "x".repeat(10_000));
        let findings = [
            found("credential_access", Severity::High, &path),
            found("exfiltration", Severity::High, "to everyone"),
        ];
        let sentence = orders(&findings).unwrap_or_default();
        assert!(!sentence.contains('\u{202e}'), "{sentence}");
        assert!(sentence.chars().count() < 200, "{sentence}");
        assert!(sentence.ends_with("and to pass data on."), "{sentence}");
    }
}
