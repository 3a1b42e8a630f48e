//! Many short sessions at once, whose clients write before their servers are there.
//!
//! `swarm PROGRAMS SESSIONS AT_ONCE SEED` holds that many sessions, that many at a time, with servers
//! `tiny-0`, `tiny-1` and so on in the folder PROGRAMS. These are this program too: by such a name it
//! serves. A session is an `initialize` and a `tools/list`. Its client begins to write while the
//! server is being executed, in single bytes, tokens, vectors or whole lines, and at its own pace;
//! the server reads and answers in one of these ways. What is done in which session follows from the
//! seed.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// By which a server learns in which way it writes and reads.
const WAYS: &str = "SWARM_WAYS";

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"swarm","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os();
    let own = PathBuf::from(arguments.next().context("no name")?);
    let name = own.file_name().context("no name")?.to_string_lossy();
    if name.starts_with("tiny-") {
        return serve(&name);
    }
    let programs = PathBuf::from(arguments.next().context("no folder")?);
    let numbers: Vec<u64> = arguments
        .map(|argument| Ok(argument.to_string_lossy().parse()?))
        .collect::<Result<_>>()?;
    let [sessions, at_once, seed] = numbers[..] else {
        bail!("swarm PROGRAMS SESSIONS AT_ONCE SEED");
    };
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let hold = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= sessions {
                    return Ok(());
                }
                let program = programs.join(format!("tiny-{number}"));
                let mut dice = Dice::new(seed.wrapping_add(number));
                converse(&program, &mut dice).with_context(|| format!("session {number}"))?;
            }
        };
        let holders: Vec<_> = (0..at_once).map(|_| scope.spawn(hold)).collect();
        holders.into_iter().try_for_each(|holder| {
            holder
                .join()
                .map_err(|_| anyhow::anyhow!("a session panicked"))?
        })
    })
}

/// Numbers that look random and follow from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// In which portions a line is written.
#[derive(Clone, Copy)]
enum Way {
    Bytes,
    /// As a JSON writer without a buffer does.
    Tokens,
    /// Several tokens per call.
    Vectors,
    Line,
}

impl Way {
    fn of(number: u64) -> Self {
        match number % 4 {
            0 => Self::Bytes,
            1 => Self::Tokens,
            2 => Self::Vectors,
            _ => Self::Line,
        }
    }

    /// Writes a line, with a pause behind each call.
    fn say(self, output: &mut impl Write, line: &str, pause: Duration) -> Result<()> {
        let line = format!("{line}\n");
        let mut tokens: Vec<&str> = line.split_inclusive(['"', ',', '{', '}', ':']).collect();
        match self {
            Self::Bytes => tokens = line.split_inclusive(|_| true).collect(),
            Self::Line => tokens = vec![&line],
            Self::Tokens | Self::Vectors => {}
        }
        let per_call = if matches!(self, Self::Vectors) { 5 } else { 1 };
        for call in tokens.chunks(per_call) {
            if let [token] = call {
                output.write_all(token.as_bytes())?;
            } else {
                let vector: Vec<_> = call
                    .iter()
                    .map(|part| IoSlice::new(part.as_bytes()))
                    .collect();
                let length: usize = call.iter().map(|part| part.len()).sum();
                ensure!(output.write_vectored(&vector)? == length, "a short write");
            }
            rest(pause);
        }
        Ok(())
    }
}

/// Does nothing for a time that is too short to sleep.
fn rest(pause: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < pause {
        std::hint::spin_loop();
    }
}

/// Reads a line, `buffer` bytes at most per call. Behind it comes nothing yet.
fn hear(input: &mut impl Read, buffer: usize, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    let mut bytes = vec![0; buffer];
    while line.last() != Some(&b'\n') {
        let count = input.read(&mut bytes)?;
        if count == 0 {
            return Ok(false);
        }
        line.extend_from_slice(&bytes[..count]);
    }
    Ok(true)
}

/// Serves until the end of standard input.
fn serve(name: &str) -> Result<()> {
    let ways: u64 = std::env::var(WAYS)?.parse()?;
    let mut dice = Dice::new(ways);
    let way = Way::of(dice.roll(4));
    let buffer = [1, 7, 64, 4096][usize::try_from(dice.roll(4))?];
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut lines = Vec::new();
    // Several lines may come at once.
    while hear(&mut input, buffer, &mut lines)? {
        let lines = String::from_utf8_lossy(&lines);
        for line in lines.lines() {
            let result = if line.contains("\"initialize\"") {
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"{name}","version":"1"}}}}}}"#
                )
            } else if line.contains("\"tools/list\"") {
                r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"look","description":"Looks around.","inputSchema":{"type":"object"}}]}}"#.to_owned()
            } else {
                continue;
            };
            way.say(&mut output, &result, Duration::ZERO)?;
        }
    }
    Ok(())
}

/// The client's two ends of a session and the server's.
struct Wire {
    writes: File,
    reads: File,
    input: OwnedFd,
    output: OwnedFd,
}

impl Wire {
    fn new(kind: u64) -> Result<Self> {
        Ok(match kind {
            0 => {
                let ((input, writes), (reads, output)) = (std::io::pipe()?, std::io::pipe()?);
                Self {
                    writes: File::from(OwnedFd::from(writes)),
                    reads: File::from(OwnedFd::from(reads)),
                    input: input.into(),
                    output: output.into(),
                }
            }
            1 => {
                let (writes, input) = UnixStream::pair()?;
                let (reads, output) = UnixStream::pair()?;
                Self {
                    writes: File::from(OwnedFd::from(writes)),
                    reads: File::from(OwnedFd::from(reads)),
                    input: input.into(),
                    output: output.into(),
                }
            }
            _ => {
                let (own, servers) = UnixStream::pair()?;
                Self {
                    reads: File::from(OwnedFd::from(own.try_clone()?)),
                    writes: File::from(OwnedFd::from(own)),
                    output: servers.try_clone()?.into(),
                    input: servers.into(),
                }
            }
        })
    }
}

/// Holds one session.
fn converse(program: &Path, dice: &mut Dice) -> Result<()> {
    let Wire {
        mut writes,
        mut reads,
        input,
        output,
    } = Wire::new(dice.roll(6).saturating_sub(3))?;
    let way = Way::of(dice.roll(4));
    let begins = Duration::from_micros(dice.roll(1500));
    let pause = Duration::from_nanos([0, 0, 3_000, 12_000][usize::try_from(dice.roll(4))?]);
    let waits = dice.roll(3) > 0;
    let ways = dice.roll(u64::MAX);
    let (answered, answers) = channel::<()>();
    std::thread::scope(|scope| {
        // Writes while the other thread starts the server.
        let speaker = scope.spawn(move || -> Result<File> {
            rest(begins);
            way.say(&mut writes, INITIALIZE, pause)?;
            if waits {
                answers.recv()?;
            }
            way.say(&mut writes, INITIALIZED, pause)?;
            way.say(&mut writes, LIST, pause)?;
            Ok(writes)
        });
        let mut server = Command::new(program)
            .env(WAYS, ways.to_string())
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .spawn()?;
        let (mut heard, mut line) = (Vec::new(), Vec::new());
        while heard.iter().filter(|byte| **byte == b'\n').count() < 2 {
            ensure!(hear(&mut reads, 4096, &mut line)?, "the server is gone");
            heard.extend_from_slice(&line);
            let _ = answered.send(());
        }
        let writes = speaker
            .join()
            .map_err(|_| anyhow::anyhow!("the writing thread panicked"))??;
        // The server's input ends with both: they may be one socket.
        drop((writes, reads));
        let status = server.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    })
}
