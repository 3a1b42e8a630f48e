//! `mcpinspect tape`: recorded sessions as files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, anyhow, bail};
use mcpinspect_cli::terminal;
use mcpinspect_client::tape_file::open;
use mcpinspect_core::model::{Input, InputSink, Timestamp};
use mcpinspect_core::source::{Progress, Source as _};
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_engine::{Engine, Limits, OutputSink};
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{ActiveRules, NoDetector, WeightedRules};
use mcpinspect_judge::registry::Registry;
use mcpinspect_store::messages::Import as StoreImport;
use mcpinspect_tape::anonymise::Anonymiser;
use mcpinspect_tape::collect::Collector;
use mcpinspect_tape::file::NewFile;
use mcpinspect_tape::http::{Flow, HttpSource};
use mcpinspect_tape::read::TapeSource;
use mcpinspect_tape::write::TapeWriter;
use mcpinspect_tape::{Counting, Entry, Header, Totals};
use nix::sys::utsname::uname;

use super::recordings::StoreLocation;

/// Characters of names to show.
const NAME: usize = 80;

/// Methods to show.
const METHODS: usize = 20;

/// Characters of a remark to show.
const REMARK: usize = 1000;

/// Write recorded sessions to files, and read such files
///
/// A tape is one session as JSON lines: a header, and a line for each message. A file whose name ends in
/// `.zst` is compressed. `mcpinspectd run --from-tape FILE` examines one as if its messages were sent now.
#[derive(clap::Args)]
pub struct TapeCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Export(Export),
    Import(Import),
    Info(Info),
    Anonymise(Anonymise),
    FromHttp(FromHttp),
}

/// Write a recorded session to a tape
///
/// The tape has the same content as the store: with the default settings, secrets are masked.
#[derive(clap::Args)]
struct Export {
    /// The session's id, or the beginning of it; see `mcpinspect sessions`.
    session: String,
    /// The file to write; it must not exist yet. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    location: StoreLocation,
}

/// Put a tape's messages into the message store
///
/// The messages are examined, and findings are recorded with them; nothing is pinned. Only root and
/// the group mcpinspect can read an imported session. Requires permission to write the store: use
/// sudo.
#[derive(clap::Args)]
struct Import {
    /// The tape.
    tape: PathBuf,
    #[command(flatten)]
    location: StoreLocation,
}

/// Show what is on a tape, and whether it is complete
#[derive(clap::Args)]
struct Info {
    /// The tape.
    tape: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Copy a tape without personal content
///
/// Text of users and servers is replaced by placeholders, equal text by equal placeholders. The
/// structure of messages, methods, names and definitions of tools, and intervals of time are kept.
/// Check the copy before you share it: a tool's name or definition may reveal more than intended.
#[derive(clap::Args)]
struct Anonymise {
    /// The tape.
    tape: PathBuf,
    /// The file to write; it must not exist yet. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Make a tape from recorded HTTP connections
///
/// Each connection is two files of raw bytes: what its client sent, and what its server sent, as
/// tcpflow writes them and Wireshark saves a followed stream. HTTP/1.1 and HTTP/2 without TLS are
/// supported. Several connections form one session; name them in order. Such files contain no
/// times, so all messages get the time at which the last file was written. Secrets are not masked.
#[derive(clap::Args)]
struct FromHttp {
    /// The files, two for each connection: CLIENT SERVER.
    #[arg(required = true, num_args = 2.., value_names = ["CLIENT", "SERVER"])]
    files: Vec<PathBuf>,
    /// The session, by its `Mcp-Session-Id`, if there are several.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The file to write; it must not exist yet. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl TapeCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Export(command) => command.run()?,
            Command::Import(command) => command.run()?,
            Command::Info(command) => command.run()?,
            Command::Anonymise(command) => command.run()?,
            Command::FromHttp(command) => command.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Export {
    fn run(self) -> anyhow::Result<()> {
        let session = self.location.session(&self.session)?;
        let mut header = Header::of(&session, host());
        let transport = header.transport;
        // The header says what follows, so the messages are read twice.
        let mut counting = Counting::default();
        let mut last = 0;
        self.location.messages(&session.session_id, |_, message| {
            if let Some(entry) = Entry::of(message, transport) {
                counting.add(&entry);
            }
            last = message.number;
            Ok(true)
        })?;
        header.totals = counting.totals;
        write(self.output.as_deref(), |out| {
            let mut tape = TapeWriter::new(out, &header)?;
            self.location.messages(&session.session_id, |_, message| {
                // What has been said since then is not in the header.
                if message.number > last {
                    return Ok(false);
                }
                if let Some(entry) = Entry::of(message, transport) {
                    tape.entry(&entry)?;
                }
                Ok(true)
            })?;
            tape.finish()?;
            Ok(())
        })
    }
}

impl Import {
    fn run(self) -> anyhow::Result<()> {
        let (path, config) = self.location.to_write()?;
        let tape = open(&self.tape)?;
        let session = tape.header().session_id.clone();
        let output = StoreImport::open(&path, config.keeping(), &session)?;
        let active = ActiveRules::new(WeightedRules::builtin());
        let mut importing = EnginePlayback {
            engine: Engine::new(
                Limits::default(),
                Registry::in_memory(),
                Box::new(RuntimeDetector::new(active.into())),
            ),
            output,
        };
        let mut source = TapeSource::new(tape);
        let played = loop {
            match source.poll(&mut importing) {
                Ok(Progress::Open) => {}
                Ok(Progress::Exhausted) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // What could be read of a truncated tape is kept.
        let _ = source.finish(&mut importing);
        let messages = importing.output.finish()?;
        terminal::print(|out| {
            let session = printable(&session, NAME);
            writeln!(out, "imported {messages} messages as session {session}")
        })?;
        played.with_context(|| self.tape.display().to_string())
    }
}

/// The engine, on its way to an output.
struct EnginePlayback<O> {
    engine: Engine,
    output: O,
}

impl<O: OutputSink> InputSink for EnginePlayback<O> {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.output);
    }
}

impl Info {
    fn run(self) -> anyhow::Result<()> {
        let tape = open(&self.tape)?;
        let mut header = tape.header().clone();
        let mut counting = Counting::default();
        for entry in tape {
            counting.add(&entry.with_context(|| self.tape.display().to_string())?);
        }
        // Another program's tape may not state what is on it.
        if header.totals == Totals::default() {
            header.totals = counting.totals;
        } else if counting.totals != header.totals {
            bail!(
                "{}: the tape has {} messages, but its header says {}: it is incomplete or was changed",
                self.tape.display(),
                counting.totals.messages,
                header.totals.messages
            );
        }
        if self.json {
            let text = terminal_safe(&header)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
            return Ok(());
        }
        terminal::print(|out| shown(out, &header))?;
        Ok(())
    }
}

fn shown(out: &mut dyn Write, header: &Header) -> io::Result<()> {
    let name = |text: &str| printable(text, NAME);
    let or_unknown = |text: &Option<String>| text.as_deref().map_or("unknown".to_owned(), name);
    let totals = &header.totals;
    writeln!(out, "session   {}", name(&header.session_id))?;
    writeln!(
        out,
        "server    {}, {}",
        name(&header.server_id),
        or_unknown(&header.server_exe)
    )?;
    writeln!(out, "client    {}", or_unknown(&header.client_exe))?;
    writeln!(
        out,
        "protocol  MCP {} over {}",
        or_unknown(&header.protocol_version),
        header.transport
    )?;
    writeln!(
        out,
        "time      {} to {}",
        name(&header.started),
        or_unknown(&header.ended)
    )?;
    writeln!(out, "host      {}", or_unknown(&header.host))?;
    let kinds: Vec<String> = totals
        .kinds
        .iter()
        .map(|(kind, count)| format!("{count} {}", name(kind)))
        .collect();
    writeln!(
        out,
        "messages  {} of {} bytes: {}",
        totals.messages,
        totals.bytes,
        kinds.join(", ")
    )?;
    let mut methods: Vec<_> = totals.methods.iter().collect();
    methods.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let methods: Vec<String> = methods
        .into_iter()
        .take(METHODS)
        .map(|(method, count)| format!("{count} {}", name(method)))
        .collect();
    writeln!(out, "methods   {}", methods.join(", "))?;
    writeln!(out, "errors    {}", totals.errors)?;
    if let Some(nanos) = totals.mean_response_ns {
        writeln!(out, "response  {} µs on average", nanos / 1000)?;
    }
    let text = match (header.is_anonymised, totals.modified, totals.without_text) {
        (true, ..) => "anonymous".to_owned(),
        (false, 0, 0) => "as on the wire".to_owned(),
        (false, masked, missing) => {
            format!("secrets masked in {masked} messages, {missing} without text")
        }
    };
    writeln!(out, "text      {text}")
}

impl Anonymise {
    fn run(self) -> anyhow::Result<()> {
        let wrong = || self.tape.display().to_string();
        // The header says what follows, so the tape is read twice.
        let tape = open(&self.tape)?;
        let (mut anonymiser, mut header) = Anonymiser::new(tape.header().clone());
        let mut counting = Counting::default();
        for entry in tape {
            counting.add(&anonymiser.entry(entry.with_context(wrong)?));
        }
        header.totals = counting.totals;
        let tape = open(&self.tape)?;
        let (mut anonymiser, _) = Anonymiser::new(tape.header().clone());
        write(self.output.as_deref(), |out| {
            let mut copy = TapeWriter::new(out, &header)?;
            for entry in tape {
                copy.entry(&anonymiser.entry(entry.with_context(wrong)?))?;
            }
            copy.finish()?;
            Ok(())
        })
    }
}

impl FromHttp {
    fn run(self) -> anyhow::Result<()> {
        let mut written = Timestamp::default();
        let mut flows = Vec::new();
        let (pairs, rest) = self.files.as_chunks::<2>();
        if !rest.is_empty() {
            bail!(
                "give two files for each connection: what its client sent, and what its server sent"
            );
        }
        for [client, server] in pairs {
            let mut read = |path: &Path| {
                let cannot = || format!("cannot read {}", path.display());
                written = written.max(last_written(path).with_context(cannot)?);
                std::fs::read(path).with_context(cannot)
            };
            flows.push(Flow {
                client: read(client)?,
                server: read(server)?,
            });
        }
        let source = HttpSource::new(&flows, self.session.as_deref(), written);
        // It may name sessions, and their names are a server's.
        let mut source = source.map_err(|error| anyhow!(printable(&error.to_string(), REMARK)))?;
        for remark in source.remarks() {
            let text = printable(&remark.text, REMARK);
            terminal::complain(format_args!(
                "mcpinspect: connection {}: {text}",
                remark.connection
            ));
        }
        let mut playing = EnginePlayback {
            engine: Engine::new(
                Limits::default(),
                Registry::in_memory(),
                Box::new(NoDetector),
            ),
            output: Collector::new(source.session(), false),
        };
        while source.poll(&mut playing)? == Progress::Open {}
        let (header, entries) = playing.output.finish();
        write(self.output.as_deref(), |out| {
            let mut tape = TapeWriter::new(out, &header)?;
            for entry in &entries {
                tape.entry(entry)?;
            }
            tape.finish()?;
            Ok(())
        })
    }
}

/// When a file was last written.
fn last_written(path: &Path) -> io::Result<Timestamp> {
    let modified = path.metadata()?.modified()?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp(
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
    ))
}

/// The name of this machine.
pub fn host() -> Option<String> {
    let system = uname().ok()?;
    Some(system.nodename().to_string_lossy().into_owned())
}

/// Writes to the named file, which must not exist, or to standard output.
pub fn write(
    output: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = output else {
        let mut written = Ok(());
        terminal::print(|out| {
            written = write(out);
            Ok(())
        })?;
        return match written {
            // Its reader has left, and wants no more.
            Err(error) if is_broken_pipe(&error) => Ok(()),
            other => other,
        };
    };
    let cannot = || format!("cannot write {}", path.display());
    let mut file = NewFile::create(path).with_context(cannot)?;
    write(&mut file).with_context(cannot)?;
    file.finish().with_context(cannot)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
