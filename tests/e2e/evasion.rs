//! Servers that want to be taken for something else are seen, or what is not seen is reported.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::tap::{Capture, Tap};
use serde_json::json;

/// Calls after the handshake.
const CALLS: u32 = 20;
/// How long a server may take to start on a busy machine.
const START: Duration = Duration::from_secs(20);

/// A server with its client's ends of the wire.
struct Server {
    child: Child,
    output: Box<dyn Write>,
    input: BufReader<Box<dyn Read>>,
}

impl Server {
    /// Starts a script between two pipes.
    fn on_pipes(script: &str, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new("/usr/bin/python3")
            .arg(places::script(script)?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdin.take().context("its input")?;
        let input = child.stdout.take().context("its output")?;
        Ok(Self {
            child,
            output: Box::new(output),
            input: BufReader::new(Box::new(input)),
        })
    }

    /// Starts a script on one socket of a pair; its arguments follow from the number of the other.
    fn on_a_socket(script: &str, arguments: impl Fn(&str) -> Vec<String>) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let number = ours.as_raw_fd().to_string();
        let output: OwnedFd = theirs.try_clone()?.into();
        let child = Command::new("/usr/bin/python3")
            .arg(places::script(script)?)
            .args(arguments(&number))
            .stdin(OwnedFd::from(theirs))
            .stdout(output)
            .spawn()?;
        Ok(Self {
            child,
            output: Box::new(ours.try_clone()?),
            input: BufReader::new(Box::new(ours)),
        })
    }

    fn ask(&mut self, id: u32, method: &str) -> Result<()> {
        let params = match method {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "evaded", "version": "1"},
            }),
            _ => json!({"name": "help", "arguments": {"id": id}}),
        };
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.output.write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        self.input.read_line(&mut answer)?;
        ensure!(answer.contains("jsonrpc"), "answer {id}: {answer:?}");
        Ok(())
    }

    fn talk(&mut self) -> Result<()> {
        self.ask(0, "initialize")?;
        for id in 1..=CALLS {
            self.ask(id, "tools/call")?;
        }
        Ok(())
    }

    /// Ends it; returns its pid.
    fn end(self) -> Result<u32> {
        let Self {
            mut child,
            output,
            input,
        } = self;
        drop((output, input));
        child.wait()?;
        Ok(child.id())
    }
}

/// Whether every request and answer of the server was reported.
fn is_complete(capture: &Capture, server: u32) -> bool {
    let ids = |direction: &str| {
        capture
            .messages
            .iter()
            .filter(|message| message.direction == direction)
            .filter(|message| message.server_pid == Some(server))
            .filter_map(|message| message.id.as_ref()?.as_u64())
            .collect::<BTreeSet<_>>()
    };
    let all = (0..=u64::from(CALLS)).collect();
    ids("client_to_server") == all && ids("server_to_client") == all
}

fn is_told(capture: &Capture, server: u32) -> bool {
    capture.others.iter().any(|event| {
        event["type"] == "mcp_blind_spot"
            && event["server_pid"] == server
            && ["written_by_reader", "judged_not_mcp"]
                .iter()
                .any(|mechanism| event["mechanism"] == *mechanism)
    })
}

/// Runs a server that writes to its own input; all of its session and the trick are reported.
fn writes_to_its_own_input(how: Option<&str>, busy: usize) -> Result<()> {
    let files = tempfile::tempdir()?;
    let ready = files.path().join("ready");
    let ready_name = ready.display().to_string();
    let mut tap = Tap::start()?;
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let script = "python/selfwriter.py";
    let mut server = match how {
        Some(how) => Server::on_pipes(script, &[&ready_name, how])?,
        None => Server::on_a_socket(script, |number| vec![ready_name.clone(), number.to_owned()])?,
    };
    let deadline = Instant::now() + START;
    while !ready.exists() {
        ensure!(Instant::now() < deadline, "the server does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.talk()?;
    let pid = server.end()?;
    drop(busy);
    let heard = tap.wait_until(Duration::from_secs(20), "whole session", |capture| {
        is_complete(capture, pid) && is_told(capture, pid)
    });
    let finished = tap.finish()?;
    heard.with_context(|| {
        let capture = &finished.capture;
        format!("{:#?}\n{:#?}", capture.gaps, capture.others)
    })
}

#[test]
fn a_server_that_writes_to_its_own_pipe() -> Result<()> {
    writes_to_its_own_input(Some("self"), 0)
}

#[test]
fn a_server_that_writes_to_its_own_pipe_beside_busy_loops() -> Result<()> {
    writes_to_its_own_input(Some("self"), 6)
}

#[test]
fn a_server_that_writes_to_its_clients_socket() -> Result<()> {
    writes_to_its_own_input(None, 0)
}

/// Servers whose descriptors are not in the table of a main thread go on being held by the kernel, and
/// so by their sessions.
fn hides_its_wire(busy: usize) -> Result<()> {
    let mut tap = Tap::start()?;
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let mut servers = Vec::new();
    for how in ["mainless", "private", "far", "in-flight"] {
        let script = "python/hideout.py";
        servers.push((how, "pipes", Server::on_pipes(script, &[how])?));
        let on_a_socket = Server::on_a_socket(script, |_| vec![how.to_owned()])?;
        servers.push((how, "a socket", on_a_socket));
    }
    for (how, wire, server) in &mut servers {
        server
            .ask(0, "initialize")
            .with_context(|| format!("{how} on {wire}"))?;
    }
    // They stay away for so long that a sweep which trusts the process table forgets them.
    let mut pids = Vec::new();
    for (how, wire, mut server) in servers {
        for id in 1..=CALLS {
            server
                .ask(id, "tools/call")
                .with_context(|| format!("{how} on {wire}"))?;
        }
        pids.push((how, wire, server.end()?));
    }
    drop(busy);
    let heard = tap.wait_until(Duration::from_secs(20), "whole sessions", |capture| {
        pids.iter().all(|(_, _, pid)| is_complete(capture, *pid))
    });
    let finished = tap.finish()?;
    heard.with_context(|| {
        let capture = &finished.capture;
        let missed: Vec<_> = pids
            .iter()
            .filter(|(_, _, pid)| !is_complete(capture, *pid))
            .collect();
        format!("{missed:?}\n{:#?}\n{:#?}", capture.gaps, capture.others)
    })
}

#[test]
fn servers_that_hide_their_descriptors() -> Result<()> {
    hides_its_wire(0)
}

#[test]
fn servers_that_hide_their_descriptors_beside_busy_loops() -> Result<()> {
    hides_its_wire(6)
}

/// A server that executes itself anew under an excluded name goes on being seen.
#[test]
fn a_server_that_takes_an_excluded_name_later() -> Result<()> {
    let files = tempfile::tempdir()?;
    let config = files.path().join("config.toml");
    std::fs::write(
        &config,
        "[[discover.tag]]\naction = \"exclude\"\ncommand = \"left-alone$\"\n",
    )?;
    let config = config.display().to_string();
    for on_pipes in [true, false] {
        let mut tap = Tap::start_with(&["--config", &config])?;
        let script = "python/turncoat.py";
        let mut server = if on_pipes {
            Server::on_pipes(script, &["before"])?
        } else {
            Server::on_a_socket(script, |_| vec!["before".to_owned()])?
        };
        server.talk()?;
        let pid = server.end()?;
        let heard = tap.wait_until(Duration::from_secs(20), "whole session", |capture| {
            is_complete(capture, pid)
        });
        tap.finish()?;
        heard.with_context(|| format!("on pipes: {on_pipes}"))?;
    }
    Ok(())
}

/// The exclusion holds for a program that starts under the name.
#[test]
fn a_server_that_starts_with_an_excluded_name() -> Result<()> {
    let files = tempfile::tempdir()?;
    let config = files.path().join("config.toml");
    std::fs::write(
        &config,
        "[[discover.tag]]\naction = \"exclude\"\ncommand = \"left-alone$\"\n",
    )?;
    let tap = Tap::start_with(&["--config", &config.display().to_string()])?;
    let mut server = Server::on_pipes("python/turncoat.py", &["left-alone"])?;
    server.talk()?;
    let pid = server.end()?;
    let finished = tap.finish()?;
    let seen = finished
        .capture
        .messages
        .iter()
        .filter(|message| message.server_pid == Some(pid))
        .count();
    ensure!(seen == 0, "{seen} messages of an excluded server");
    Ok(())
}
