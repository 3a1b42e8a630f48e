//! Times, hashes and names in few words.

use mcpinspect_core::model::Timestamp;

use super::super::report::State;

/// Names on one line.
const NAMED: usize = 8;
/// Digits of a hash.
const HASH: usize = 12;

pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Watched => "watched",
        State::Unwatched => "unwatched",
        State::Stopped => "stopped",
        State::Failed => "failed",
        State::Silent => "silent",
    }
}

/// A UTC time, to the minute.
pub(super) fn minute(time: Timestamp) -> String {
    let text: String = time.to_string().chars().take(16).collect();
    text.replace('T', " ")
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..HASH).unwrap_or(hash)
}

pub(super) fn counted(hosts: u64) -> String {
    match hosts {
        1 => "1 host".to_owned(),
        hosts => format!("{hosts} hosts"),
    }
}

/// The first of `count` names.
pub(super) fn named(names: &[String], count: u64) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let mut text = shown.join(", ");
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
