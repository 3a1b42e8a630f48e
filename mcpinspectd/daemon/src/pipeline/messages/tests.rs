use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use mcpinspect_core::model::Direction;
use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::model::{ContainmentAction, InputSink as _};
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_engine::event::Body;
use mcpinspect_engine::{Engine, Limits, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::policy::Policy;
use mcpinspect_judge::registry::Registry;
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_runtime::queue::{Dropped, Received};

use super::*;
use crate::control::channel;
use crate::pipeline::testing::TestHost;
use crate::pipeline::{Pipeline, ShadowPolicy};

/// Marks an event, in place of a message's number.
const EVENT: u64 = u64::MAX;

/// Number, weight, and whether it is a member, for everything that passes.
#[derive(Default)]
struct Sent(Vec<(u64, usize, bool)>);

impl OutputSink for Sent {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                let weight = MessageQueue::weight(message, false);
                self.0.push((message.frame.sequence, weight, false));
            }
            Output::Member(member) => {
                let weight = MessageQueue::weight(member, true);
                self.0.push((member.frame.sequence, weight, true));
            }
            Output::Event(event) => self.0.push((EVENT, event.body.size(), false)),
            _ => {}
        }
    }
}

/// A pipeline with a consumer of messages, and one session.
struct Daemon {
    pipeline: Pipeline<Sent, TestHost>,
    script: Script,
    receiver: Receiver<Record>,
}

impl Daemon {
    fn new(items: usize, bytes: usize) -> Self {
        let (messages, receiver) = message_queue(Bounds { items, bytes });
        let registry = Registry::in_memory();
        let engine = Engine::new(Limits::default(), registry, Box::new(NoDetector));
        let (_, requests) = channel(Notifier::default());
        let pipeline = Pipeline::new(engine, Sent::default(), requests, TestHost::default())
            .with_messages(messages);
        let mut daemon = Self {
            pipeline,
            script: Script::new("files"),
            receiver,
        };
        daemon.pipeline.input(daemon.script.start());
        daemon
    }

    fn say(&mut self, direction: Direction, text: &str) {
        self.pipeline.input(self.script.line(direction, text));
    }

    /// Ends the pipeline. Returns the messages that the consumer then receives.
    fn taken(mut self) -> Vec<Received<MessageRecord>> {
        drop(self.pipeline);
        let all = std::iter::from_fn(|| self.receiver.blocking_recv());
        all.filter_map(message).collect()
    }
}

/// A received message; `None` for anything else.
fn message(received: Received<Record>) -> Option<Received<MessageRecord>> {
    Some(match received {
        Received::Item(Record::Message(message)) => Received::Item(message),
        Received::Item(_) => return None,
        Received::Dropped(dropped) => Received::Dropped(dropped),
        Received::Woken => Received::Woken,
    })
}

fn ping(id: usize, padding: usize) -> String {
    let padding = "x".repeat(padding);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"x":"{padding}"}}}}"#)
}

/// Dropped and received messages together, in order, are exactly what was sent.
#[test]
fn a_slow_consumer_gets_a_part_and_knows_of_the_rest() {
    const HEAD_START: usize = 200;
    let (go, start) = mpsc::channel();
    let Daemon {
        mut pipeline,
        mut script,
        mut receiver,
    } = Daemon::new(64, 16 << 10);
    let consumer = thread::spawn(move || {
        let mut taken = Vec::new();
        start.recv().unwrap();
        while let Some(received) = receiver.blocking_recv() {
            taken.push(received);
            if taken.len() % 16 == 0 {
                // A disk that is slower than the pipeline.
                thread::sleep(Duration::from_millis(1));
            }
        }
        taken
    });
    for index in 0..3000 {
        if index == HEAD_START {
            go.send(()).unwrap();
        }
        let message = match index % 50 {
            49 => format!("[{},{},7]", ping(index, 10), ping(index + 1, index % 500)),
            _ => ping(index, index % 700),
        };
        pipeline.input(script.line(Up, message));
    }
    let Pipeline {
        output, messages, ..
    } = pipeline;
    drop(messages);

    let mut sent = output.0.iter();
    let (mut read, mut lost) = (0, 0);
    for received in consumer.join().unwrap() {
        match received {
            Received::Item(record) => {
                let (sequence, _, is_member) = sent.next().unwrap();
                let found = match record {
                    Record::Message(message) => (message.frame.sequence, message.body.is_none()),
                    Record::Event(_) | Record::Overdue(_) => (EVENT, false),
                };
                assert_eq!(found, (*sequence, *is_member));
                read += 1;
            }
            Received::Dropped(Dropped { items, bytes }) => {
                let missing = sent.by_ref().take(usize::try_from(items).unwrap());
                let weights: Vec<u64> = missing.map(|(_, weight, _)| *weight as u64).collect();
                assert_eq!((weights.len() as u64, weights.iter().sum()), (items, bytes));
                lost += weights.len();
            }
            Received::Woken => panic!("nobody woke it"),
        }
    }
    assert_eq!(sent.next(), None);
    assert_eq!(read + lost, output.0.len());
    assert!(read > 0 && lost >= HEAD_START - 64, "{read} {lost}");
}

#[test]
fn records_hold_what_was_seen() {
    let mut daemon = Daemon::new(100, 1 << 20);
    let call = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"read"}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":"a","result":{"isError":true,"content":[]}}"#;
    daemon.say(Up, call);
    daemon.say(Down, &format!("[{answer}]"));
    daemon.say(Down, "noise");
    let taken = daemon.taken();
    let records: Vec<&MessageRecord> = taken
        .iter()
        .map(|received| match received {
            Received::Item(record) => record,
            other => panic!("{other:?}"),
        })
        .collect();
    let [request, batch, member, noise] = records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(
        (&*request.session.id.0, &*request.session.server_id.0),
        ("files", "files")
    );
    assert_eq!(
        (
            request.frame.direction,
            request.frame.sequence,
            request.frame.position
        ),
        (Up, 1, 0)
    );
    assert_eq!(request.head.kind, MessageKind::Request);
    assert_eq!(request.head.method.as_deref(), Some("tools/call"));
    assert_eq!(request.head.id.as_deref(), Some(r#""a""#));
    assert_eq!(request.exchange.tool.as_deref(), Some("read"));
    assert_eq!(request.body.as_deref(), Some(call.as_bytes()));
    assert_eq!(
        (batch.head.kind, batch.frame.sequence),
        (MessageKind::Batch, 2)
    );
    assert_eq!(
        batch.body.as_ref().map(|body| body.len()),
        Some(answer.len() + 2)
    );
    assert_eq!(
        (member.head.kind, member.frame.sequence, &member.body),
        (MessageKind::Response, 2, &None)
    );
    let answers = member.exchange.answers.as_ref();
    assert_eq!(answers.map(|request| request.sequence), Some(1));
    assert_eq!(member.exchange.latency_ns, Some(1));
    assert_eq!(member.exchange.reply_to(), Some("tools/call"));
    assert!(member.exchange.is_error && member.frame.time > request.frame.time);
    assert_eq!(noise.head.invalid_reason, Some("not_json"));
    assert_eq!(noise.frame.position, answer.len() as u64 + 3);
}

#[test]
fn a_batch_that_is_dropped_takes_its_members_with_it() {
    // The session's start waits as well.
    let mut daemon = Daemon::new(100, 150 + size_of::<Body>());
    daemon.say(Up, &ping(1, 0));
    daemon.say(Up, &format!("[{},{}]", ping(2, 50), ping(3, 50)));
    daemon.say(Up, &ping(4, 0));
    let sent = daemon.pipeline.output.0.clone();
    let missing: usize = sent[2..5].iter().map(|(_, weight, _)| weight).sum();
    let expected = Received::Dropped(Dropped {
        items: 3,
        bytes: missing as u64,
    });
    let taken = daemon.taken();
    assert_eq!(taken.len(), 3, "{taken:?}");
    assert_eq!(taken[1], expected);
    assert!(matches!(&taken[2], Received::Item(record) if record.frame.sequence == 3));
}

#[test]
fn a_call_that_a_later_input_finds_overdue_is_counted_and_copied() {
    let rules = "[[rule]]\nid = 'calls'\nwhen = { method = 'tools/call' }\naction = 'log'";
    let files = [("p.toml".to_owned(), rules.to_owned())];
    let policy = ShadowPolicy {
        policy: Arc::new(Policy::compile(&files).unwrap()),
        zone: TimeZone::UTC,
        users: HashMap::new(),
    };
    let mut daemon = Daemon::new(100, 1 << 20);
    daemon.pipeline.set_policy(Some(policy));
    let freeze = Some(ContainmentAction::Freeze);
    daemon
        .pipeline
        .set_containment(ContainmentPolicy::new(freeze, None));
    daemon.say(
        Up,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#,
    );
    daemon.script.wait(61_000_000_000);
    daemon.say(Up, &ping(2, 0));
    assert_eq!(daemon.pipeline.snapshot().calls.overdue(), 1);
    drop(daemon.pipeline);
    let mut copied = Vec::new();
    while let Some(received) = daemon.receiver.blocking_recv() {
        copied.push(match received {
            Received::Item(Record::Message(message)) => message.head.method.unwrap().into_owned(),
            Received::Item(Record::Overdue(overdue)) => format!("overdue {}", overdue.sequence),
            Received::Item(Record::Event(event)) => event.kind().name().to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(
        copied,
        [
            "mcp_session_started",
            "tools/call",
            "mcp_rule_matched",
            "overdue 1",
            "mcp_call_hung",
            "ping"
        ]
    );
}
