use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::testing::party;

use super::*;

const TO_SERVER: Direction = Direction::ClientToServer;
const TO_CLIENT: Direction = Direction::ServerToClient;
const SECOND: u64 = 1_000_000_000;
const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#;
const NONE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":null}}"#;

/// Both sides of a guard, and what is reported of them.
struct Both {
    guarded: Guarded,
    front: Script,
    back: Script,
    reported: Vec<String>,
}

fn guard() -> Party {
    let command = ["/usr/bin/mcpinspect", "guard", "--", "server"];
    Party {
        command: command.map(str::to_owned).to_vec(),
        ..party(10, 1000)
    }
}

impl Both {
    fn new() -> Self {
        let front = Script::new("front").processes(Some(guard()), Some(party(9, 1000)));
        let back = Script::new("back").processes(Some(party(11, 1000)), Some(guard()));
        let mut both = Self {
            guarded: Guarded::default(),
            front: front.paced(Timestamp(SECOND), 1000),
            back: back.paced(Timestamp(SECOND), 1000),
            reported: Vec::new(),
        };
        let starts = [both.front.start(), both.back.start()];
        for start in starts {
            both.pass(start);
        }
        assert_eq!(both.take(), ["back started"]);
        both
    }

    fn pass(&mut self, input: Input<'_>) {
        let reported = &mut self.reported;
        self.guarded
            .input(input, &mut |input| note(reported, &input));
    }

    fn front(&mut self, direction: Direction, text: &str) {
        let input = self.front.line(direction, text);
        self.pass(input);
    }

    fn back(&mut self, direction: Direction, text: &str) {
        let input = self.back.line(direction, text);
        self.pass(input);
    }

    fn at(&mut self, nanos: u64) {
        let reported = &mut self.reported;
        self.guarded
            .time(Timestamp(nanos), &mut |input| note(reported, &input));
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reported)
    }
}

fn note(reported: &mut Vec<String>, input: &Input<'_>) {
    let what = match input {
        Input::SessionStarted(_) => "started".to_owned(),
        Input::SessionEnded { .. } => "ended".to_owned(),
        Input::Bytes { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap().trim().to_owned(),
        Input::Message {
            bytes, position, ..
        } => {
            format!("{position} {}", String::from_utf8(bytes.to_vec()).unwrap())
        }
        other => format!("{other:?}"),
    };
    reported.push(format!("{} {what}", input.session()));
}

#[test]
fn what_both_sides_say_is_told_once() {
    let mut both = Both::new();
    both.front(TO_SERVER, LIST);
    both.back(TO_SERVER, LIST);
    both.back(TO_CLIENT, TOOLS);
    both.front(TO_CLIENT, TOOLS);
    // The kernel's records of one side may arrive later than the other's, and in pieces.
    let (head, tail) = LIST.split_at(20);
    both.front(TO_CLIENT, TOOLS);
    let piece = both.front.bytes(TO_SERVER, head.as_bytes()).into_owned();
    both.pass(piece);
    both.front(TO_SERVER, tail);
    both.back(TO_CLIENT, TOOLS);
    both.back(TO_SERVER, LIST);
    let ends = [
        both.front.end(EndReason::ClientClosed),
        both.back.end(EndReason::ClientClosed),
    ];
    for end in ends {
        both.pass(end);
    }
    both.at(60 * SECOND);
    let reported = both.take();
    assert_eq!(reported.len(), 5, "{reported:?}");
    assert!(
        reported.iter().all(|reported| reported.starts_with("back")),
        "{reported:?}"
    );
    assert!(both.guarded.guards.is_empty() && both.guarded.sessions.is_empty());
    assert_eq!((both.guarded.waiting, both.guarded.unfinished), (0, 0));
}

#[test]
fn what_the_guard_changed_is_told_with_its_request() {
    let mut both = Both::new();
    both.front(TO_SERVER, LIST);
    both.back(TO_SERVER, LIST);
    both.back(TO_CLIENT, TOOLS);
    both.front(TO_CLIENT, NONE);
    both.at(3 * SECOND);
    assert_eq!(both.take().len(), 2, "it may still come");
    both.at(5 * SECOND);
    let request = format!("front 0 {LIST}");
    assert_eq!(
        both.take(),
        ["front started", &request, &format!("front 0 {NONE}")]
    );
    // The next message on both sides is left out again.
    both.front(TO_CLIENT, TOOLS);
    let end = both.front.end(EndReason::ServerExited);
    both.pass(end);
    assert_eq!(both.take(), ["front ended"]);
}

#[test]
fn what_the_guard_kept_back_is_told() {
    let mut both = Both::new();
    both.front(TO_SERVER, LIST);
    both.front(TO_CLIENT, NONE);
    // The client has left, and the guard with it.
    let end = both.front.end(EndReason::ClientExited);
    both.pass(end);
    both.at(2 * SECOND);
    assert!(both.take().is_empty());
    both.at(60 * SECOND);
    let reported = [
        "front started".to_owned(),
        format!("front 0 {LIST}"),
        format!("front 0 {NONE}"),
        "front ended".to_owned(),
    ];
    assert_eq!(both.take(), reported);
}

/// A guard that says one thing twice has said it once in the server's name.
#[test]
fn each_message_stands_for_one() {
    let mut both = Both::new();
    both.back(TO_CLIENT, TOOLS);
    both.front(TO_CLIENT, TOOLS);
    both.front(TO_CLIENT, TOOLS);
    // Nor does what the client said count for what it received.
    both.front(TO_SERVER, TOOLS);
    let end = both.front.end(EndReason::MonitoringStopped);
    both.pass(end);
    let reported = both.take();
    assert_eq!(reported[1..].len(), 4, "{reported:?}");
    assert_eq!(reported[1], "front started");
}

#[test]
fn a_guard_without_a_server_hides_nothing_and_others_are_left_alone() {
    let mut guarded = Guarded::default();
    let mut reported = Vec::new();
    let mut alone = Script::new("alone").processes(Some(guard()), None);
    let mut other = Script::new("other").processes(Some(party(1, 1)), Some(party(2, 1)));
    let inputs = [
        alone.start(),
        other.start(),
        alone.line(TO_SERVER, LIST),
        other.line(TO_SERVER, LIST),
    ];
    for input in inputs {
        guarded.input(input, &mut |input| note(&mut reported, &input));
    }
    assert_eq!(reported, ["other started", &format!("other {LIST}")]);
    guarded.time(Timestamp(60 * SECOND), &mut |input| {
        note(&mut reported, &input)
    });
    assert_eq!(reported[2..], ["alone started", &format!("alone 0 {LIST}")]);
}

/// A guard that talks a lot but never reaches a server is reported without waiting for one.
#[test]
fn little_waits() {
    let mut both = Both::new();
    let long = format!(
        r#"{{"jsonrpc":"2.0","method":"x","params":"{}"}}"#,
        "y".repeat(1 << 20)
    );
    for _ in 0..80 {
        both.front(TO_CLIENT, &long);
    }
    assert!(both.guarded.waiting <= MAX_WAITING);
    assert!(both.take().len() > 10);
    let mut both = Both::new();
    for _ in 0..2 * MAX_MESSAGES {
        both.front(TO_CLIENT, "{}");
        both.back(TO_SERVER, "{}");
    }
    let front = both.guarded.guards.values().next().unwrap();
    assert!(front.waiting <= MAX_MESSAGES);
    assert!(
        front
            .reported_hashes
            .iter()
            .all(|heard| heard.len() <= MAX_MESSAGES)
    );
}

/// A daemon that starts in the middle of a message does not mistake the rest for one.
#[test]
fn the_rest_of_a_message_is_none() {
    let mut guarded = Guarded::default();
    let mut reported = Vec::new();
    let front = Script::new("front").processes(Some(guard()), None);
    let mut front = front.joined_midstream();
    let inputs = [
        front.start(),
        front.line(TO_SERVER, r#"{"name":"x"}}}"#),
        front.line(TO_SERVER, LIST),
    ];
    for input in inputs {
        guarded.input(input, &mut |input| note(&mut reported, &input));
    }
    guarded.time(Timestamp(60 * SECOND), &mut |input| {
        note(&mut reported, &input)
    });
    assert_eq!(reported, ["front started", &format!("front 0 {LIST}")]);
}

/// A guard of an HTTP server has a front and a back for each client.
#[test]
fn each_client_of_one_guard_is_told_once() {
    let mut guarded = Guarded::default();
    let mut reported = Vec::new();
    let side = |name: String, server, client| {
        let script = Script::new(&name).processes(Some(server), Some(client));
        script.paced(Timestamp(SECOND), 1000)
    };
    let count = 50;
    let mut fronts: Vec<_> = (0..count)
        .map(|at| side(format!("front{at:02}"), guard(), party(100 + at, 1000)))
        .collect();
    let mut backs: Vec<_> = (0..count)
        .map(|at| side(format!("back{at:02}"), party(11, 1000), guard()))
        .collect();
    let mut pass =
        |input: Input<'_>| guarded.input(input, &mut |input| note(&mut reported, &input));
    for script in fronts.iter_mut().chain(&mut backs) {
        pass(script.start());
    }
    let says = |at: u32| format!(r#"{{"jsonrpc":"2.0","id":{at},"method":"tools/list"}}"#);
    for (at, front) in fronts.iter_mut().enumerate() {
        // Every third client asks the same as others.
        pass(front.line(TO_SERVER, says(at as u32 / 3)));
    }
    // The guard keeps one client's words back.
    for (at, back) in backs
        .iter_mut()
        .enumerate()
        .rev()
        .filter(|(at, _)| *at != 31)
    {
        pass(back.line(TO_SERVER, says(at as u32 / 3)));
    }
    for script in fronts.iter_mut().chain(&mut backs) {
        pass(script.end(EndReason::ClientClosed));
    }
    guarded.time(Timestamp(60 * SECOND), &mut |input| {
        note(&mut reported, &input)
    });
    let of_fronts: Vec<_> = reported
        .iter()
        .filter(|reported| reported.starts_with("front"))
        .collect();
    assert_eq!(of_fronts.len(), 3, "{of_fronts:?}");
    assert!(of_fronts[1].contains(r#""id":10,"#), "{of_fronts:?}");
    assert_eq!(reported.len() - of_fronts.len(), 3 * count as usize - 1);
    assert!(guarded.guards.is_empty() && guarded.sessions.is_empty());
    assert_eq!((guarded.waiting, guarded.unfinished), (0, 0));
}
