//! What a tool does with data, judging by its name: it brings in text from outside, reads private data, or
//! sends data out.

use crate::detect::text::names::words;

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

impl ToolRole {
    /// The roles that a name suggests.
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
