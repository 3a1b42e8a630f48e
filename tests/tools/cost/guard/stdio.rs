//! A server on stdio, behind a guard and not.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mcpinspect_tests::places;

use super::{answer, call, id, policy};
use crate::Ended;
use crate::stats::{Samples, grouped, head, row};

/// Round trips of a round, one after another.
const TRIPS: u64 = 4_000;
/// Calls of a round without waiting for their answers.
const FLOOD: u64 = 100_000;

/// The server: answers each line.
pub fn serve() -> Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(out.flush()?);
        }
        writeln!(out, "{}", answer(id(&line)?))?;
        // What waits already is answered at once.
        if input.buffer().is_empty() {
            out.flush()?;
        }
    }
}

/// A server with or without a guard.
struct Peer {
    program: Ended,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start(policy: Option<&Path>) -> Result<Self> {
        let server = std::env::current_exe()?;
        let mut command = match policy {
            None => Command::new(&server),
            Some(policy) => {
                let mut guard = Command::new(places::program("mcpinspect")?);
                guard.arg("guard").arg("--policy").arg(policy);
                guard.args(["--log", "/dev/null", "--"]).arg(&server);
                guard
            }
        };
        let program = command
            .arg("--echo-stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut program = Ended(program);
        let to = program.0.stdin.take().context("its input")?;
        let from = program.0.stdout.take().context("its output")?;
        let from = BufReader::with_capacity(1 << 16, from);
        Ok(Self { program, to, from })
    }

    /// One call and its answer, in microseconds.
    fn trip(&mut self, number: u64, line: &mut String) -> Result<f64> {
        let request = call(number) + "\n";
        let begun = Instant::now();
        self.to.write_all(request.as_bytes())?;
        line.clear();
        self.from.read_line(line)?;
        let took = begun.elapsed();
        ensure!(id(line)? == number.to_string(), "a wrong answer: {line}");
        Ok(took.as_secs_f64() * 1e6)
    }

    /// Calls without waiting, and how long it took until the last answer.
    fn flood(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let Self { to, from, .. } = self;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| -> Result<()> {
                let mut to = BufWriter::with_capacity(1 << 16, to);
                for number in 0..FLOOD {
                    writeln!(to, "{}", call(number))?;
                }
                Ok(to.flush()?)
            });
            let mut line = String::new();
            for number in 0..FLOOD {
                line.clear();
                from.read_line(&mut line)?;
                ensure!(id(&line)? == number.to_string(), "out of order: {line}");
            }
            writer.join().ok().context("the writer panicked")?
        })?;
        Ok(begun.elapsed())
    }

    /// Processor time that the guard itself has used, in seconds.
    fn used(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.program.0.id()))?;
        let fields = stat.rsplit_once(')').context("its state")?.1;
        let ticks: f64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<f64>().ok())
            .sum();
        // USER_HZ is 100 on every architecture that is supported.
        Ok(ticks / 100.0)
    }
}

/// Measures, and prints the table.
pub fn measure(rounds: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let empty = policy(directory.path(), false)?;
    let judging = policy(directory.path(), true)?;
    let mut peers = [
        ("none", Peer::start(None)?),
        ("no rules", Peer::start(Some(&empty))?),
        ("100 rules", Peer::start(Some(&judging))?),
    ];
    let mut line = String::new();
    let mut trips: [Samples; 3] = Default::default();
    let mut added: [Samples; 3] = Default::default();
    // Programs that have just started are not what is measured.
    for (_, peer) in &mut peers {
        for number in 0..500 {
            peer.trip(number, &mut line)?;
        }
    }
    for number in 0..TRIPS * rounds as u64 {
        let mut took = [0.0; 3];
        for (index, (_, peer)) in peers.iter_mut().enumerate() {
            took[index] = peer.trip(number, &mut line)?;
            trips[index].push(took[index]);
            added[index].push(took[index] - took[0]);
        }
    }
    let mut rates: [Samples; 3] = Default::default();
    let mut per_core: [Samples; 3] = Default::default();
    for _ in 0..rounds {
        for (index, (_, peer)) in peers.iter_mut().enumerate() {
            let before = peer.used()?;
            let took = peer.flood()?;
            let messages = 2.0 * FLOOD as f64;
            rates[index].push(messages / took.as_secs_f64());
            per_core[index].push(messages / (peer.used()? - before));
        }
    }
    println!("A guard on stdio, calls of 250 bytes and answers of the same size\n");
    head(&[
        "guard",
        "round trip, median",
        "added, median",
        "added, p99",
        "messages/s",
        "messages/s of the guard's own processor time",
    ]);
    for (index, (name, _)) in peers.iter().enumerate() {
        let microseconds = |value: f64| format!("{value:.0} µs");
        let guarded = index > 0;
        let only = |text: String| if guarded { text } else { String::new() };
        row(&[
            (*name).to_owned(),
            microseconds(trips[index].median()),
            only(microseconds(added[index].median())),
            only(microseconds(added[index].quantile(0.99))),
            grouped(rates[index].median()),
            only(grouped(per_core[index].median())),
        ]);
    }
    println!();
    Ok(())
}
