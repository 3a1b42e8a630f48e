//! `mcpinspectd run`: the daemon.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mcpinspect_cli::logging;
use mcpinspect_core::model::{Pid, SessionId, Timestamp};
use mcpinspect_core::source;
use mcpinspect_core::source::Source as _;
use mcpinspect_core::wire::held::Scratch;
use mcpinspect_engine::event::Event;
use mcpinspect_engine::{Engine, Output, OutputSink};
use mcpinspect_judge::detect::rules::Lesson;
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_process as process;
use mcpinspect_process::ProcessSnapshot;
use mcpinspect_process::program::Program;
use mcpinspect_process::program::background::Background;
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_runtime::priority::Priority;
use mcpinspect_runtime::queue::Bounds;
use mcpinspect_settings::approvals::folder as approvals;
use mcpinspect_settings::approvals::folder::{ApprovalChanges, ApprovalFolder};
use mcpinspect_settings::config::{Config, Tags};
use mcpinspect_settings::suppression::{Suppression, SuppressionError};
use mcpinspect_settings::{lessons, suppression};
use mcpinspect_store::messages as message_store;
use mcpinspect_store::messages::{Recorder, StoreFile};
use mcpinspect_store::query::Worker;
use mcpinspect_store::registry as store;
use mcpinspect_store::registry::Outbox;
use mcpinspectd::control;
use mcpinspectd::control::{ContainmentJob, ContainmentThread};
use mcpinspectd::pipeline::outputs::{Running, Settings};
use mcpinspectd::pipeline::{Host, MessageQueue, Pipeline, Reloaded, message_queue};
use mcpinspectd::service::Endpoint;
use mcpinspectd::sink::Sinks;
use mcpinspectd::sink::jsonl::Target;
use mcpinspectd::status::metrics::{MetricsFile, Snapshot};
use mcpinspectd::systemd;
use mcpinspectd::systemd::{Heartbeat, Watchdog};
use nix::fcntl::{Flock, FlockArg};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::detection::Rules;
use super::heap::HeapTrim;
use super::play;
use super::policy;
use super::session;

/// What the service manager shows.
const WATCHING: &str = "watching every MCP server on this machine";

/// How long the sinks may take at the end to write what waits.
const FINISH: Duration = Duration::from_millis(800);

/// About what the daemon allocates for a record, beside its bytes.
const RECORD_TAKES: u64 = 256;

/// Records that may wait for the store, and their bytes.
const RECORDS: Bounds = Bounds {
    items: 16_384,
    bytes: 8 << 20,
};

/// Requires root. Stops on SIGTERM or Ctrl-C; on SIGHUP reloads its configuration and rules, and
/// reopens its JSON lines file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Configuration file; without one, /etc/mcpinspectd/config.toml or the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to log: a level (error, warn, info, debug, trace) or a filter like RUST_LOG's
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Examine a tape instead of this machine, print its events as JSON lines, and exit; does not
    /// require root, and neither reads nor changes pins
    #[arg(long, value_name = "FILE")]
    from_tape: Option<PathBuf>,
}

/// Where running sessions are written down: in the directory that the service manager keeps while the
/// service restarts. By hand there is none.
fn session_memory() -> Option<PathBuf> {
    let folder = std::env::var_os("RUNTIME_DIRECTORY")?;
    Some(Path::new(&folder).join("sessions.jsonl"))
}

/// Runs until a signal.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(arguments.config.as_deref())?;
    if let Some(tape) = &arguments.from_tape {
        logging::init(Some(arguments.log.as_deref().unwrap_or("warn")))?;
        return play::play(tape, &config);
    }
    logging::init(arguments.log.as_deref())?;
    session::preflight(&config)?;
    let path = &config.registry.path;
    let folder = make_folder(path)?;
    let _lock = lock(path)?;
    let (registry, writer) = store::open_write_behind(path)
        .with_context(|| format!("cannot use the registry {}", path.display()))?;
    let registry = registry
        .with_sharing(config.registry.share_pins.clone())
        .with_limits(config.registry_limits());
    let names = registry.server_names().clone();
    tracing::debug!(folder = %folder.display(), "state");
    let stop = session::stop_flag()?;
    let reopen = Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reopen)).context("cannot handle SIGHUP")?;

    let suppressions = folder.join(suppression::FILE);
    let tags = Arc::new(RwLock::new(config.tags()));
    let notifier = Notifier::default();
    let (control, requests) = control::channel(notifier.clone());

    let scratch = config.capture.spill.then(|| folder.clone());
    let diagnostics = arguments.log.as_deref() == Some("trace");
    // The rules are read while the kernel examines the probes. The thread that does it has ended before any other
    // is started that stays.
    let (mut source, rules) = std::thread::scope(|scope| {
        let rules = scope.spawn(|| Rules::load(Some(suppressions.clone())));
        let source = session::start(
            &config,
            Arc::clone(&tags),
            names,
            session::Usage {
                memory: session_memory(),
                scratch: scratch.clone(),
                ..session::Usage::default()
            },
            diagnostics,
            notifier.clone(),
        );
        let rules = rules.join().unwrap_or_else(|panic| resume_unwind(panic));
        source.map(|source| (source, rules))
    })?;
    session::wake_on_signals(&[SIGINT, SIGTERM, SIGHUP], notifier)?;
    // Threads start here: what they may do was settled before.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("sinks")
        .on_thread_start(|| Priority::Pipeline.claim())
        .enable_all()
        .build()
        .context("cannot start the runtime for the sinks")?;
    let running = {
        let _runtime = runtime.enter();
        let history = Arc::new(StoreFile::new(&config.messages_path()));
        let queries = Worker::new(&config.messages_path(), Some(&config.registry.path));
        let control = control.clone().with_history(history);
        let control = control.with_queries(Arc::new(queries));
        Running::start(settings(&config), Some(Arc::new(control)))?
    };
    tracing::info!(
        hook = source.hook().as_str(),
        registry = %path.display(),
        "{WATCHING}"
    );
    systemd::ready(WATCHING);
    let heartbeat = Heartbeat::default();
    if let Some(watchdog) = Watchdog::new(heartbeat.clone()) {
        runtime.spawn(watchdog.run());
    }
    let detector = Box::new(RuntimeDetector::new(rules.active()));
    let containment = config.contain.policy();
    let policy = policy::load(&config.policy).unwrap_or_else(|mistakes| {
        tracing::error!("{mistakes}; the policy is not applied");
        None
    });
    let metrics = config.metrics.clone();
    let lists = approval_lists(&config);
    let host = DaemonHost {
        lists,
        config,
        file: arguments.config.clone(),
        tags,
        rules,
        suppressions,
        sinks: running.sinks(),
        programs: Background::start().context("cannot start a thread")?,
        containment: ContainmentThread::start(control).context("cannot start a thread")?,
    };
    let sinks = running.sinks();
    let outbox = writer
        .start(move |event| sinks.publish(&event))
        .context("cannot start the thread that writes the registry")?;
    let mut engine = Engine::new(session::limits(&host.config), registry, detector)
        .with_approval(host.config.approval());
    engine.set_scratch(scratch.map(Scratch::new));
    let output = Publish(outbox);
    let recording = recording(&host.config, running.sinks())?;
    let mut pipeline = Pipeline::new(engine, output, requests, host);
    pipeline.set_containment(containment);
    pipeline.set_policy(policy);
    pipeline.look_at_approvals(Timestamp::now());
    let mut recorder = None;
    if let Some((messages, started)) = recording {
        pipeline = pipeline.with_messages(messages);
        recorder = Some(started);
    }
    let mut metrics = metrics
        .file
        .map(|file| MetricsFile::start(file, Duration::from_secs(metrics.every)))
        .transpose()
        .context("cannot start the thread that writes metrics")?;
    let started = Timestamp::now();
    let sinks = running.sinks();
    let mut heap = HeapTrim::new();
    let Ok(()) = source::run(&mut source, &stop, &mut pipeline, |pipeline, source| {
        heartbeat.beat();
        heap.attend(|| {
            // What loading the last probes took lies unused once they are loaded.
            let loaded = u64::from(!source.is_opening()) * HeapTrim::WORTH;
            let totals = source.totals();
            loaded + totals.bytes + totals.records * RECORD_TAKES
        });
        if reopen.swap(false, Ordering::AcqRel)
            && let Err(error) = pipeline.reload()
        {
            tracing::error!("{error}; the previous configuration stays in use");
        }
        let now = Timestamp::now();
        pipeline.attend(now, || source.account());
        if let Some(metrics) = &mut metrics
            && metrics.is_due(now)
        {
            metrics.write(&Snapshot {
                started,
                capture: source.totals(),
                streams: source.account(),
                events: sinks.view().counts(),
                sinks: sinks.tally(),
                ..pipeline.snapshot()
            });
        }
    });
    systemd::stopping();
    pipeline.engine().registry_mut().save(Timestamp::now());
    let totals = source.totals();
    tracing::info!(
        records = totals.records,
        bytes = totals.bytes,
        records_lost = totals.records_lost,
        bytes_lost = totals.bytes_lost,
        "stopped"
    );
    // Writes what the registry recorded, and lets the remaining events out.
    drop(pipeline);
    drop(recorder);
    runtime.block_on(running.finish(FINISH));
    Ok(())
}

/// The store, at work, where messages are recorded.
fn recording(config: &Config, sinks: Sinks) -> anyhow::Result<Option<(MessageQueue, Recorder)>> {
    if !config.store.enabled {
        return Ok(None);
    }
    let (messages, records) = message_queue(RECORDS);
    let settings = message_store::Settings {
        path: config.messages_path(),
        max_size: config.store.max_size.0,
        rules: config.keeping(),
    };
    let recorder = Recorder::start(settings, records, move |event| sinks.publish(&event))
        .context("cannot start the thread that records messages")?;
    Ok(Some((messages, recorder)))
}

fn settings(config: &Config) -> Settings {
    let jsonl = config.events.jsonl.as_ref().map(|path| {
        if path == Path::new("-") {
            Target::Stdout
        } else {
            Target::File(path.clone())
        }
    });
    Settings {
        journal: config.events.journal,
        bus: config.events.dbus.then_some(Endpoint::System),
        jsonl,
        ..Settings::default()
    }
}

/// The signed lists of approved definitions.
fn approval_lists(config: &Config) -> ApprovalFolder {
    let accepted = config
        .registry
        .path
        .with_file_name(approvals::ACCEPTED_FILE);
    ApprovalFolder::new(&config.approvals.path, &config.approvals.keys, &accepted)
}

/// The registry's folder; made for root and the group that owns the parent, and nobody else.
fn make_folder(registry: &Path) -> anyhow::Result<PathBuf> {
    let folder = registry.parent().unwrap_or(Path::new("."));
    if !folder.as_os_str().is_empty() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(folder)
            .with_context(|| format!("cannot create the directory {}", folder.display()))?;
    }
    Ok(folder.to_owned())
}

/// Makes sure that one daemon alone writes a registry.
fn lock(registry: &Path) -> anyhow::Result<Flock<File>> {
    let mut path = registry.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => bail!(
            "another mcpinspectd is running with the registry {}; stop it (`systemctl stop mcpinspectd`) or name another registry in the configuration",
            registry.display()
        ),
        Err((_, error)) => bail!("cannot lock {}: {error}", path.display()),
    }
}

/// Passes events to the sinks, each after the registry's writes that precede it.
struct Publish(Outbox<Event>);

impl OutputSink for Publish {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.0.push(event.clone());
        }
    }
}

/// What of this program can be changed while it runs.
struct DaemonHost {
    config: Config,
    /// The file that was named.
    file: Option<PathBuf>,
    tags: Arc<RwLock<Tags>>,
    rules: Rules,
    /// Where suppressions and lessons are written.
    suppressions: PathBuf,
    sinks: Sinks,
    lists: ApprovalFolder,
    programs: Background,
    containment: ContainmentThread,
}

impl Host for DaemonHost {
    fn reload(&mut self) -> Result<Reloaded, String> {
        systemd::reloading();
        let reloaded = Config::load(self.file.as_deref()).map_err(|error| error.to_string());
        systemd::ready(WATCHING);
        let config = reloaded?;
        let shadow = policy::load(&config.policy)?;
        let later = self.config.needs_restart(&config);
        if !later.is_empty() {
            tracing::warn!(
                sections = later.join(", "),
                "changes to these settings take effect after a restart"
            );
        }
        *self.tags.write().unwrap_or_else(PoisonError::into_inner) = config.tags();
        self.rules.reload();
        self.lists = approval_lists(&config);
        self.sinks.reopen();
        tracing::info!("configuration reloaded");
        Ok(Reloaded {
            policy: config.contain.policy(),
            approval: config.approval(),
            shadow,
        })
    }

    fn reload_rules(&mut self) {
        self.rules.reload();
    }

    fn approvals(&mut self, now: Timestamp) -> Option<ApprovalChanges> {
        self.lists.check(now)
    }

    fn suppress(
        &mut self,
        suppression: Suppression,
        now: Timestamp,
    ) -> Result<(), SuppressionError> {
        suppression.add_to(&self.suppressions, now)
    }

    fn learn(&mut self, lesson: Lesson) -> Result<bool, SuppressionError> {
        lessons::learn(&self.suppressions, lesson)
    }

    fn take_back(&mut self, user: u32, server: &str) -> Result<bool, SuppressionError> {
        lessons::take_back(&self.suppressions, user, server)
    }

    fn start_time(&self, pid: Pid) -> Option<u64> {
        process::start_time(pid)
    }

    fn process(&self, pid: Pid) -> Option<ProcessSnapshot> {
        process::snapshot(pid)
    }

    fn examine(&self, session: &SessionId, pid: Pid, start_time: Option<u64>) {
        self.programs.look_at(session, pid, start_time);
    }

    fn examined(&self) -> Option<(SessionId, Program)> {
        self.programs.found().next()
    }

    fn contain(&self, job: ContainmentJob) {
        self.containment.contain(job);
    }
}
