//! What a tool is for, as far as its name tells: where data comes in, where it is private, where it
//! goes out.

/// The parts a tool can play in a flow of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Its results have text that strangers wrote.
    pub untrusted: bool,
    /// Its results are the user's own.
    pub private: bool,
    /// What it is called with leaves the machine.
    pub sends: bool,
}

use crate::detect::names::words;

const UNTRUSTED: &[&str] = &[
    "fetch", "web", "browse", "browser", "url", "scrape", "crawl", "search", "page", "navigate",
    "html", "rss", "feed", "email", "emails", "mail", "inbox", "issue", "issues", "comment",
    "comments", "message", "messages", "channel", "thread", "review", "reviews", "ticket",
    "tickets", "download", "tweet", "tweets", "post", "posts",
];
const PRIVATE: &[&str] = &[
    "file",
    "files",
    "directory",
    "database",
    "query",
    "sql",
    "table",
    "email",
    "emails",
    "mail",
    "inbox",
    "calendar",
    "drive",
    "note",
    "notes",
    "secret",
    "secrets",
    "contact",
    "contacts",
    "memory",
    "vault",
    "password",
    "passwords",
    "document",
    "documents",
    "message",
    "messages",
    "chats",
    "history",
    "account",
    "accounts",
    "balance",
    "transactions",
    "repository",
    "record",
    "records",
    "customer",
    "patient",
    "keys",
    "env",
    "environment",
    "clipboard",
    "profile",
];
const READS: &[&str] = &[
    "read", "get", "list", "search", "find", "query", "fetch", "show", "load", "open", "view",
    "lookup", "retrieve", "run", "execute", "select", "export", "dump",
];
const SENDS: &[&str] = &[
    "send", "post", "email", "mail", "upload", "share", "publish", "comment", "reply", "forward",
    "webhook", "push", "request", "http", "fetch", "navigate", "tweet", "notify", "invite",
    "submit", "message", "transfer", "curl", "browse", "goto",
];
const CREATES: &[&str] = &["create", "add", "update", "write", "edit", "append"];
const SHARED: &[&str] = &[
    "issue",
    "comment",
    "pull",
    "gist",
    "page",
    "ticket",
    "post",
    "message",
    "repository",
    "event",
    "review",
];

impl Role {
    /// The role that a name tells of.
    pub fn of(name: &str) -> Self {
        let words = words(name);
        let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let sends = any(SENDS) || (any(CREATES) && any(SHARED));
        let writes = words.first().is_some_and(|verb| {
            ["send", "create", "update", "delete", "write", "add", "post"].contains(&verb.as_str())
        });
        Self {
            untrusted: any(UNTRUSTED) && !writes,
            private: any(PRIVATE) && (any(READS) || words.len() == 1) && !writes,
            sends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_part() {
        let role = |untrusted, private, sends| Role {
            untrusted,
            private,
            sends,
        };
        assert_eq!(Role::of("fetch_url"), role(true, false, true));
        assert_eq!(Role::of("read_file"), role(false, true, false));
        assert_eq!(Role::of("send_email"), role(false, false, true));
        assert_eq!(Role::of("createIssue"), role(false, false, true));
        assert_eq!(Role::of("add"), Role::default());
        assert_eq!(Role::of(""), Role::default());
    }
}
