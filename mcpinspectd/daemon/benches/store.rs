//! What the message store achieves: messages a second to disk, their size there, and how long questions take.
//!
//! `cargo bench -p mcpinspectd --bench store`. `MESSAGES` sets how many are written (100,000), `RATE` how many a
//! second are offered (20,000). Nothing may be dropped at a rate that the store can bear: what is lost is printed.
//! `TRAFFIC` names a file of recorded sessions, a JSON object a line (`{"messages": [{"server", "direction",
//! "message"}]}`), and measures what they take on disk, [`SESSIONS`] at a time, `RATE` messages a second.
//! `GIGABYTES` makes a second store of that size (none by default) and measures how long it takes to open.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to measure"
)]

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mcpinspect_core::model::Direction::{ClientToServer, ServerToClient};
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::Event;
use mcpinspect_engine::history::{
    HistoryQuery, HistoryReader as _, RecordedMessage, Search, Viewer,
};
use mcpinspect_engine::retention::{Retention, RetentionRules, StoredContent};
use mcpinspect_engine::{Engine, Limits};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;
use mcpinspect_runtime::queue::Bounds;
use mcpinspect_store::messages::{Recorder, Settings, StoreFile};
use mcpinspectd::pipeline::message_queue;
use serde_json::json;

/// Sessions that speak in turn.
const SESSIONS: usize = 20;
/// Different words in all messages.
const WORDS: u64 = 20_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("messages.db");
    let exchanges = number("MESSAGES", 100_000) / 2;
    write(&path, exchanges, number("RATE", 20_000));
    ask(&path);
    open(&path);
    if let Ok(file) = std::env::var("TRAFFIC") {
        record(
            &folder.path().join("traffic.db"),
            &file,
            number("RATE", 20_000),
        );
    }
    let gigabytes = number("GIGABYTES", 0);
    if gigabytes > 0 {
        let path = folder.path().join("large.db");
        fill(&path, gigabytes << 30);
        open(&path);
    }
}

/// Opens a store as the daemon does when it starts. The recorder opens it on a thread of its own, whose end
/// is waited for.
fn open(path: &Path) {
    let size = std::fs::metadata(path).unwrap().len();
    let start = Instant::now();
    drop(recorder(path).unwrap());
    println!(
        "{} MiB opened and closed in {:?}",
        size >> 20,
        start.elapsed()
    );
}

/// Writes messages that hardly compress until the store has this size.
fn fill(path: &Path, bytes: u64) {
    const LETTERS: &[u8] = b"!#$%&()*+,-./:;<=>?@[]^_{|}~' `.";
    const LENGTH: usize = 512 << 10;
    let (mut queue, records) = message_queue(bounds());
    let recorder = Recorder::start(settings(path), records, |_| {}).unwrap();
    let mut engine = Engine::new(
        Limits::default(),
        Registry::in_memory(),
        Box::new(NoDetector),
    );
    let mut script = Script::new("large").paced(Timestamp::now(), 1000);
    engine.handle(script.start(), &mut queue);
    let (mut dice, mut number) = (7_u64, 0);
    // The recorder makes the file in its own time.
    while std::fs::metadata(path).map_or(0, |file| file.len()) < bytes {
        number += 1;
        let noise = std::iter::repeat_with(|| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(LETTERS[usize::try_from(dice >> 59).unwrap()])
        });
        let text: String = noise.take(LENGTH).collect();
        let note =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}});
        engine.handle(script.line(ServerToClient, note.to_string()), &mut queue);
        // Ahead of the disk by a few at most, so that none is dropped.
        std::thread::sleep(Duration::from_millis(4));
    }
    drop(queue);
    drop(recorder);
    println!("{number} large messages");
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn bounds() -> Bounds {
    Bounds {
        items: 16_384,
        bytes: 16 << 20,
    }
}

fn settings(path: &Path) -> Settings {
    Settings {
        path: path.to_owned(),
        max_size: 8 << 30,
        rules: RetentionRules {
            default: Retention {
                content: StoredContent::Redacted,
                days: 30,
            },
            rules: Vec::new(),
        },
    }
}

/// Opens the store, with a queue at whose other end nobody is.
fn recorder(path: &Path) -> std::io::Result<Recorder> {
    let (queue, records) = message_queue(bounds());
    drop(queue);
    Recorder::start(settings(path), records, |_| {})
}

fn write(path: &Path, exchanges: u64, rate: u64) {
    let (mut queue, records) = message_queue(bounds());
    let (tell, events) = mpsc::channel::<Event>();
    let recorder = Recorder::start(settings(path), records, move |event| {
        let _ = tell.send(event);
    })
    .unwrap();
    let mut engine = Engine::new(
        Limits::default(),
        Registry::in_memory(),
        Box::new(NoDetector),
    );
    let mut scripts: Vec<Script> = (0..SESSIONS)
        .map(|number| Script::new(&format!("server-{number}")).paced(Timestamp::now(), 1000))
        .collect();
    for script in &scripts {
        engine.handle(script.start(), &mut queue);
    }
    let mut writer = Writer::new();
    let start = Instant::now();
    let mut raw = 0;
    for number in 0..exchanges {
        let script = &mut scripts[usize::try_from(number).unwrap() % SESSIONS];
        for (direction, text) in writer.exchange(number) {
            raw += text.len();
            engine.handle(script.line(direction, &text), &mut queue);
        }
        let due = Duration::from_secs_f64((2 * number) as f64 / rate as f64);
        if let Some(early) = due.checked_sub(start.elapsed())
            && early > Duration::from_millis(2)
        {
            std::thread::sleep(early);
        }
    }
    drop(queue);
    drop(recorder);
    let took = start.elapsed();
    let size = std::fs::metadata(path).unwrap().len();
    let messages = 2 * exchanges;
    println!(
        "{messages} messages, {} bytes each, in {took:?}: {:.0}/s; {} MiB on disk, {:.2} of what was said",
        raw as u64 / messages,
        messages as f64 / took.as_secs_f64(),
        size >> 20,
        size as f64 / raw as f64
    );
    for event in events {
        println!("{}", serde_json::to_string(&event).unwrap());
    }
}

/// A recorded session, replayed message by message.
struct Recorded {
    script: Script,
    messages: std::vec::IntoIter<(mcpinspect_core::model::Direction, String)>,
}

/// Records the sessions of a file: those of one client with several servers are one for each server.
fn record(path: &Path, file: &str, rate: u64) {
    let (mut queue, records) = message_queue(bounds());
    let recorder = Recorder::start(settings(path), records, |_| {}).unwrap();
    let mut engine = Engine::new(
        Limits::default(),
        Registry::in_memory(),
        Box::new(NoDetector),
    );
    let text = std::fs::read_to_string(file).unwrap();
    let mut waiting = text.lines().flat_map(sessions);
    let mut open: VecDeque<Recorded> = VecDeque::new();
    let (mut raw, mut count) = (0, 0_u64);
    let start = Instant::now();
    loop {
        while open.len() < SESSIONS
            && let Some(session) = waiting.next()
        {
            engine.handle(session.script.start(), &mut queue);
            open.push_back(session);
        }
        let Some(mut session) = open.pop_front() else {
            break;
        };
        let Some((direction, text)) = session.messages.next() else {
            continue;
        };
        raw += text.len();
        count += 1;
        engine.handle(session.script.line(direction, &text), &mut queue);
        open.push_back(session);
        let due = Duration::from_secs_f64(count as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    drop(queue);
    drop(recorder);
    let size = std::fs::metadata(path).unwrap().len();
    println!(
        "{count} recorded messages, {} bytes each: {} KiB on disk, {:.2} of what was said",
        raw as u64 / count.max(1),
        size >> 10,
        size as f64 / raw as f64
    );
}

fn sessions(line: &str) -> Vec<Recorded> {
    let conversation: serde_json::Value = serde_json::from_str(line).unwrap();
    let mut by_server: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for said in conversation["messages"].as_array().unwrap() {
        let direction = match said["direction"].as_str().unwrap() {
            "client_to_server" => ClientToServer,
            _ => ServerToClient,
        };
        let server = said["server"].as_str().unwrap().to_owned();
        let messages = by_server.entry(server).or_default();
        messages.push((direction, said["message"].to_string()));
    }
    let paced = |(server, messages): (String, Vec<_>)| Recorded {
        script: Script::new(&server).paced(Timestamp::now(), 1000),
        messages: messages.into_iter(),
    };
    by_server.into_iter().map(paced).collect()
}

/// Writes calls and answers of words, of which some are common.
struct Writer {
    words: Vec<String>,
    dice: u64,
}

impl Writer {
    fn new() -> Self {
        Self {
            words: (0..WORDS)
                .map(|number| format!("w{:x}", number * number + 77))
                .collect(),
            dice: 7,
        }
    }

    fn sentence(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005) + 1;
            let index = ((self.dice >> 33) % WORDS) * ((self.dice >> 13) % WORDS) / WORDS;
            text.push_str(&self.words[usize::try_from(index).unwrap()]);
            text.push(' ');
        }
        text
    }

    fn exchange(&mut self, number: u64) -> [(mcpinspect_core::model::Direction, String); 2] {
        let note = if number == 1234 { "needle" } else { "hay" };
        let call = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": format!("tool_{}", number % 17),
            "arguments": {
                "path": format!("/srv/data/reports/{}/{number}.txt", number % 97),
                "query": self.sentence(6),
                "note": note,
            },
            "_meta": {"progressToken": number}}});
        let answer = json!({"jsonrpc": "2.0", "id": number, "result": {
            "content": [{"type": "text", "text": self.sentence(60)}],
            "isError": number.is_multiple_of(50)}});
        [
            (ClientToServer, call.to_string()),
            (ServerToClient, answer.to_string()),
        ]
    }
}

fn ask(path: &Path) {
    let search = |search: Search| {
        HistoryQuery::Search(Search {
            limit: 50,
            ..search
        })
    };
    let text = |text: &str| Search {
        text: text.to_owned(),
        ..Search::default()
    };
    let of = |server: &str, search: Search| Search {
        server: Some(server.to_owned()),
        ..search
    };
    let recent = Search {
        since: Some(Timestamp::now().0 - 3_600_000_000_000),
        ..Search::default()
    };
    let failed = Search {
        error: true,
        ..Search::default()
    };
    let everything = HistoryQuery::Statistics {
        server: None,
        days: None,
    };
    let latest = |session: Option<String>| HistoryQuery::Latest {
        session,
        after: None,
        before: None,
        limit: 200,
    };
    let newest = StoreFile::new(path).query_history(&latest(None), Viewer::All);
    let newest: RecordedMessage = serde_json::from_str(&newest.unwrap()[0]).unwrap();
    for (name, question) in [
        ("rare word", search(text("needle"))),
        ("common word", search(text("hay reports"))),
        ("three common words", search(text("hay reports w4d data"))),
        ("server and time", search(of("server-3", recent))),
        (
            "unknown server, common word",
            search(of("none", text("hay"))),
        ),
        ("errors", search(failed)),
        ("statistics", everything),
        ("latest of all", latest(None)),
        ("latest of a session", latest(Some(newest.session_id))),
    ] {
        let start = Instant::now();
        let rows = StoreFile::new(path)
            .query_history(&question, Viewer::All)
            .unwrap();
        println!("{name}: {} rows in {:?}", rows.len(), start.elapsed());
    }
}
