//! `cargo xtask bench`: what being watched costs, paired with not being watched, in one run.
//!
//! The conditions alternate within each round, because a machine's speed drifts by more than the
//! differences of interest. Minimum and median are both printed: the minimum is the code path's own
//! cost, the median what one meets.

mod calls;
mod daemon;
mod day;
mod guard;
mod kernel;
mod latency;
mod stats;
mod web;

use std::io::Write as _;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Parser;
use mcpinspect_tests::places;

/// Findings whose way is timed: as many as no limit on a server's events holds back.
const CALLS: usize = 240;
/// Rounds of each measurement.
const ROUNDS: usize = 10;
/// Rounds where rough figures do.
const QUICK_ROUNDS: usize = 4;
/// Days of traffic.
const DAYS: usize = 2;

#[derive(Parser)]
struct Options {
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// One part of the measurement, in a process of its own (used by this program itself)
    #[arg(long, value_enum, hide = true)]
    part: Option<kernel::Part>,
    /// Answer calls with poisoned results (used by this program itself)
    #[arg(long, hide = true)]
    latency_server: bool,
    /// Answer calls, and do nothing else (used by this program itself)
    #[arg(long, hide = true)]
    echo_stdio: bool,
    /// Answer calls over HTTP, and do nothing else (used by this program itself)
    #[arg(long, hide = true)]
    echo_http: bool,
    /// Only what a guard costs
    #[arg(long)]
    guard: bool,
    /// Only how long it takes from a server's write to the journal and the bus
    #[arg(long)]
    latency: bool,
    /// Only what a web server loses
    #[arg(long)]
    web: bool,
    /// Only whether the daemon's memory grows over so many days of traffic
    #[arg(long)]
    days: Option<usize>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let rounds = if options.quick { QUICK_ROUNDS } else { ROUNDS };
    let result = match (options.part, options.days) {
        (Some(part), _) => kernel::work(part),
        _ if options.latency_server => latency::serve(),
        _ if options.echo_stdio => guard::serve_stdio(),
        _ if options.echo_http => guard::serve_http(),
        _ if options.guard => guard::measure(ROUNDS),
        _ if options.latency => latency::measure(CALLS),
        _ if options.web => web::measure(rounds),
        (None, Some(days)) => day::measure(days),
        (None, None) => measure(options.quick, rounds),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(quick: bool, rounds: usize) -> Result<()> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cores = std::thread::available_parallelism()?;
    println!("\nLinux {}, {cores} cores\n", kernel.trim());
    kernel::measure(rounds)?;
    web::measure(rounds)?;
    calls::measure(rounds)?;
    latency::measure(CALLS)?;
    daemon::measure(rounds)?;
    guard::measure(rounds)?;
    if quick { Ok(()) } else { day::measure(DAYS) }
}

/// Ends a program with its measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon that watches while this value lives; its messages go nowhere.
struct Watching(Child);

impl Watching {
    /// With the machine's own configuration.
    fn start() -> Result<Self> {
        Self::spawn(&mut Command::new(places::daemon()?))
    }

    /// With this configuration.
    fn configured(text: &str) -> Result<Self> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(text.as_bytes())?;
        // It has read the file by the time it says that it watches.
        Self::spawn(Command::new(places::daemon()?).env("MCPINSPECT_CONFIG", file.path()))
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        use std::io::{BufRead, BufReader};
        let mut child = command
            .args(["tap", "--format", "jsonl"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting mcpinspectd")?;
        let mut output = BufReader::new(child.stdout.take().context("its output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        anyhow::ensure!(
            line.contains("tap_ready"),
            "mcpinspectd does not watch: {line}"
        );
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Ok(Self(child))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        // It may be gone already; then there is nothing to end.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
        let _ = self.0.wait();
    }
}
