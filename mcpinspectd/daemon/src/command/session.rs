//! What `run` and `tap` share: checks, the kernel's source, the engine, and signals that end them.

use std::ffi::c_int;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Context as _, bail};
use mcpinspect_capture::capture::Options;
use mcpinspect_capture::discover::WatchPolicy;
use mcpinspect_capture::kernel::{IdentityRequest, KernelEnvironment, KernelOptions, KernelSource};
use mcpinspect_capture::preflight;
use mcpinspect_capture::preflight::Requirements;
use mcpinspect_core::model::{ServerId, Timestamp};
use mcpinspect_core::wire::framing::UNFINISHED_BESIDE;
use mcpinspect_engine::Limits;
use mcpinspect_judge::registry::ServerNames;
use mcpinspect_process::ProcessInfo;
use mcpinspect_process::identity::Examiner;
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_runtime::priority::Priority;
use mcpinspect_runtime::privileges;
use mcpinspect_settings::config::{Config, TagAction, Tags};
use rustix::termios::tcgetwinsize;
use rustix::thread::CapabilitySet;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::heap;

/// Refuses if the probes cannot run, and says what to do about it.
pub fn preflight(config: &Config) -> anyhow::Result<()> {
    let checks = preflight::before_start(&requirements(config));
    if let Some(check) = preflight::first_failure(&checks) {
        bail!(
            "{}: {}. To fix it: {}.",
            check.name,
            check.found,
            check.advice
        );
    }
    Ok(())
}

/// What the checks need to know about the configuration.
pub fn requirements(config: &Config) -> Requirements {
    Requirements {
        btf: config.capture.btf.clone(),
        ring_size: ring_size(config),
    }
}

fn ring_size(config: &Config) -> u32 {
    u32::try_from(config.capture.ring_size.0).unwrap_or(u32::MAX)
}

/// The engine's bounds.
pub fn limits(config: &Config) -> Limits {
    Limits {
        max_message: config.capture.max_message.as_usize(),
        max_unfinished: config
            .capture
            .max_message
            .as_usize()
            .saturating_add(UNFINISHED_BESIDE),
        max_in_flight: config.limits.requests_in_flight,
        patience: config.limits.call_timeout.saturating_mul(1_000_000_000),
    }
}

/// What the configuration says about the probes.
pub fn probes(config: &Config, diagnostics: bool) -> Options {
    Options {
        ring_size: ring_size(config),
        sniff_budget: config.capture.sniff_budget.0,
        btf: config.capture.btf.clone(),
        hook: config.capture.hook,
        connections: config.capture.http,
        tls: config.capture.tls,
        diagnostics,
    }
}

/// What the source is used for.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Accounts of ended streams to keep for the end.
    pub accounts: usize,
    /// The file in which open sessions are saved.
    pub memory: Option<PathBuf>,
    /// The folder in which large unfinished messages wait; in memory without one.
    pub scratch: Option<PathBuf>,
}

/// Loads the probes, gives up the privileges for that, and finds what is already running. Servers keep the
/// names in `names`; `tags` may be replaced, and then apply to programs that start later. `notifier` is
/// the one that ends the source's waits. Call this before any thread is started.
pub fn start(
    config: &Config,
    tags: Arc<RwLock<Tags>>,
    mut names: ServerNames,
    usage: Usage,
    diagnostics: bool,
    notifier: Notifier,
) -> anyhow::Result<KernelSource> {
    heap::return_promptly();
    let options = KernelOptions {
        probes: probes(config, diagnostics),
        max_message: config.capture.max_message.0,
        compare_ends: config.capture.compare_ends,
        max_sessions: config.limits.sessions,
        max_accounts: usage.accounts,
        memory: usage.memory,
        scratch: usage.scratch,
        notifier,
    };
    let run = format!("{:x}", Timestamp::now().0 / 1_000_000_000);
    let examiner = Arc::<Mutex<Examiner>>::default();
    let tag_examiner = Arc::clone(&examiner);
    let policy = move |info: &ProcessInfo| {
        let name = || {
            let mut examiner = tag_examiner.lock().unwrap_or_else(PoisonError::into_inner);
            Some(examiner.process(info).server_id.to_string())
        };
        let tags = tags.read().unwrap_or_else(PoisonError::into_inner);
        match tags.decide(info.process(), name) {
            None => WatchPolicy::Sniff,
            Some(TagAction::Watch) => WatchPolicy::Watch,
            Some(TagAction::Exclude) => WatchPolicy::Exclude,
        }
    };
    let mut unnamed: u64 = 0;
    let identity = move |request: IdentityRequest<'_>| {
        let process = match request {
            IdentityRequest::Launched(server) => server.serving.or(server.origin),
            IdentityRequest::Url { client, .. } => client,
        };
        let uid = process.map(|process| process.process().uid);
        let mut examiner = examiner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut identity = match request {
            IdentityRequest::Launched(server) => examiner.server(server),
            IdentityRequest::Url { url, client } => examiner.url(url, client),
        };
        if identity.name_source == "unknown" {
            // Nothing is known about it: it must not be held to the pins of others like it.
            unnamed += 1;
            identity.server_id = ServerId(format!("unknown-{run}-{unnamed}").into());
            return identity;
        }
        names.assign(uid, identity)
    };
    let mut left = Ok(CapabilitySet::empty());
    let source = KernelSource::start(&options, |probes| {
        // No thread that stays has been started yet, except the one that attaches probes to TLS libraries: each
        // will have as few privileges as this one.
        left = privileges::drop_unneeded();
        KernelEnvironment::new(probes, Box::new(policy), Box::new(identity))
    })
    .map_err(|error| {
        let advice = error.advice();
        anyhow::Error::new(error).context(format!("cannot start the probes; {advice}"))
    })?;
    let left = left.context("cannot give up privileges")?;
    tracing::debug!(?left, "capabilities");
    Ok(source)
}

/// Columns of the terminal on standard output; `None` if there is none.
pub fn terminal_width() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// A flag that SIGINT and SIGTERM set. A second signal ends the program at once.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}

/// Makes signals end the wait of the thread behind `notifier`, in addition to what their own handlers do. Starts a
/// thread.
pub fn wake_on_signals(signals: &[c_int], notifier: Notifier) -> anyhow::Result<()> {
    let mut signals = Signals::new(signals).context("cannot handle signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            Priority::Pipeline.claim();
            signals.forever().for_each(|_| notifier.notify());
        })
        .context("cannot start a thread")?;
    Ok(())
}
