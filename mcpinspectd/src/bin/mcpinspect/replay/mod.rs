//! `mcpinspect replay`: a tape against a server.

mod to;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mcpinspectd::replay::path::{Assignment, Pattern};
use mcpinspectd::replay::recording::Recording;
use mcpinspectd::replay::speed::Speed;

use super::tape;

/// Replay a tape against a server, and compare the answers
///
/// With `--to -- COMMAND`, the command is started as an MCP server over standard input and output, and asked
/// what the client of the tape asked: under new ids, with a handshake where the tape has none, each request
/// when the tape's answers before it have come. Requests of the server are answered as on the tape, or else
/// declined. The answers are compared with those of the tape, types before values.
///
/// The exit status is 0 if nothing differs, 1 if something does, and 2 if the replay was not possible.
///
/// A path names parts of messages: `tools/call[name=x].result.content[0].text`. It begins with a method
/// (`*` stands for any characters), perhaps with members that the parameters have. Then come members
/// (`.text`, `.*`, `["a.b"]`), elements of lists (`[0]`, `[*]`, `[name=x]`) and `.**` for any number of steps.
/// `mcpinspect replay` starts the command that you give it: run servers that you do not trust in a sandbox.
#[derive(clap::Args)]
pub struct Replay {
    /// The tape.
    tape: PathBuf,
    /// Ask a server that is started with the command behind `--`.
    #[arg(long, required = true, num_args = 0..=1, value_name = "URL")]
    to: Option<Option<String>>,
    /// How fast: `max`, or so many times as fast as recorded, from 0.1 to 100.
    #[arg(long, value_name = "SPEED", default_value = "max")]
    speed: Speed,
    /// Put a value into parameters before they are sent: 'tools/call[name=x].arguments.path=/tmp'. A value
    /// that is not JSON is a string. Missing members are made.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<Assignment>,
    /// Send only these methods, and the handshake. `*` stands for any characters.
    #[arg(long, value_name = "METHOD")]
    only: Vec<String>,
    /// Do not send these methods.
    #[arg(long, value_name = "METHOD")]
    skip: Vec<String>,
    /// Do not compare these parts of answers, nor these methods: 'tools/call.result.content[*].text'.
    #[arg(long, value_name = "PATH")]
    ignore: Vec<Pattern>,
    /// Compare times and ids in `_meta` too, and other parts that servers make up anew each time.
    #[arg(long)]
    compare_volatile: bool,
    /// What to compare. Default: values; structure for a tape that was made anonymous.
    #[arg(long, value_enum)]
    compare: Option<Compare>,
    /// Seconds that an answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// The server's command.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Compare {
    /// Which members there are, and their types.
    Structure,
    /// Values too.
    Values,
}

impl Replay {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Some(target)) = &self.to {
            bail!(
                "cannot replay to {target}: only servers on standard input and output can be asked, with `--to -- COMMAND`"
            );
        }
        if self.command.is_empty() {
            bail!("the server's command is missing: `--to -- COMMAND`");
        }
        let recording = read(&self.tape)?;
        self.to(&recording)
    }
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    let tape = tape::open(path)?;
    Recording::read(tape).with_context(|| path.display().to_string())
}
