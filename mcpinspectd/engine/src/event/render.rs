//! Events in words: the journal's `MESSAGE`, the title of a signal and of a desktop alert.
//!
//! A *title* is visible to every user of the machine, so it holds names only: server, tool, kind of
//! finding. A *sentence* goes where contents may be read, and says what happened and what was
//! found. Names come from the other side, so both are escaped and bounded here, and nowhere later.
//! The words themselves are beside each type of event, in [`body`](super::body).

use mcpinspect_core::text::escape::printable;

use super::vocabulary::{Details, MAX_NAME, Sentence};
use crate::event::Event;

/// Longest title, in characters.
pub const MAX_TITLE: usize = 160;
/// Longest sentence, in characters.
pub const MAX_SENTENCE: usize = 1024;
/// One line of at most [`MAX_TITLE`] characters that names what the event is about.
pub fn title(event: &Event) -> String {
    let server = event.server().map(|server| printable(&server.0, MAX_NAME));
    let server = server.as_deref().unwrap_or_default();
    printable(&event.body.describe().title(server), MAX_TITLE)
}

/// What happened, in one line of at most [`MAX_SENTENCE`] characters.
pub fn sentence(event: &Event) -> String {
    let mut sentence = Sentence::of(title(event));
    event.body.describe().particulars(&mut sentence);
    printable(sentence.text(), MAX_SENTENCE)
}

/// What journal readers filter by besides server, session and severity; named as there.
pub fn details(event: &Event) -> Vec<(&'static str, String)> {
    let mut details = Details::default();
    event.body.describe().details(&mut details);
    details.into_vec()
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::ToolStatus;
    use mcpinspect_core::text::escape::is_hidden;

    use super::*;
    use crate::event::body::ToolChanged;
    use crate::event::testing::{TIME, examples, hash, subject};

    #[test]
    fn every_event_reads_as_a_sentence() {
        let lines: Vec<String> = examples().iter().map(sentence).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        New tool "read" on files; sha256 aaaaaaaaaaaa
        Tool "read" of files has changed; field description; pinned aaaaaaaaaaaa, now bbbbbbbbbbbb; Credential access: The description asks the agent to read /etc/shadow
        Instructions of files have changed; field definition; pinned aaaaaaaaaaaa, now bbbbbbbbbbbb
        Credential access in tool "read" of files; high, asks for alert; The description asks the agent to read /etc/shadow; field description
        MCP session with files started; server pid 4242 uid 1000 /usr/bin/node; client pid 4241 uid 1000 /usr/bin/node; named by package:npm
        files speaks MCP 2025-06-18; server calls itself files 1.2; client calls itself agent ?
        MCP session with files ended; server_exited; 12 messages, 3456 bytes, 0 bytes lost, 1 requests unanswered
        A call of "read" hangs in files; no answer for 60 s
        files keeps running without a client; its session ended 10 s ago (client_exited); /usr/bin/node, uid 1000
        512 bytes of files were lost; server_to_client from byte 4096: ring_full
        files moves data by io_uring; pid 4242; its bytes are not captured
        Invalid message in a session with files; server_to_client: not_json, 17 bytes; begins Starting server…
        approve for tool "read" of files; by uid 1000; looked at it
        Policy would have blocked a call of "write" to files; rules no-writes; Nothing is written; client_to_server, message 7
        files was frozen in part; processes 4240 4242; as a whole: /app.slice/files.scope; not contained: process 4243: Operation not permitted; by policy, because of sensitive-file
        No room to pin 12 definitions of files; limit user_items; uid 1000
        3 events did not reach the journal sink; its queue was full
        Messages cannot be recorded; /var/lib/mcpinspectd/messages.db; database or disk is full
        "#);
    }

    #[test]
    fn titles_name_and_do_not_tell() {
        let lines: Vec<String> = examples().iter().map(title).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        New tool "read" on files
        Tool "read" of files has changed
        Instructions of files have changed
        Credential access in tool "read" of files
        MCP session with files started
        files speaks MCP 2025-06-18
        MCP session with files ended
        A call of "read" hangs in files
        files keeps running without a client
        512 bytes of files were lost
        files moves data by io_uring
        Invalid message in a session with files
        approve for tool "read" of files
        Policy would have blocked a call of "write" to files
        files was frozen in part
        No room to pin 12 definitions of files
        3 events did not reach the journal sink
        Messages cannot be recorded
        "#);
        for line in lines {
            assert!(!line.contains("/etc/shadow"), "content in a title: {line}");
        }
    }

    #[test]
    fn hostile_names_stay_one_bounded_line() {
        let body = ToolChanged {
            tool_name: format!("x\u{1b}[2J{}", "y".repeat(100_000)),
            status: ToolStatus::Changed,
            previous_hash: hash('a'),
            new_hash: Some(hash('b')),
            changes: Vec::new(),
            detections: Vec::new(),
            max_severity: None,
        };
        let event = Event::new(TIME, subject("evil\nserver\u{202e}"), body);
        for line in [title(&event), sentence(&event)] {
            assert!(!line.chars().any(is_hidden), "{line}");
        }
        assert!(title(&event).chars().count() <= MAX_TITLE);
    }
}
