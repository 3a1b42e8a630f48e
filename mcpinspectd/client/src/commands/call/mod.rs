//! `mcpinspect call`: asks a server something, and reports exactly what happened.

mod envelope;
mod expect;
mod input;
mod load;
mod options;
mod perform;
mod request;
mod schema;
mod script;
mod server_events;
mod watch;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mcpinspect_cli::terminal;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;

use crate::connection::{Connection, Settings};
use crate::failure::Failure;
use crate::server_messages::{LogMessage, ServerRequest};

use self::envelope::Envelope;
use self::input::read_bounded;
use self::load::Load;
use self::options::{RequestOptions, SessionOptions};
use self::perform::Session;
use self::wire::{CapturedTraffic, Tap};
use crate::target::{Server, Target, TargetOptions};

/// Largest script, in bytes.
const MAX_SCRIPT: u64 = 16 << 20;

/// Longest message of a failure, in characters.
const MESSAGE: usize = 1000;

/// Send a request to an MCP server, to test or debug it
///
/// Starts the server with the command after `--`, or connects to --url, or uses the server of this
/// name in a client's configuration. Initialises it with the protocol version that it supports,
/// sends one request and prints the result as JSON. Then the session ends.
///
/// METHOD is any method of the protocol: ping, tools/list, tools/call, resources/list,
/// resources/read, resources/templates/list, prompts/list, prompts/get, completion/complete,
/// logging/setLevel, or any other with --params. `discover` returns everything that the server
/// offers, over one connection. All pages of a list are fetched.
///
/// Requests that the server does not offer are not sent, nor are arguments that do not match a
/// tool's schema. Requests of the server (sampling, elicitation, roots) are declined, or answered
/// from --answer. Its log messages go to standard error. With --structured, everything is in one
/// JSON object.
///
/// With --script, sends many requests over one connection and checks expectations; the output is a
/// list of such objects. With --repeat, sends one request many times; the output is the response
/// times.
///
/// At a URL, the transport is detected: Streamable HTTP or the older HTTP+SSE. In a --header,
/// `${NAME}` stands for an environment variable, so that secrets need not be on the command line.
///
/// The exit status is 0 if there is a result, even with isError; 1 if there is none, because the
/// server could not be reached, did not answer or returned an error, or because the request was
/// invalid and not sent; 2 if the command line or the script is invalid. The server runs with your
/// privileges: run untrusted servers in a sandbox.
#[derive(clap::Args)]
pub struct Call {
    /// The method, or `discover`; none with --script.
    method: Option<String>,
    /// The server's name in a client's configuration, or CLIENT:NAME. Use it instead of a command.
    server: Option<String>,
    #[command(flatten)]
    request_options: RequestOptions,
    #[command(flatten)]
    session_options: SessionOptions,
    /// Print one JSON object with the result, the failure and its category, logs, requests of the server and
    /// its standard error.
    #[arg(long)]
    structured: bool,
    /// Exit with status 1 also if a tool's result has isError.
    #[arg(long)]
    fail_on_error: bool,
    /// Run the steps of a script, JSON or YAML; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = RequestOptions::OPTIONS)]
    script: Option<PathBuf>,
    /// Write the results of the script as JUnit XML.
    #[arg(long, value_name = "FILE", requires = "script")]
    junit: Option<PathBuf>,
    /// Send the request this many times.
    #[arg(long, value_name = "N", conflicts_with = "script", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: Option<u32>,
    /// Maximum number of requests in flight at a time.
    #[arg(long, value_name = "K", requires = "repeat", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    concurrency: u32,
    /// Add to the envelope what the kernel saw on the wire: frames with their times, lines that are
    /// not messages, durations of calls. Requires root.
    #[arg(long)]
    wire: bool,
    /// The server's command.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A finished session.
struct FinishedSession<T> {
    /// Its outcome, or why it did not begin.
    outcome: Result<T, Failure>,
    server_messages: (Vec<LogMessage>, Vec<ServerRequest>),
    stderr: Vec<String>,
    wire: Option<CapturedTraffic>,
    took: Duration,
}

impl Call {
    /// Runs the command. Returns the exit code of the program.
    ///
    /// # Errors
    /// What kept it from its work, for people.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let target = self.target()?;
        if self.wire {
            ensure!(
                self.structured || self.script.is_some(),
                "`--wire` adds to the envelope; use it with `--structured` or `--script`"
            );
            ensure!(
                matches!(target, Target::Process(_)),
                "`--wire` works only for servers on standard input and output, not for a server at a URL"
            );
        }
        let passed = match &self.script {
            Some(path) => self.script(path, &target)?,
            None => self.one(&target)?,
        };
        Ok(ExitCode::from(u8::from(!passed)))
    }

    /// How to reach the server. With a script, there is no method, and the first word is the server's name.
    fn target(&self) -> anyhow::Result<Target> {
        let name = match &self.script {
            Some(_) if self.server.is_some() => {
                bail!("remove the method: with `--script`, the script lists the requests")
            }
            Some(_) => self.method.as_deref(),
            None if self.method.is_none() => {
                bail!("no method given; name one, such as `tools/list`, or use `--script`")
            }
            None => self.server.as_deref(),
        };
        let options = TargetOptions {
            name,
            command: &self.command,
            url: self.session_options.url.as_deref(),
            environment: &self.session_options.environment,
            headers: &self.session_options.headers,
        };
        options.target()
    }

    /// Sends one request, once or many times. Returns whether everything succeeded.
    fn one(&self, target: &Target) -> anyhow::Result<bool> {
        let method = self.method.as_deref().unwrap_or_default();
        let request = self.request_options.request(method)?;
        let settings = self.session_options.settings()?;
        // An invalid request needs no server.
        let flawed = match request.unchecked {
            true => None,
            false => request.check().err(),
        };
        if let Some(failure) = flawed {
            return self.tell(&Envelope::new(method, failure.into(), Duration::ZERO));
        }
        let Some(repeat) = self.repeat else {
            let mut printed = Ok(());
            let done = self.session(target, settings, |session| {
                let started = Instant::now();
                let outcome = session.perform(&request);
                let mut envelope = Envelope::new(method, outcome, started.elapsed());
                if let Some(time) = self
                    .session_options
                    .watch
                    .filter(|_| envelope.result().is_some())
                {
                    if !self.structured {
                        printed = self.print(&envelope);
                    }
                    let ended = session.watch(&request, time);
                    let server_messages = &mut session.connection.server_messages;
                    envelope.watched(std::mem::take(&mut server_messages.notifications), ended);
                }
                envelope
            })?;
            printed?;
            let envelope = done.envelope(method);
            if self.structured || !envelope.was_watched() {
                self.print(&envelope)?;
            }
            self.complain(&envelope);
            return Ok(!envelope.fails(self.fail_on_error));
        };
        if method == "discover" || method.starts_with("notifications/") {
            bail!("`{method}` cannot be repeated");
        }
        let mut table = Vec::new();
        let done = self.session(target, settings, |session| {
            let started = Instant::now();
            let outcome = match Load::measure(session, &request, repeat, self.concurrency) {
                Ok(load) => {
                    table = load.lines();
                    load.outcome()
                }
                Err(failure) => failure.into(),
            };
            Envelope::new(method, outcome, started.elapsed())
        })?;
        let envelope = done.envelope(method);
        if self.structured || table.is_empty() {
            return self.tell(&envelope);
        }
        terminal::print(|out| table.iter().try_for_each(|line| writeln!(out, "{line}")))?;
        self.complain(&envelope);
        Ok(!envelope.fails(self.fail_on_error))
    }

    /// Runs a script. Returns whether all steps passed.
    fn script(&self, path: &Path, target: &Target) -> anyhow::Result<bool> {
        let text = read_bounded(path, MAX_SCRIPT)?;
        let script = script::read(&text).with_context(|| path.display().to_string())?;
        let settings = self.session_options.settings()?;
        let patience = settings.patience;
        let done = self.session(target, settings, |session| {
            script::run(&script, session, patience, self.fail_on_error)
        })?;
        let mut ran = match done.outcome {
            Ok(ran) => ran,
            Err(failure) => script::not_begun(&script, failure, done.took),
        };
        // Logs from before the first step, or after the last, belong to the last that ran.
        if let Some(last) = ran.last_mut() {
            last.envelope.add_messages(done.server_messages);
            last.envelope.overhear(done.stderr);
            last.envelope.attach(done.wire);
        }
        terminal::print(|out| {
            for (at, ran) in ran.iter().enumerate() {
                let before = if at == 0 { "[" } else { "," };
                writeln!(out, "{before}{}", terminal_safe(&ran.envelope)?)?;
            }
            writeln!(out, "]")
        })?;
        if let Some(path) = &self.junit {
            let mut xml = Vec::new();
            script::write_junit(&mut xml, &script, &ran)
                .and_then(|()| std::fs::write(path, xml))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(ran.iter().all(|ran| ran.envelope.has_passed()))
    }

    /// Starts or contacts the server, greets it, lets `work` ask, and ends the session.
    fn session<T>(
        &self,
        target: &Target,
        settings: Settings,
        work: impl FnOnce(&mut Session<'_, '_>) -> T,
    ) -> anyhow::Result<FinishedSession<T>> {
        let tap = match self.wire {
            true => Some(Tap::start()?),
            false => None,
        };
        let started = Instant::now();
        let mut server = match Server::start(target, self.session_options.timeout()) {
            Ok(server) => server,
            Err(failure) => {
                return Ok(FinishedSession {
                    outcome: Err(failure),
                    server_messages: Default::default(),
                    stderr: Vec::new(),
                    wire: tap.map(Tap::finish),
                    took: started.elapsed(),
                });
            }
        };
        let mut connection = Connection::new(server.peer(), settings);
        let in_envelope = self.structured || self.script.is_some();
        connection.server_messages.listener = Some(server_events::listener(in_envelope));
        connection.server_messages.is_watched = self.session_options.watch.is_some();
        let outcome = Session::begin(&mut connection, self.session_options.offer());
        let took = started.elapsed();
        let outcome = outcome.map(|mut session| work(&mut session));
        let server_messages = connection.server_messages.take();
        server.stop();
        Ok(FinishedSession {
            outcome,
            server_messages,
            stderr: server.stderr(),
            wire: tap.map(Tap::finish),
            took,
        })
    }

    /// Reports the outcome of one request. Returns whether it succeeded.
    fn tell(&self, envelope: &Envelope) -> anyhow::Result<bool> {
        self.print(envelope)?;
        self.complain(envelope);
        Ok(!envelope.fails(self.fail_on_error))
    }

    /// Prints the result, or the envelope.
    fn print(&self, envelope: &Envelope) -> anyhow::Result<()> {
        let line = match (self.structured, envelope.result()) {
            (true, _) => Some(terminal_safe(envelope)?),
            (false, Some(result)) => Some(terminal_safe(&result)?),
            (false, None) => None,
        };
        if let Some(line) = line {
            terminal::print(|out| writeln!(out, "{line}"))?;
        }
        Ok(())
    }

    /// Says on standard error why it failed, unless an envelope does.
    fn complain(&self, envelope: &Envelope) {
        if let (false, Some(failure)) = (self.structured, envelope.failure()) {
            let category = failure.category.as_str();
            let message = printable(&failure.message, MESSAGE);
            terminal::complain(format_args!("mcpinspect: {category}: {message}"));
        }
    }
}

impl FinishedSession<Envelope> {
    /// The envelope of the only request, with everything that was received.
    fn envelope(self, method: &str) -> Envelope {
        let mut envelope = match self.outcome {
            Ok(envelope) => envelope,
            Err(failure) => Envelope::new(method, failure.into(), self.took),
        };
        envelope.add_messages(self.server_messages);
        envelope.overhear(self.stderr);
        envelope.attach(self.wire);
        envelope
    }
}
