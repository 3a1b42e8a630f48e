//! What a system call costs: with nothing attached, while the daemon watches others, and while it
//! watches this very process.
//!
//! The work is done by a process of its own. A watched one is an MCP server to the outside: it is
//! started with a pipe on each standard stream and answers a handshake. Then it writes notifications
//! to its own standard input and reads them back, so that both ends of a watched stream are timed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::fcntl::OFlag;
use nix::libc;

use super::Watching;
use super::stats::{Samples, grouped, head, row};

/// What the working process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Somebody who has just been started, with a pipe: the daemon looks at it for some seconds.
    Newcomer,
    /// Somebody whom the daemon has no business with.
    Bystander,
    /// An MCP server.
    Server,
}

/// How long until the daemon lets a process go that it has no business with: two of its sweeps.
const SETTLED: Duration = Duration::from_secs(7);

/// Where a server finds the writing end of its own standard input.
const OWN_INPUT: i32 = 9;

const WORK: [(&str, usize); 4] = [
    ("getppid", 20_000),
    ("write to /dev/null", 20_000),
    ("pipe write+read 300 B", 2_000),
    ("pipe write+read 64 KiB", 50),
];

/// Does all the work once and prints nanoseconds a call, one number a line.
pub fn work(part: Part) -> Result<()> {
    let (read, write) = match part {
        Part::Newcomer => nix::unistd::pipe2(OFlag::O_CLOEXEC)?,
        Part::Bystander => {
            std::thread::sleep(SETTLED);
            nix::unistd::pipe2(OFlag::O_CLOEXEC)?
        }
        Part::Server => {
            handshake()?;
            // SAFETY: the parent put these descriptors there for this process alone.
            unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(OWN_INPUT)) }
        }
    };
    // A 64 KiB message has to fit whole: nobody reads while this process writes.
    nix::fcntl::fcntl(&write, nix::fcntl::FcntlArg::F_SETPIPE_SZ(1 << 20))?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    let small = notification(300);
    let large = notification(65_536);
    let mut buffer = vec![0; 65_536];
    let mut through = |message: &[u8]| -> Result<()> {
        nix::unistd::write(&write, message)?;
        let mut left = message.len();
        while left > 0 {
            left -= nix::unistd::read(&read, &mut buffer)?;
        }
        Ok(())
    };
    let mut results = Vec::new();
    for (what, count) in WORK {
        // The pauses let the daemon catch up: its cost to others is in question, not its losses.
        std::thread::sleep(Duration::from_millis(60));
        let begun = Instant::now();
        for _ in 0..count {
            match what {
                "getppid" => {
                    // SAFETY: takes nothing and cannot fail.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                }
                "write to /dev/null" => {
                    nix::unistd::write(&null, &small)?;
                }
                "pipe write+read 300 B" => through(&small)?,
                _ => through(&large)?,
            }
        }
        results.push(begun.elapsed().as_nanos() as f64 / count as f64);
    }
    for result in results {
        eprintln!("{result}");
    }
    Ok(())
}

fn notification(size: usize) -> Vec<u8> {
    let mut line = mcpinspect_tests::peer::messages::notification(0, size - 1);
    line.push(b'\n');
    line
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cost","version":"1"}}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"cost","version":"1"}}}"#;
const DONE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The server's side; reads byte by byte, so that nothing is read ahead.
fn handshake() -> Result<()> {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    println!("{ANSWER}");
    line.clear();
    input.read_line(&mut line)?;
    ensure!(line.trim() == DONE, "the handshake went wrong: {line}");
    // Time for the daemon to decide that this is MCP.
    std::thread::sleep(Duration::from_millis(300));
    Ok(())
}

fn once(part: Part) -> Result<Vec<f64>> {
    let name = match part {
        Part::Newcomer => "newcomer",
        Part::Bystander => "bystander",
        Part::Server => "server",
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--part", name]).stderr(Stdio::piped());
    let mut child = if part != Part::Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?
    } else {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let own = write.as_raw_fd();
        use std::os::unix::process::CommandExt;
        // SAFETY: dup2 is all that happens between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::dup2(own, OWN_INPUT) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child = command.stdin(read).stdout(Stdio::piped()).spawn()?;
        let mut to_server = std::fs::File::from(write);
        writeln!(to_server, "{HELLO}")?;
        let mut answer = String::new();
        let output = child.stdout.as_mut().context("the server's output")?;
        BufReader::new(output).read_line(&mut answer)?;
        ensure!(
            answer.trim() == ANSWER,
            "the handshake went wrong: {answer}"
        );
        writeln!(to_server, "{DONE}")?;
        child
    };
    let mut text = String::new();
    child
        .stderr
        .take()
        .context("its results")?
        .read_to_string(&mut text)?;
    let status = child.wait()?;
    ensure!(status.success(), "the {name} ended with {status}: {text}");
    let results = text.lines().map(|line| line.parse().context("no number"));
    results.collect()
}

/// Measures all conditions in turn, and prints the table.
pub fn measure(rounds: usize) -> Result<()> {
    let conditions = [
        ("nothing attached", false, Part::Newcomer),
        (
            "daemon running, process not involved",
            true,
            Part::Bystander,
        ),
        ("daemon running, process just started", true, Part::Newcomer),
        ("daemon running, both ends captured", true, Part::Server),
    ];
    let mut samples = vec![vec![Samples::default(); WORK.len()]; conditions.len()];
    for _ in 0..rounds {
        for ((_, watched, part), samples) in conditions.iter().zip(&mut samples) {
            let _daemon = watched.then(Watching::start).transpose()?;
            for _ in 0..3 {
                for (sample, samples) in once(*part)?.into_iter().zip(samples.iter_mut()) {
                    samples.push(sample);
                }
            }
        }
    }
    println!("Nanoseconds a call, minimum / median\n");
    let columns: Vec<&str> = std::iter::once("")
        .chain(WORK.map(|(what, _)| what))
        .collect();
    head(&columns);
    for ((name, _, _), samples) in conditions.iter().zip(&samples) {
        let cell = |s: &Samples| format!("{} / {}", grouped(s.minimum()), grouped(s.median()));
        let cells = samples.iter().map(cell);
        row(&std::iter::once((*name).to_owned())
            .chain(cells)
            .collect::<Vec<_>>());
    }
    println!();
    Ok(())
}
