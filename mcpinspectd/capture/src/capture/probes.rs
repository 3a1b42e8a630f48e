//! The loaded probes, and the maps that they share with the daemon.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::Iter;
use aya::{Btf, Ebpf, EbpfLoader};
use mcpinspect_common::{
    CONNECTIONS_SHARE, End, EndpointCounters, EndpointKey, EndpointWatch, LeftAlone, RING_SHARES,
    Stat, TlsPartyKey, left_alone_key, ring_share_slot, tls_scope,
};
use mcpinspect_core::model::{BootTime, HookChoice, TlsChoice};
use mcpinspect_process as process;

use super::error::ProbeError;
use super::hook::Hook;
use super::layout::Layout;
use super::loading::{self, Target};
use super::mapped::MappedWords;
use super::object::{attach_raw, map, mapped, program};
use super::operations;
use super::return_probes;
use super::ring::Ring;
use super::survey::Survey;
use super::switchover::Switchover;
use super::tables;
use super::tls::{TlsLoader, TlsMaps};
use super::tracked::TrackedProcesses;
use super::uprobe_multi;

/// Where a kernel describes its own types.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Time between two reports of missed calls.
const MISSED_CALLS_INTERVAL: Duration = Duration::from_secs(60);

/// The iterator over all descriptors of all processes.
const ITERATOR: &str = "descriptors";
/// The iterator over all threads.
const SURVEY: &str = "survey_tasks";

pub(super) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes.o"));

/// What the loader needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the ring in bytes: a power of two, and a multiple of the page size.
    pub ring_size: u32,
    /// Bytes per end to ship of a stream that may or may not be MCP.
    pub sniff_budget: u64,
    /// Type information for the running kernel, if it has none of its own.
    pub btf: Option<PathBuf>,
    /// How to hook system calls.
    pub hook: HookChoice,
    /// Whether to look at TCP connections.
    pub connections: bool,
    /// Whether to look at the plain text of those that carry TLS.
    pub tls: TlsChoice,
    /// Whether the probes log their decisions.
    pub diagnostics: bool,
}

/// The running probes, and the daemon's side of what they share. Dropping this value detaches them.
pub struct Probes {
    ebpf: Arc<Mutex<Ebpf>>,
    hook: Hook,
    /// Where to look at the plain text of TLS connections.
    tls: TlsChoice,
    /// What the probes for that need, until someone takes it.
    tls_maps: Option<TlsMaps>,
    /// Present until the tracepoint is detached.
    switchover: Option<Switchover>,
    /// Missed calls already reported in the log, and when to check again.
    missed_reported: u64,
    next_missed_report: BootTime,
    /// The processes whose calls are captured.
    pub tracked: TrackedProcesses,
    watches: HashMap<MapData, EndpointKey, EndpointWatch>,
    counters: HashMap<MapData, EndpointKey, EndpointCounters>,
    endpoints: u32,
    left_alone: HashMap<MapData, u64, LeftAlone>,
    /// Forgotten connections, by share.
    closed: MappedWords,
    candidates: HashMap<MapData, EndpointKey, u8>,
    tls_parties: HashMap<MapData, TlsPartyKey, u32>,
    stats: PerCpuArray<MapData, u64>,
    logger: Option<aya_log::EbpfLogger<&'static dyn log::Log>>,
}

impl Probes {
    /// Loads and attaches the probes. Returns them and the ring that they write to.
    ///
    /// # Errors
    /// See [`ProbeError`]; nothing stays attached.
    pub fn load(options: &Options) -> Result<(Self, Ring), ProbeError> {
        if let Some(reason) = probes_missing() {
            return Err(ProbeError::NotBuilt(reason));
        }
        let endpoints = tables::endpoints();
        let by_process = options.tls != TlsChoice::Off && uprobe_multi::is_supported();
        // The kernel's types are read three times: for the layout, for what needs them here, and by the loader for
        // itself. Each takes a tenth of the startup time, so they are read in parallel.
        let (loaded, types) = thread::scope(|scope| {
            let layout = scope.spawn(|| layout(options));
            // A file's types are for the layout alone.
            let types = options.btf.is_none().then(|| scope.spawn(Btf::from_sys_fs));
            let loaded = load_object(options, endpoints, || {
                let layout = joined(layout)?;
                let tls = tls_choice(options, &layout, by_process);
                Ok((layout, tls))
            });
            (loaded, types.map(joined).transpose())
        });
        let (mut ebpf, tls) = loaded?;
        let types = types.map_err(|error| ProbeError::Load(error.into()))?;
        // Before any map is taken out of the object.
        let tls_maps = (tls != TlsChoice::Off)
            .then(|| TlsMaps::of(&mut ebpf, by_process))
            .transpose()?;

        let mut operations: Array<_, u8> = map(&mut ebpf, "OPERATIONS")?;
        for (number, operation) in operations::table() {
            operations
                .set(number, operation as u8, 0)
                .map_err(|error| ProbeError::Map {
                    map: "OPERATIONS",
                    error,
                })?;
        }
        let read = mapped(&ebpf, "RING_READ", |array| {
            MappedWords::new(array, RING_SHARES)
        })?;
        let ring = Ring::new(map(&mut ebpf, "RECORDS")?, read);
        let tracked = mapped(&ebpf, "TRACKED", |array| TrackedProcesses::new(array))?;
        let logger = options
            .diagnostics
            .then(|| aya_log::EbpfLogger::init(&mut ebpf))
            .transpose()
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot receive diagnostics from the probes");
                None
            });
        let (hook, switchover) = attach(&mut ebpf, options.hook, types.as_ref())?;
        let probes = Self {
            hook,
            switchover,
            missed_reported: 0,
            next_missed_report: BootTime::default(),
            tracked,
            watches: map(&mut ebpf, "WATCHES")?,
            counters: map(&mut ebpf, "COUNTERS")?,
            endpoints,
            left_alone: map(&mut ebpf, "LEFT_ALONE")?,
            closed: mapped(&ebpf, "CONNECTIONS_CLOSED", |array| {
                MappedWords::new(array, RING_SHARES)
            })?,
            candidates: map(&mut ebpf, "CANDIDATES")?,
            tls_parties: map(&mut ebpf, "TLS_PARTIES")?,
            stats: map(&mut ebpf, "STATS")?,
            logger,
            tls,
            tls_maps,
            ebpf: Arc::new(Mutex::new(ebpf)),
        };
        Ok((probes, ring))
    }

    /// What loads the probes for TLS libraries, on another thread; `None` if they are not wanted.
    pub fn tls(&mut self) -> Option<(TlsLoader, TlsChoice)> {
        let loader = TlsLoader::new(OBJECT, self.tls_maps.take()?, Arc::clone(&self.ebpf));
        Some((loader, self.tls))
    }

    /// The loaded object. A thread that attaches probes to a library holds it for some milliseconds.
    fn object(&self) -> MutexGuard<'_, Ebpf> {
        self.ebpf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How system calls are hooked.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Stops the flow of records. What is in the ring can still be read.
    pub fn detach(&mut self) {
        self.hook.detach(&mut self.object());
        if self.switchover.take().is_some() {
            Hook::TypedTracepoint.detach(&mut self.object());
        }
    }

    /// Detaches the tracepoint as soon as function exits see every call. Call it several times a second.
    pub fn finish_switchover(&mut self, now: BootTime) {
        let due = self
            .switchover
            .as_mut()
            .is_some_and(|switchover| switchover.is_due(now));
        let Some(switchover) = self.switchover.as_ref().filter(|_| due) else {
            return;
        };
        if switchover.is_awaiting_calls(&self.tracked, &self.watched_inodes()) {
            return;
        }
        Hook::TypedTracepoint.detach(&mut self.object());
        if let Some(mut switchover) = self.switchover.take()
            && let Err(error) = switchover.set(false)
        {
            // The function exits keep noting threads, which costs a little and changes nothing.
            tracing::debug!(%error, "cannot notify the probes that the switchover is complete");
        }
        tracing::info!(
            "function exits have replaced the tracepoint: other system calls have no overhead any more"
        );
    }

    /// Calls that went unseen because a probe was already running on the same CPU. More than 0 only
    /// where [`Hook::warning`] has something to say.
    pub fn calls_missed(&self) -> u64 {
        self.hook.calls_missed(&self.object())
    }

    /// Logs missed calls, at most once a minute.
    pub fn report_missed_calls(&mut self, now: BootTime) {
        if now < self.next_missed_report {
            return;
        }
        self.next_missed_report = now + MISSED_CALLS_INTERVAL;
        let missed = self.calls_missed();
        if missed > self.missed_reported {
            tracing::warn!(
                more = missed - self.missed_reported,
                missed,
                "the kernel has preempted the probes and skipped calls of some processes: if these were MCP servers, messages are missing"
            );
            self.missed_reported = missed;
        }
    }

    /// How many endpoints there is room for.
    pub fn endpoints_max(&self) -> u32 {
        self.endpoints
    }

    /// Sets how much of an endpoint is watched.
    pub fn set_watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        if let Err(error) = self.watches.insert(key, watch, 0) {
            tracing::warn!(?key, %error, "cannot change how an endpoint is watched");
        }
    }

    /// The counters of an endpoint; `None` if it is not registered.
    pub fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        self.counters.get(&key, 0).ok()
    }

    /// Device and inode of every endpoint whose bytes are counted.
    pub fn watched_inodes(&self) -> HashSet<(u64, u64)> {
        self.watches
            .iter()
            .filter_map(Result::ok)
            .filter(|(_, watch)| watch.counted != 0)
            .map(|(key, _)| (u64::from(key.dev), key.ino))
            .collect()
    }

    /// Forgets an endpoint whose inode is gone.
    pub fn forget(&mut self, key: EndpointKey) {
        // The watch goes first: without it nothing is counted. Either may already be missing.
        let _ = self.watches.remove(&key);
        let _ = self.counters.remove(&key);
    }

    /// Leaves the socket of a connection alone until further notice, and forgets its endpoint, which `uid`
    /// registered.
    pub fn leave_connection(&mut self, key: EndpointKey, left: LeftAlone, uid: u32) {
        // Do this first: nothing may be examined in between.
        if let Err(error) = self.left_alone.insert(left_alone_key(&key), left, 0) {
            tracing::debug!(?key, %error, "cannot stop watching a connection");
        }
        self.forget_connection(key, uid);
    }

    /// Forgets the endpoint of a connection, which `uid` registered.
    pub fn forget_connection(&mut self, key: EndpointKey, uid: u32) {
        self.forget(key);
        for share in [0, usize::from(ring_share_slot(uid))] {
            if let Some(closed) = self.closed.all().get(share) {
                closed.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Registers existing endpoints, wherever they are open, and tracks the processes that
    /// hold them. Each comes back as a record. Also notes which processes have TCP connections.
    ///
    /// Does nothing with [`Hook::RawTracepoint`]: iterators need BTF of the running kernel.
    ///
    /// # Errors
    /// The kernel refuses the iterator.
    pub fn register(
        &mut self,
        keys: impl IntoIterator<Item = EndpointKey>,
    ) -> Result<(), ProbeError> {
        if self.hook == Hook::RawTracepoint {
            return Ok(());
        }
        let keys: Vec<EndpointKey> = keys.into_iter().collect();
        self.walk_descriptors(&keys)?;
        // Registering a socket reveals its peer. A second walk tracks the processes that hold the peer.
        let peers: Vec<EndpointKey> = keys
            .iter()
            .filter_map(|key| {
                let ino = self.counters(*key)?.peer_ino;
                (ino != 0).then_some(EndpointKey { ino, ..*key })
            })
            .collect();
        if peers.is_empty() {
            return Ok(());
        }
        self.walk_descriptors(&peers)
    }

    /// Runs the iterator over all descriptors of all processes; it registers those in `keys`.
    fn walk_descriptors(&mut self, keys: &[EndpointKey]) -> Result<(), ProbeError> {
        let mut inserted = Vec::new();
        for key in keys {
            match self.candidates.insert(key, 1, 0) {
                Ok(()) => inserted.push(key),
                Err(error) => tracing::warn!(?key, %error, "cannot look for an endpoint"),
            }
        }
        let mut walk = self.open_iterator(ITERATOR)?;
        // Reading the iterator's (empty) output makes the kernel walk.
        std::io::copy(&mut walk, &mut std::io::sink())?;
        for key in inserted {
            let _ = self.candidates.remove(key);
        }
        Ok(())
    }

    /// Prepares a [`Survey`]; `None` with [`Hook::RawTracepoint`], which has no
    /// iterators.
    ///
    /// # Errors
    /// The kernel refuses the iterator.
    pub fn survey(&mut self) -> Result<Option<Survey>, ProbeError> {
        if self.hook == Hook::RawTracepoint {
            return Ok(None);
        }
        self.open_iterator(SURVEY).map(Survey::new).map(Some)
    }

    /// A file that runs the iterator `name` when it is read.
    fn open_iterator(&mut self, name: &'static str) -> Result<File, ProbeError> {
        let refused = |error| ProbeError::refused(name, error);
        let mut object = self.object();
        let iterator: &mut Iter = program(&mut object, name)?;
        let link = iterator.attach().map_err(refused)?;
        let link = iterator.take_link(link).map_err(refused)?;
        Ok(link.into_file().map_err(std::io::Error::other)?)
    }

    /// The process whose end a TLS connection's greeting first crossed; `None` if none was seen, or
    /// `greeting` is 0.
    pub fn tls_party(&self, greeting: u64, end: End) -> Option<u32> {
        if greeting == 0 {
            return None;
        }
        let end = end as u64;
        self.tls_parties.get(&TlsPartyKey { greeting, end }, 0).ok()
    }

    /// A statistic of the probes, summed over all CPUs.
    pub fn stat(&self, stat: Stat) -> u64 {
        self.stats
            .get(&(stat as u32), 0)
            .map_or(0, |slots| slots.iter().sum())
    }

    /// Writes the probes' own log, if [`Options::diagnostics`] asked for it.
    pub fn flush_log(&mut self) {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
    }
}

/// Whether to look at TCP connections. Without iterators, nothing tells when one is gone.
fn looks_at_connections(options: &Options, layout: &Layout) -> bool {
    options.connections && layout.connections && options.btf.is_none()
}

/// Where to look into TLS. `by_process`: whether probes can be attached for one process.
fn tls_choice(options: &Options, layout: &Layout, by_process: bool) -> TlsChoice {
    match options.tls {
        _ if !looks_at_connections(options, layout) => TlsChoice::Off,
        TlsChoice::Processes if !by_process => {
            tracing::info!(
                "this kernel cannot attach probes to a library for one process; TLS is not decrypted"
            );
            TlsChoice::Off
        }
        TlsChoice::Processes | TlsChoice::Machine if !return_probes::are_harmless() => {
            tracing::warn!(
                "on this kernel, return probes can kill processes that filter their system calls; TLS is not decrypted"
            );
            TlsChoice::Off
        }
        choice => choice,
    }
}

/// Creates the maps and relocates the programs for this kernel; nothing is attached yet.
fn load_object(
    options: &Options,
    endpoints: u32,
    found: impl FnOnce() -> Result<(Layout, TlsChoice), ProbeError>,
) -> Result<(Ebpf, TlsChoice), ProbeError> {
    // These are borrowed as long as the loader exists, and creating it reads the kernel's types.
    let (layout, connections, tls);
    let own_tgid = process::own().0;
    let compat_by_cs = u32::from(cfg!(target_arch = "x86_64"));
    let connections_max = endpoints / CONNECTIONS_SHARE;
    let log_level = if options.diagnostics {
        aya_log::Level::Trace as u8
    } else {
        0
    };
    let mut loader = EbpfLoader::new();
    if options.btf.is_some() {
        loader.btf(None);
    }
    let choice;
    (layout, choice) = found()?;
    connections = u32::from(looks_at_connections(options, &layout));
    tls = match choice {
        TlsChoice::Off => tls_scope::OFF,
        TlsChoice::Processes => tls_scope::PROCESSES,
        TlsChoice::Machine => tls_scope::MACHINE,
    };
    loader
        .map_max_entries("RECORDS", options.ring_size)
        .map_max_entries("WATCHES", endpoints)
        .map_max_entries("COUNTERS", endpoints)
        .map_max_entries("CANDIDATES", endpoints)
        .override_global("OWN_TGID", &own_tgid, true)
        .override_global("COMPAT_BY_CS", &compat_by_cs, true)
        .override_global("SNIFF_BUDGET", &options.sniff_budget, true)
        .override_global("CONNECTIONS", &connections, true)
        .override_global("TLS", &tls, true)
        .override_global("CONNECTIONS_MAX", &connections_max, true)
        .override_global(aya_log::LEVEL, &log_level, true);
    for (name, value) in &layout.globals {
        loader.override_global(name, value, true);
    }
    let loaded = loader.load(OBJECT).map_err(ProbeError::not_loaded)?;
    Ok((loaded, choice))
}

/// Where the fields are that the probes read.
fn layout(options: &Options) -> Result<Layout, ProbeError> {
    let path = options.btf.as_deref().unwrap_or(Path::new(KERNEL_BTF));
    let types = std::fs::read(path).map_err(|error| ProbeError::NoBtf {
        path: path.to_owned(),
        error,
    })?;
    Ok(Layout::from_btf(&types)?)
}

/// A thread's result.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Attaches everything, and returns how system calls are hooked.
fn attach(
    ebpf: &mut Ebpf,
    choice: HookChoice,
    types: Option<&Btf>,
) -> Result<(Hook, Option<Switchover>), ProbeError> {
    let mut hook = Hook::first(choice, types.is_some());
    if let Err(error) = load_programs(ebpf, hook, types) {
        hook = hook.fallback(choice).ok_or(error)?;
        load_programs(ebpf, hook, types)?;
    }
    // Attach the programs that follow processes first, so that no process makes calls before it is tracked.
    attach_raw(ebpf, "process_fork", "sched_process_fork")?;
    attach_raw(ebpf, "process_exit", "sched_process_exit")?;
    let (hook, switchover) = hook.attach(choice, types, ebpf)?;
    attach_raw(ebpf, "process_exec", "sched_process_exec")?;
    Ok((hook, switchover))
}

/// Loads everything that is attached at once.
fn load_programs(ebpf: &mut Ebpf, hook: Hook, types: Option<&Btf>) -> Result<(), ProbeError> {
    let following = ["process_exec", "process_fork", "process_exit"];
    let iterators = [(ITERATOR, "task_file"), (SURVEY, "task")]
        .map(|(name, kind)| (name, Target::Iterator(kind)));
    let mut wanted = hook.targets();
    wanted.extend(following.map(|name| (name, Target::Any)));
    if types.is_some() {
        wanted.extend(iterators);
    }
    loading::load(ebpf, &wanted, types)
}

/// Why this program was built without probes; `None` if it has them.
pub fn probes_missing() -> Option<&'static str> {
    let reason = env!("MCPINSPECT_PROBES_MISSING");
    (!reason.is_empty()).then_some(reason)
}
