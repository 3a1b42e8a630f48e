use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::model::{EndReason, Timestamp};
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::Event;
use mcpinspect_engine::event::testing::party;
use mcpinspect_engine::history::{HistoryError, HistoryQuery, HistoryReader as _, Search, Viewer};
use mcpinspect_engine::retention::{Retention, RetentionRule, RetentionRules, StoredContent};
use mcpinspect_engine::{Engine, Limits};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;
use mcpinspect_runtime::queue::Bounds;
use mcpinspectd::pipeline::{MessageQueue, message_queue};
use serde_json::{Value, json};

use super::*;

mod damage;
mod deletion;

const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";

fn keep(content: StoredContent) -> RetentionRules {
    RetentionRules {
        default: Retention { content, days: 30 },
        rules: Vec::new(),
    }
}

fn settings(path: &Path) -> Settings {
    Settings {
        path: path.to_owned(),
        max_size: 1 << 30,
        rules: keep(StoredContent::Redacted),
    }
}

/// An engine whose messages a store records.
struct Recording {
    engine: Engine,
    queue: MessageQueue,
    recorder: Recorder,
    events: mpsc::Receiver<Event>,
}

impl Recording {
    fn start(settings: Settings) -> Self {
        let bounds = Bounds {
            items: 100_000,
            bytes: 64 << 20,
        };
        let (queue, records) = message_queue(bounds);
        let (tell, events) = mpsc::channel();
        let recorder = Recorder::start(settings, records, move |event| {
            let _ = tell.send(event);
        });
        Self {
            engine: Engine::new(
                Limits::default(),
                Registry::in_memory(),
                Box::new(NoDetector),
            ),
            queue,
            recorder: recorder.unwrap(),
            events,
        }
    }

    fn session(&mut self, server: &str, id: &str, uid: u32) -> Script {
        let script = Script::new(server)
            .session(id)
            .processes(Some(party(10, uid)), Some(party(11, uid)))
            .paced(Timestamp::now(), 1000);
        let start = script.start();
        self.engine.handle(start, &mut self.queue);
        script
    }

    fn say(
        &mut self,
        script: &mut Script,
        direction: mcpinspect_core::model::Direction,
        text: &str,
    ) {
        let line = script.line(direction, text);
        self.engine.handle(line, &mut self.queue);
    }

    fn call(&mut self, script: &mut Script, id: u32, tool: &str, argument: &str, answer: &str) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": {"text": argument}}});
        let answer = json!({"jsonrpc": "2.0", "id": id,
            "result": {"content": [{"type": "text", "text": answer}], "isError": answer.starts_with("Error")}});
        self.say(script, Up, &call.to_string());
        self.say(script, Down, &answer.to_string());
    }

    /// Writes everything. Returns what was reported.
    fn finish(self) -> Vec<Value> {
        let Self {
            queue,
            recorder,
            events,
            ..
        } = self;
        drop(queue);
        drop(recorder);
        let events = events.into_iter();
        events
            .map(|event| serde_json::to_value(event).unwrap())
            .collect()
    }
}

struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("messages.db")
    }

    fn ask_as(&self, question: &HistoryQuery, viewer: Viewer) -> Vec<Value> {
        let rows = StoreFile::new(&self.path())
            .query_history(question, viewer)
            .unwrap();
        rows.iter()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect()
    }

    fn ask(&self, question: &HistoryQuery) -> Vec<Value> {
        self.ask_as(question, Viewer::All)
    }

    fn messages(&self, session: &str) -> Vec<Value> {
        self.ask(&HistoryQuery::Messages {
            session: session.to_owned(),
            after: 0,
            limit: 1000,
        })
    }

    fn search(&self, search: Search) -> Vec<Value> {
        self.ask(&HistoryQuery::Search(Search {
            limit: 1000,
            ..search
        }))
    }

    fn sessions(&self) -> Vec<Value> {
        self.ask(&sessions())
    }
}

fn sessions() -> HistoryQuery {
    HistoryQuery::Sessions {
        server: None,
        since: None,
        session: None,
        limit: 1000,
    }
}

fn text(text: &str) -> Search {
    Search {
        text: text.to_owned(),
        ..Search::default()
    }
}

/// Letters that do not compress.
fn noise(seed: u64, letters: usize) -> String {
    let mut dice = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let letter = |_| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + u8::try_from((dice >> 33) % 26).unwrap_or_default())
    };
    (0..letters).map(letter).collect()
}

/// `s-2` is found among `s-20` to `s-29`, which came later.
#[test]
fn an_id_that_others_begin_with_names_one_session() {
    let fixture = Fixture::new();
    let mut recording = Recording::start(settings(&fixture.path()));
    for number in 1..30 {
        let mut script = recording.session("files", &format!("s-{number}"), 1000);
        recording.call(&mut script, 1, "read", "x", "y");
    }
    recording.finish();
    let found = fixture.ask(&HistoryQuery::Sessions {
        server: None,
        since: None,
        session: Some("s-2".to_owned()),
        limit: 10,
    });
    assert_eq!((found.len(), &found[0]["session_id"]), (10, &"s-2".into()));
    assert_eq!(found[1]["session_id"], "s-29");
}

#[test]
fn what_was_said_is_found_again() {
    let fixture = Fixture::new();
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut script = recording.session("files", "s1", 1000);
    recording.call(&mut script, 1, "read", "Über den Wolken", "done");
    recording.call(&mut script, 2, "write", "nothing", "Error: no such file");
    recording.say(&mut script, Up, "noise");
    recording
        .engine
        .handle(script.end(EndReason::ClientExited), &mut recording.queue);
    assert!(recording.finish().is_empty());

    let sessions = fixture.sessions();
    let session = &sessions[0];
    assert_eq!(
        (
            &session["session_id"],
            &session["messages"],
            &session["errors"]
        ),
        (&json!("s1"), &json!(5), &json!(1))
    );
    assert_eq!(
        (&session["end_reason"], &session["in_flight"]),
        (&json!("client_exited"), &json!(0))
    );
    let messages = fixture.messages("s1");
    assert_eq!(
        messages[0]["message"]["params"]["arguments"]["text"],
        "Über den Wolken"
    );
    assert_eq!(
        (
            &messages[1]["answers"],
            &messages[1]["correlation"],
            &messages[1]["tool"]
        ),
        (&json!(1), &json!("answer"), &json!("read"))
    );
    assert_eq!(
        (&messages[4]["text"], &messages[4]["kind"]),
        (&json!("noise"), &json!("invalid"))
    );
    let sequences = |rows: Vec<Value>| -> Vec<u64> {
        rows.iter()
            .map(|row| row["sequence"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(sequences(fixture.search(text("wolken uber"))), [1]);
    assert_eq!(sequences(fixture.search(text("wolken none"))), [0; 0]);
    let errors = Search {
        error: true,
        ..Search::default()
    };
    assert_eq!(sequences(fixture.search(errors)), [4]);
    let writes = Search {
        tool: Some("write".to_owned()),
        ..Search::default()
    };
    assert_eq!(sequences(fixture.search(writes)), [4, 3]);
    let all = Search::default();
    assert_eq!(sequences(fixture.search(all)), [5, 4, 3, 2, 1]);
    let since = Search {
        since: Some(Timestamp::now().0 + 1_000_000_000_000),
        ..text("wolken")
    };
    assert!(fixture.search(since).is_empty());
    // Things that are not words, and FTS's own syntax.
    for odd in ["\" OR *", "NEAR(", "wolken OR file", "-"] {
        let question = HistoryQuery::Search(Search {
            limit: 10,
            ..text(odd)
        });
        match StoreFile::new(&fixture.path()).query_history(&question, Viewer::All) {
            Ok(rows) => assert!(rows.is_empty(), "{odd}"),
            Err(error) => assert!(matches!(error, HistoryError::Invalid(_)), "{odd}: {error}"),
        }
    }
    let statistics = fixture.ask(&HistoryQuery::Statistics {
        server: Some("files".to_owned()),
        days: Some(1),
    });
    let read = statistics.iter().find(|row| row["tool"] == "read").unwrap();
    assert_eq!(
        (&read["requests"], &read["responses"], &read["p50_ns"]),
        (&json!(1), &json!(1), &json!(1000))
    );
    let events = fixture.ask(&HistoryQuery::Events {
        session: "s1".to_owned(),
        limit: 100,
    });
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "mcp_session_started",
            "mcp_invalid_message",
            "mcp_session_ended"
        ]
    );
}

#[test]
fn secrets_never_reach_the_disk_unless_all_is_kept() {
    for (content, is_kept) in [
        (StoredContent::Redacted, false),
        (StoredContent::Metadata, false),
        (StoredContent::Full, true),
    ] {
        let fixture = Fixture::new();
        let settings = Settings {
            rules: keep(content),
            ..settings(&fixture.path())
        };
        let mut recording = Recording::start(settings);
        let mut script = recording.session("files", "s1", 1000);
        recording.call(&mut script, 1, "read", SECRET, "passwort");
        recording.say(&mut script, Up, &format!("[1, \"{SECRET}\""));
        assert!(recording.finish().is_empty());
        let messages = fixture.messages("s1");
        assert_eq!(messages.len(), 3);
        let shown = serde_json::to_string(&messages).unwrap();
        assert_eq!(shown.contains(SECRET), is_kept, "{content:?}");
        assert_eq!(
            messages[0]["message"].is_null(),
            content == StoredContent::Metadata
        );
        assert_eq!(messages[0]["is_masked"], content == StoredContent::Redacted);
        let found = fixture.search(text("passwort")).len();
        assert_eq!(found, usize::from(content != StoredContent::Metadata));
        // Its words are in the index too.
        let found = fixture.search(text(&SECRET[4..])).len();
        assert_eq!(found > 0, is_kept);
        for file in std::fs::read_dir(fixture.0.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let secret = SECRET.to_lowercase();
            for secret in [SECRET, &secret[4..]] {
                let found = memchr::memmem::find(&bytes, secret.as_bytes()).is_some();
                assert!(!found || is_kept, "{content:?}");
            }
        }
    }
}

#[test]
fn each_user_sees_what_is_theirs() {
    let fixture = Fixture::new();
    let mut recording = Recording::start(settings(&fixture.path()));
    for (id, uid) in [("anna", 1000), ("bert", 1001)] {
        let mut script = recording.session("files", id, uid);
        recording.call(&mut script, 1, "read", "common", "word");
    }
    assert!(recording.finish().is_empty());
    let anna = Viewer::User(1000);
    let ids = |rows: Vec<Value>| -> Vec<Value> {
        rows.iter().map(|row| row["session_id"].clone()).collect()
    };
    assert_eq!(ids(fixture.ask_as(&sessions(), anna)), ["anna"]);
    assert_eq!(fixture.sessions().len(), 2);
    for text in ["common", ""] {
        let question = HistoryQuery::Search(Search {
            text: text.to_owned(),
            limit: 10,
            ..Search::default()
        });
        let found = ids(fixture.ask_as(&question, anna));
        assert!(!found.is_empty() && found.iter().all(|id| id == "anna"));
        assert!(fixture.ask_as(&question, Viewer::User(7)).is_empty());
    }
    for session in ["bert", "none"] {
        let session = session.to_owned();
        let limit = 10;
        let messages = HistoryQuery::Messages {
            session: session.clone(),
            after: 0,
            limit,
        };
        assert!(fixture.ask_as(&messages, anna).is_empty());
        let newest = latest(Some(&session), None, None, limit);
        assert!(fixture.ask_as(&newest, anna).is_empty());
        assert!(
            fixture
                .ask_as(&HistoryQuery::Events { session, limit }, anna)
                .is_empty()
        );
    }
    let newest = latest(None, None, None, 10);
    assert!(
        ids(fixture.ask_as(&newest, anna))
            .iter()
            .all(|id| id == "anna")
    );
    for row in fixture.ask(&newest) {
        let number = row["number"].as_i64().unwrap();
        let found = fixture.ask_as(&HistoryQuery::Message { number }, anna);
        assert_eq!(found.len(), usize::from(row["session_id"] == "anna"));
    }
    let statistics = HistoryQuery::Statistics {
        server: None,
        days: None,
    };
    let rows = fixture.ask_as(&statistics, anna);
    assert!(!rows.is_empty() && rows.iter().all(|row| row["uid"] == 1000));
}

#[test]
fn batches_keep_their_members_and_large_messages_their_text() {
    let fixture = Fixture::new();
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut script = recording.session("files", "s1", 1000);
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]"#;
    recording.say(&mut script, Up, batch);
    let large = "large ".repeat(100_000);
    recording.call(&mut script, 3, "read", "x", &large);
    for id in 4..200 {
        recording.call(&mut script, id, "read", &format!("argument {id}"), "small");
    }
    assert!(recording.finish().is_empty());
    let messages = fixture.messages("s1");
    assert_eq!(messages.len(), 3 + 2 * 197);
    assert_eq!(messages[0]["message"].as_array().unwrap().len(), 2);
    let members: Vec<_> = messages[1..3]
        .iter()
        .map(|member| (&member["is_member"], &member["sequence"], &member["method"]))
        .collect();
    assert_eq!(members[0], (&json!(true), &json!(1), &json!("ping")));
    assert_eq!(members[1], (&json!(true), &json!(1), &json!("tools/list")));
    assert_eq!(
        messages[4]["message"]["result"]["content"][0]["text"],
        large
    );
    assert_eq!(
        messages[5]["message"]["params"]["arguments"]["text"],
        "argument 4"
    );
    // In pieces, without a gap.
    let mut after = 0;
    let mut pieces = 0;
    loop {
        let session = "s1".to_owned();
        let limit = 50;
        let piece = fixture.ask(&HistoryQuery::Messages {
            session,
            after,
            limit,
        });
        let Some(last) = piece.last() else { break };
        after = last["number"].as_i64().unwrap();
        pieces += piece.len();
    }
    assert_eq!(pieces, messages.len());
}

fn latest(
    session: Option<&str>,
    after: Option<i64>,
    before: Option<i64>,
    limit: usize,
) -> HistoryQuery {
    HistoryQuery::Latest {
        session: session.map(str::to_owned),
        after,
        before,
        limit,
    }
}

#[test]
fn the_latest_messages_come_first_and_without_their_texts() {
    let fixture = Fixture::new();
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut other = recording.session("time", "s2", 1000);
    recording.call(&mut other, 1, "now", "x", "noon");
    let mut script = recording.session("files", "s1", 1000);
    for id in 1..=30 {
        recording.call(&mut script, id, "read", &format!("argument {id}"), "small");
    }
    let batch =
        r#"[{"jsonrpc":"2.0","id":91,"method":"ping"},{"jsonrpc":"2.0","id":92,"method":"ping"}]"#;
    recording.say(&mut script, Up, batch);
    assert!(recording.finish().is_empty());

    let number = |row: &Value| row["number"].as_i64().unwrap();
    let mut whole = fixture.messages("s1");
    assert_eq!(whole.len(), 63);
    let texts: Vec<Value> = whole.iter_mut().map(|row| row["message"].take()).collect();
    // In pieces that end within the batch too, without a gap and without a duplicate.
    for limit in [1, 2, 7, 1000] {
        let (mut before, mut found) = (None, Vec::new());
        loop {
            let piece = fixture.ask(&latest(Some("s1"), None, before, limit));
            let Some(last) = piece.last() else { break };
            before = Some(number(last));
            found.extend(piece);
        }
        found.reverse();
        assert_eq!(found, whole, "{limit}");
    }
    // The number of another session's message is not a position in this one.
    let first = fixture.ask(&latest(Some("s2"), None, None, 1));
    assert!(
        fixture
            .ask(&latest(Some("s1"), None, Some(number(&first[0])), 9))
            .is_empty()
    );

    let all = fixture.ask(&latest(None, None, None, 1000));
    assert_eq!(all.len(), 65);
    assert!(all.is_sorted_by_key(|row| -number(row)));
    let new = fixture.ask(&latest(None, Some(number(&all[3])), None, 1000));
    assert_eq!(new, all[..3]);

    let one = fixture.ask(&HistoryQuery::Message {
        number: number(&whole[4]),
    });
    assert_eq!(one[0]["message"], texts[4]);
    assert!(
        fixture
            .ask(&HistoryQuery::Message { number: 1_000_000 })
            .is_empty()
    );
}
