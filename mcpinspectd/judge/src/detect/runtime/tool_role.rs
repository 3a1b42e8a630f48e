//! What a tool does with data, judging by its name: it brings in text from outside, reads private data, or
//! sends data out.

use crate::detect::text::names::words;
use crate::detect::words::{WORDS, WordSet};

/// The roles that a tool can have in a flow of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolRole {
    /// Its results contain text that strangers wrote.
    pub untrusted: bool,
    /// Its results are the user's private data.
    pub private: bool,
    /// Its arguments leave the machine.
    pub sends: bool,
}

impl ToolRole {
    /// The roles that a name suggests.
    pub fn of(name: &str) -> Self {
        let words = words(name);
        let known = &WORDS.data_flow;
        let any = |list: &WordSet| words.iter().any(|word| list.contains(word.as_str()));
        let sends = any(&known.sends) || (any(&known.creates) && any(&known.shared));
        let writes = words
            .first()
            .is_some_and(|verb| known.writes.contains(verb.as_str()));
        Self {
            untrusted: any(&known.untrusted) && !writes,
            private: any(&known.private) && (any(&known.reads) || words.len() == 1) && !writes,
            sends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_suggest_roles() {
        let role = |untrusted, private, sends| ToolRole {
            untrusted,
            private,
            sends,
        };
        assert_eq!(ToolRole::of("fetch_url"), role(true, false, true));
        assert_eq!(ToolRole::of("read_file"), role(false, true, false));
        assert_eq!(ToolRole::of("send_email"), role(false, false, true));
        assert_eq!(ToolRole::of("createIssue"), role(false, false, true));
        assert_eq!(ToolRole::of("add"), ToolRole::default());
        assert_eq!(ToolRole::of(""), ToolRole::default());
    }
}
