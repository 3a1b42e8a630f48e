//! A daemon that starts in the middle of sessions sees each of them as one, in both directions from the
//! next message on, whatever is under way at that moment.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::tap::{Capture, Tap};
use serde_json::json;

/// Starts of the daemon in the middle of things. `MCPINSPECT_ATTACHES` sets another number.
const ATTACHES: u32 = 5;
/// How long it listens.
const LISTEN: Duration = Duration::from_millis(2500);
/// Bytes of a request or an answer: some are under way at any moment.
const SIZES: [usize; 4] = [10, 2_000, 20_000, 90_000];

/// How a session's ends are connected.
#[derive(Clone, Copy, Debug)]
enum Wire {
    Pipes,
    /// Pipes that the server moves to other descriptors.
    MovedPipes,
    OneSocketPair,
    TwoSocketPairs,
}

/// What goes on in a session.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// A message is under way more often than not.
    Full,
    /// Both sides wait in a read most of the time.
    Sparse,
}

/// A session that goes on until it is stopped.
struct Steady {
    name: String,
    child: Child,
    stop: Arc<AtomicBool>,
    talk: JoinHandle<Result<()>>,
}

type Ends = (Child, Box<dyn Write + Send>, Box<dyn Read + Send>);

fn connect(wire: Wire) -> Result<Ends> {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(places::script("python/steady.py")?);
    match wire {
        Wire::Pipes | Wire::MovedPipes => {
            if matches!(wire, Wire::MovedPipes) {
                command.arg("moved");
            }
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let output = child.stdin.take().context("its input")?;
            let input = child.stdout.take().context("its output")?;
            Ok((child, Box::new(output), Box::new(input)))
        }
        Wire::OneSocketPair => {
            let (ours, theirs) = UnixStream::pair()?;
            let output: OwnedFd = theirs.try_clone()?.into();
            let child = command
                .stdin(OwnedFd::from(theirs))
                .stdout(output)
                .spawn()?;
            Ok((child, Box::new(ours.try_clone()?), Box::new(ours)))
        }
        Wire::TwoSocketPairs => {
            let (output, its_input) = UnixStream::pair()?;
            let (input, its_output) = UnixStream::pair()?;
            let child = command
                .stdin(OwnedFd::from(its_input))
                .stdout(OwnedFd::from(its_output))
                .spawn()?;
            Ok((child, Box::new(output), Box::new(input)))
        }
    }
}

impl Steady {
    fn start(wire: Wire, traffic: Traffic, seed: u64) -> Result<Self> {
        let (child, output, input) = connect(wire)?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let talk = std::thread::spawn(move || talk(output, input, traffic, seed, &stopped));
        Ok(Self {
            name: format!("{wire:?}, {traffic:?}"),
            child,
            stop,
            talk,
        })
    }

    /// Ends it; it must have gone well all the time.
    fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        let talked = self.talk.join().ok().context("the client panicked")?;
        self.child.wait()?;
        talked
    }
}

/// The client: one request after another.
fn talk(
    mut output: Box<dyn Write + Send>,
    input: Box<dyn Read + Send>,
    traffic: Traffic,
    seed: u64,
    stop: &AtomicBool,
) -> Result<()> {
    let mut input = BufReader::new(input);
    let mut random = seed;
    let mut next = move |below: u64| {
        // Knuth's MMIX generator: any spread will do, and the seed repeats it.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut id = 0u64;
    while !stop.load(Ordering::Acquire) {
        let mut size = || SIZES[next(SIZES.len() as u64) as usize];
        let request = match id {
            0 => json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "steady", "version": "1"},
            }}),
            _ => json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "fill",
                "arguments": {"wanted": size(), "padding": "x".repeat(size())},
            }}),
        };
        output.write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        input.read_line(&mut answer)?;
        ensure!(answer.contains("jsonrpc"), "no answer to {id}");
        id += 1;
        // Faster than this, and the question is what the ring holds.
        let pause = match traffic {
            Traffic::Full => next(20),
            Traffic::Sparse => 300 + next(200),
        };
        std::thread::sleep(Duration::from_millis(pause));
    }
    Ok(())
}

/// What is wrong with how a server's session was reported, if anything is.
fn fault(capture: &Capture, server: u32) -> Option<String> {
    let of_server = || {
        capture
            .messages
            .iter()
            .filter(|message| message.server_pid == Some(server))
    };
    let sessions: BTreeSet<&str> = of_server()
        .map(|message| message.session_id.as_str())
        .collect();
    let [session] = Vec::from_iter(sessions)[..] else {
        return Some("not one session".to_owned());
    };
    // The rest of a message that was under way is missing, and nothing else.
    let gaps = capture.gaps.iter().filter(|gap| gap.session_id == session);
    let gaps: Vec<_> = gaps
        .map(|gap| (&gap.direction, &gap.reason, gap.bytes_lost))
        .collect();
    let span = |direction: &str| -> Result<(u64, u64), String> {
        let ids: Vec<u64> = of_server()
            .filter(|message| message.direction == direction)
            .filter_map(|message| message.id.as_ref()?.as_u64())
            .collect();
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else {
            return Err(format!("nothing {direction}"));
        };
        if ids.len() as u64 != last - first + 1 {
            let ids = BTreeSet::from_iter(ids);
            let missing: Vec<u64> = (first..=last).filter(|id| !ids.contains(id)).collect();
            let streams = capture.streams.as_deref().unwrap_or_default();
            let ledger = streams
                .iter()
                .find(|stream| stream.session_id == session && stream.direction == direction);
            return Err(format!(
                "{direction}: {first} to {last} without {missing:?}, {gaps:?}, {ledger:?}"
            ));
        }
        Ok((first, last))
    };
    let (requests, answers) = match (span("client_to_server"), span("server_to_client")) {
        (Ok(requests), Ok(answers)) => (requests, answers),
        (Err(fault), _) | (_, Err(fault)) => return Some(fault),
    };
    let apart = requests.0.abs_diff(answers.0) > 1 || requests.1.abs_diff(answers.1) > 1;
    apart.then(|| format!("requests {requests:?}, answers {answers:?}, {gaps:?}"))
}

/// Whether records of a server's sessions were lost because the ring was full, as the capture says.
fn lost_records(capture: &Capture, server: u32) -> bool {
    let mut gaps = capture.gaps.iter();
    gaps.any(|gap| {
        let mut messages = capture.messages.iter();
        gap.reason == "ring_full"
            && messages.any(|message| {
                message.server_pid == Some(server) && message.session_id == gap.session_id
            })
    })
}

fn attach_again_and_again(busy: usize) -> Result<()> {
    let attaches = match std::env::var("MCPINSPECT_ATTACHES") {
        Ok(number) => number.parse().context("MCPINSPECT_ATTACHES")?,
        Err(_) => ATTACHES,
    };
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let wires = [
        Wire::Pipes,
        Wire::MovedPipes,
        Wire::OneSocketPair,
        Wire::TwoSocketPairs,
    ];
    let mut sessions = Vec::new();
    for (seed, wire) in (1..).zip(wires) {
        sessions.push(Steady::start(wire, Traffic::Full, seed)?);
        sessions.push(Steady::start(wire, Traffic::Sparse, seed + 100)?);
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut faults = Vec::new();
    let mut lossy = 0;
    for attach in 0..attaches {
        let tap = Tap::start()?;
        std::thread::sleep(LISTEN);
        let capture = tap.finish()?.capture;
        for session in &sessions {
            // A daemon that gets no processor beside traffic in full flow loses records, and says so. How
            // sessions are joined does not show there.
            if lost_records(&capture, session.child.id()) {
                lossy += 1;
                continue;
            }
            if let Some(fault) = fault(&capture, session.child.id()) {
                faults.push(format!("attach {attach}, {}: {fault}", session.name));
            }
        }
    }
    let judged = attaches as usize * sessions.len();
    // A machine that should be quiet has something else to do now and then.
    let most = if busy.is_empty() {
        judged / 20
    } else {
        judged / 4
    };
    for session in sessions {
        let name = session.name.clone();
        session.end().context(name)?;
    }
    drop(busy);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    ensure!(lossy <= most, "{lossy} of {judged} sessions lost records");
    Ok(())
}

#[test]
fn sessions_under_way_are_joined_whole() -> Result<()> {
    attach_again_and_again(0)
}

#[test]
fn sessions_under_way_are_joined_whole_beside_busy_loops() -> Result<()> {
    attach_again_and_again(6)
}
