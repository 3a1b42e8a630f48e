//! `mcpinspect replay`: plays a tape by itself, against a server, or in a server's place.

mod alone;
mod as_server;
mod to;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mcpinspect_core::json_path::{Assignment, Pattern};

use crate::replay::fault::{Delay, Fault};
use crate::replay::player::{Breakpoint, Player, TapePosition};
use crate::replay::recording::Recording;
use crate::replay::serve::{Matching, Settings};
use crate::replay::speed::Speed;

use crate::tape_file;
use crate::target::{self, TargetOptions};

/// Replay a tape: alone, against a server, or in a server's place
///
/// Alone, the messages are printed with the pauses of the recording. Lines on standard input are
/// commands: `play`, `pause`, `step [N]` (or an empty line), `seek PLACE`, `speed SPEED`, `break
/// WHERE`, `quit`. A PLACE is the number of a message, or seconds from the beginning as in `1.5s`.
///
/// With `--to -- COMMAND`, starts the command as an MCP server over standard input and output; with
/// `--to URL`, connects to a server on Streamable HTTP or HTTP+SSE. Sends it the requests of the
/// tape's client: with new ids, with a handshake if the tape has none, and each request only after
/// the answers that precede it on the tape have arrived. Requests of the server are answered as on
/// the tape, or else declined. The answers are compared with those of the tape, types before
/// values. The command runs with your privileges: run untrusted servers in a sandbox.
///
/// With `--as-server`, acts as an MCP server over standard input and output that answers as the
/// server of the tape did. When the client has disconnected, standard error lists the requests that
/// it did not make, and those that are not on the tape.
///
/// The exit status is 0 if nothing differs (as a server: if exactly the requests of the tape were
/// made), 1 if something differs, and 2 if the replay was not possible.
///
/// A PATH names parts of messages: `tools/call[name=x].result.content[0].text`. It begins with a
/// method (`*` stands for any characters), optionally with members that the parameters must have.
/// Then come members (`.text`, `.*`, `["a.b"]`), elements of lists (`[0]`, `[*]`, `[name=x]`) and
/// `.**` for any number of steps.
#[derive(clap::Args)]
pub struct Replay {
    /// The tape.
    tape: PathBuf,
    /// Send the requests to a server: the one at this URL, or the one started by the command after `--`.
    #[arg(long, num_args = 0..=1, value_name = "URL")]
    to: Option<Option<String>>,
    /// Act as the server, on standard input and output.
    #[arg(long, conflicts_with = "to")]
    as_server: bool,
    /// Speed: `max`, or a multiple of the recorded speed from 0.1 to 100. Default: 1 alone, else max.
    #[arg(long, value_name = "SPEED")]
    speed: Option<Speed>,
    /// Set a value in parameters before they are sent: 'tools/call[name=x].arguments.path=/tmp',
    /// or, as a server, in answers: 'tools/call[name=x].result.isError=true'. A value that is not
    /// JSON is a string. Missing members are created.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<Assignment>,
    /// Print JSON: the report, or alone, each message.
    #[arg(long, conflicts_with = "as_server")]
    json: bool,
    #[command(flatten)]
    to_options: ToOptions,
    #[command(flatten)]
    server_options: ServerOptions,
    #[command(flatten)]
    alone_options: AloneOptions,
    /// The server's command.
    #[arg(last = true, value_name = "COMMAND", requires = "to")]
    command: Vec<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "With --to")]
struct ToOptions {
    /// A header for each request to a server at a URL. `${NAME}` stands for an environment variable.
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "to", value_parser = target::header)]
    headers: Vec<(String, String)>,
    /// Send only these methods, and the handshake. `*` stands for any characters.
    #[arg(long, value_name = "METHOD", requires = "to")]
    only: Vec<String>,
    /// Do not send these methods.
    #[arg(long, value_name = "METHOD", requires = "to")]
    skip: Vec<String>,
    /// Do not compare these parts of answers, nor these methods: `tools/call.result.content[*].text`.
    #[arg(long, value_name = "PATH", requires = "to")]
    ignore: Vec<Pattern>,
    /// Also compare times and ids in `_meta`, and other parts that servers generate each time.
    #[arg(long, requires = "to")]
    compare_volatile: bool,
    /// What to compare. Default: values, or structure for an anonymised tape.
    #[arg(long, value_enum, requires = "to")]
    compare: Option<Compare>,
    /// Timeout for an answer, in seconds. Default: 30.
    #[arg(long, value_name = "SECONDS", requires = "to", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "With --as-server")]
struct ServerOptions {
    /// How to find a client's request on the tape. Default: by-params.
    #[arg(long = "match", value_enum, value_name = "HOW", requires = "as_server")]
    matching: Option<Match>,
    /// Answer with an error instead: a method, optionally with a code and a rate from 0 to 1, as in
    /// 'tools/call[name=x]:-32000@0.25', which fails every fourth call.
    #[arg(long, value_name = "METHOD[:CODE][@RATE]", requires = "as_server")]
    fail: Vec<Fault>,
    /// Delay answers by this many milliseconds, those of a method or all.
    #[arg(long, value_name = "[METHOD:]MILLISECONDS", requires = "as_server")]
    delay: Vec<Delay>,
    /// Write the outcome as a JSON object.
    #[arg(long, value_name = "FILE", requires = "as_server")]
    report: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Alone")]
struct AloneOptions {
    /// Begin at this place.
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["to", "as_server"])]
    from: Option<TapePosition>,
    /// End at this place.
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["to", "as_server"])]
    until: Option<TapePosition>,
    /// Wait for a command before each message.
    #[arg(long, conflicts_with_all = ["to", "as_server"])]
    step: bool,
    /// Stop at requests and notifications of a method, at calls of a tool, or at errors.
    #[arg(long = "break", value_name = "METHOD|tool=NAME|error", conflicts_with_all = ["to", "as_server"])]
    breaks: Vec<Breakpoint>,
}

/// How closely to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Compare {
    /// The members that exist, and their types.
    Structure,
    /// Values as well.
    Values,
}

/// How to find a client's request on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Match {
    /// It must be the next one of the tape, with the same parameters.
    Strict,
    /// The next one of its method, whatever its parameters.
    Sequential,
    /// The next one with its method and parameters; when there are no more, the last one again.
    ByParams,
}

impl Replay {
    /// Runs the command. Returns the exit code of the program.
    ///
    /// # Errors
    /// What kept it from its work, for people.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(url) = &self.to {
            let options = TargetOptions {
                command: &self.command,
                url: url.as_deref(),
                headers: &self.to_options.headers,
                ..TargetOptions::default()
            };
            let target = options.target()?;
            let recording = read(&self.tape)?;
            return self.to(&recording, &target);
        }
        let recording = read(&self.tape)?;
        if self.as_server {
            let options = self.server_options;
            let settings = Settings {
                matching: match options.matching.unwrap_or(Match::ByParams) {
                    Match::Strict => Matching::Strict,
                    Match::Sequential => Matching::Sequential,
                    Match::ByParams => Matching::ByParams,
                },
                speed: self.speed.unwrap_or(Speed::Max),
                assignments: self.set,
                faults: options.fail,
                delays: options.delay,
            };
            return as_server::serve(&recording, settings, options.report);
        }
        if !self.set.is_empty() {
            bail!("`--set` requires `--to` or `--as-server`");
        }
        let options = self.alone_options;
        let speed = self.speed.unwrap_or(Speed::Times(1.0));
        let (from, until) = (options.from, options.until);
        let mut player = Player::new(&recording, from, until, speed, options.breaks);
        if options.step {
            player.pause();
        }
        alone::play(&recording, player, self.json)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    let tape = tape_file::open(path)?;
    Recording::read(tape).with_context(|| path.display().to_string())
}
