//! Loading the probes into the kernel, and the handles to what they share.

use std::path::{Path, PathBuf};

use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::{Iter, ProgramError, RawTracePoint};
use aya::{Ebpf, EbpfError, EbpfLoader};
use mcpinspect_common::{EndpointCounters, EndpointKey, EndpointWatch, Stat};
use thiserror::Error;

use super::btf::{Btf, BtfError};
use super::handover::Handover;
use super::hook::{Hook, HookChoice};
use super::layout::Layout;
use super::operations;
use super::tracked::TrackedProcesses;

/// Where kernels describe their own types.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// How often missed calls are told, in nanoseconds.
const MISSES_EVERY: u64 = 60_000_000_000;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes.o"));

/// Why the probes do not run. Each message says what is wrong; [`ProbeError::advice`] what to do.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The program was built where the eBPF tool chain was missing.
    #[error("this program was built without its eBPF probes: {0}")]
    NotBuilt(&'static str),
    /// No type information.
    #[error("cannot read the kernel's type information from {path}: {error}")]
    NoBtf {
        /// Where it was looked for.
        path: PathBuf,
        /// Why it could not be read.
        error: std::io::Error,
    },
    /// Type information that the probes cannot use.
    #[error("cannot use the kernel's type information: {0}")]
    Btf(#[from] BtfError),
    /// The kernel refuses to load eBPF programs for this process.
    #[error("the kernel does not let this process load eBPF programs")]
    NotPermitted,
    /// The configuration asks for a hook that the kernel does not have.
    #[error("this kernel does not let the exits of its functions be hooked")]
    NoFunctionExits,
    /// The kernel has no ring buffer.
    #[error("this kernel has no eBPF ring buffer")]
    NoRingBuffer,
    /// Anything else while loading.
    #[error("cannot load the probes: {0}")]
    Load(#[source] EbpfError),
    /// A program is refused.
    #[error("cannot load or attach the probe `{program}`: {error}")]
    Program {
        /// Which one.
        program: &'static str,
        /// Why.
        #[source]
        error: ProgramError,
    },
    /// A map cannot be used.
    #[error("cannot use the probes' map `{map}`: {error}")]
    Map {
        /// Which one.
        map: &'static str,
        /// Why.
        #[source]
        error: MapError,
    },
    /// The object file lacks something: it belongs to another version.
    #[error("the probes have no `{0}`")]
    Incomplete(&'static str),
    /// The shared table cannot be mapped, or a descriptor cannot be had.
    #[error("cannot share memory with the probes: {0}")]
    Io(#[from] std::io::Error),
}

impl ProbeError {
    /// One sentence: what to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NotBuilt(_) => {
                "run `cargo xtask build-ebpf`, which installs what is missing and builds them."
            }
            Self::NoBtf { .. } => {
                "use a kernel with CONFIG_DEBUG_INFO_BTF=y, or point `[capture] btf` in the configuration to a BTF file of exactly this kernel."
            }
            Self::Btf(_) => {
                "report the kernel version: a field that the probes read has moved or gone."
            }
            Self::NotPermitted => {
                "run as root, or with the capabilities CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; kernels in lockdown mode `confidentiality` refuse everybody."
            }
            Self::NoFunctionExits => {
                "set `hook = \"auto\"` in the configuration's [capture] section, which takes the tracepoint here."
            }
            Self::NoRingBuffer => "use Linux 5.8 or newer.",
            Self::Load(_)
            | Self::Program { .. }
            | Self::Map { .. }
            | Self::Incomplete(_)
            | Self::Io(_) => "run `mcpinspectd check` for what this kernel offers.",
        }
    }
}

/// What the loader needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the ring: a power of two, and a multiple of the page size.
    pub ring_size: u32,
    /// Bytes per end that are shipped of a stream that may or may not be MCP.
    pub sniff_budget: u64,
    /// Type information of the running kernel, where it does not bring its own.
    pub btf: Option<PathBuf>,
    /// How system calls are to be hooked.
    pub hook: HookChoice,
    /// Let the probes log what they decide.
    pub diagnostics: bool,
}

/// The running probes, and the daemon's side of what they share. They end with this value.
pub struct Probes {
    ebpf: Ebpf,
    hook: Hook,
    /// Until the tracepoint is taken away.
    handover: Option<Handover>,
    /// Missed calls that were told, and when to look again.
    misses_told: u64,
    next_misses: u64,
    /// Which processes pay for a look-up.
    pub tracked: TrackedProcesses,
    watches: HashMap<MapData, EndpointKey, EndpointWatch>,
    counters: HashMap<MapData, EndpointKey, EndpointCounters>,
    candidates: HashMap<MapData, EndpointKey, u8>,
    stats: PerCpuArray<MapData, u64>,
    logger: Option<aya_log::EbpfLogger<&'static dyn log::Log>>,
}

impl Probes {
    /// Loads and attaches the probes. Gives them and the ring that they write to.
    ///
    /// # Errors
    /// See [`ProbeError`]; nothing stays attached.
    pub fn load(options: &Options) -> Result<(Self, RingBuf<MapData>), ProbeError> {
        if let Some(reason) = probes_missing() {
            return Err(ProbeError::NotBuilt(reason));
        }
        let path = options.btf.as_deref().unwrap_or(Path::new(KERNEL_BTF));
        let types = std::fs::read(path).map_err(|error| ProbeError::NoBtf {
            path: path.to_owned(),
            error,
        })?;
        let layout = resolve_layout(&types)?;
        let own_tgid = crate::process::own().0;
        let compat_by_cs = u32::from(cfg!(target_arch = "x86_64"));
        let log_level = if options.diagnostics {
            aya_log::Level::Trace as u8
        } else {
            0
        };
        let mut loader = EbpfLoader::new();
        loader
            .map_max_entries("RECORDS", options.ring_size)
            .override_global("OWN_TGID", &own_tgid, true)
            .override_global("COMPAT_BY_CS", &compat_by_cs, true)
            .override_global("SNIFF_BUDGET", &options.sniff_budget, true)
            .override_global(aya_log::LEVEL, &log_level, true);
        for (name, value) in &layout.globals {
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader.load(OBJECT).map_err(not_loaded)?;

        let mut operations: Array<_, u8> = map(&mut ebpf, "OPERATIONS")?;
        for (number, operation) in operations::table() {
            operations
                .set(number, operation as u8, 0)
                .map_err(|error| ProbeError::Map {
                    map: "OPERATIONS",
                    error,
                })?;
        }
        let ring = map(&mut ebpf, "RECORDS")?;
        let tracked = match ebpf.map("TRACKED") {
            Some(aya::maps::Map::Array(data)) => {
                TrackedProcesses::new(data.fd()).map_err(std::io::Error::from)?
            }
            _ => return Err(ProbeError::Incomplete("TRACKED")),
        };
        let logger = options
            .diagnostics
            .then(|| aya_log::EbpfLogger::init(&mut ebpf))
            .transpose()
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "no diagnostics of the probes");
                None
            });
        let types_from_file = options.btf.is_some();
        let (hook, handover) = attach(&mut ebpf, options.hook, types_from_file)?;
        let probes = Self {
            hook,
            handover,
            misses_told: 0,
            next_misses: 0,
            tracked,
            watches: map(&mut ebpf, "WATCHES")?,
            counters: map(&mut ebpf, "COUNTERS")?,
            candidates: map(&mut ebpf, "CANDIDATES")?,
            stats: map(&mut ebpf, "STATS")?,
            logger,
            ebpf,
        };
        Ok((probes, ring))
    }

    /// How system calls are hooked.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Ends the flow of records; what is in the ring stays there to be read.
    pub fn detach(&mut self) {
        self.hook.detach(&mut self.ebpf);
        if self.handover.take().is_some() {
            Hook::TypedTracepoint.detach(&mut self.ebpf);
        }
    }

    /// Takes the tracepoint away as soon as function exits see all calls. `now` is in nanoseconds since
    /// boot; call it several times a second.
    pub fn finish_switchover(&mut self, now: u64) {
        let due = self
            .handover
            .as_mut()
            .is_some_and(|handover| handover.is_due(now));
        let Some(handover) = self.handover.as_ref().filter(|_| due) else {
            return;
        };
        if handover.is_awaited(&self.tracked, &self.watched_inodes()) {
            return;
        }
        Hook::TypedTracepoint.detach(&mut self.ebpf);
        if let Some(mut handover) = self.handover.take()
            && let Err(error) = handover.set(false)
        {
            // The function exits go on noting threads, which costs a little and changes nothing.
            tracing::debug!(%error, "the end of the handing over is not noted");
        }
        tracing::info!(
            "function exits have taken over from the tracepoint: other system calls pay nothing from now on"
        );
    }

    /// Calls that were not looked at because the probes were at work on the same CPU already: only
    /// where [`Hook::caution`] has something to say.
    pub fn calls_missed(&self) -> u64 {
        self.hook.missed(&self.ebpf)
    }

    /// Tells in the log of calls that were missed, once a minute at most. `now` is in nanoseconds since
    /// boot.
    pub fn report_missed_calls(&mut self, now: u64) {
        if now < self.next_misses {
            return;
        }
        self.next_misses = now.saturating_add(MISSES_EVERY);
        let missed = self.calls_missed();
        if missed > self.misses_told {
            tracing::warn!(
                more = missed - self.misses_told,
                missed,
                "the kernel has interrupted the probes and skipped calls of some processes: where these were of MCP servers, messages are missing"
            );
            self.misses_told = missed;
        }
    }

    /// Sets how far an endpoint is watched.
    pub fn set_watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        if let Err(error) = self.watches.insert(key, watch, 0) {
            tracing::warn!(?key, %error, "cannot change a watch");
        }
    }

    /// What was counted at an endpoint; `None` if it is not known.
    pub fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        self.counters.get(&key, 0).ok()
    }

    /// Device and inode of every endpoint that is counted.
    pub fn watched_inodes(&self) -> std::collections::HashSet<(u64, u64)> {
        self.watches
            .iter()
            .filter_map(Result::ok)
            .filter(|(_, watch)| watch.counted != 0)
            .map(|(key, _)| (u64::from(key.dev), key.ino))
            .collect()
    }

    /// Forgets an endpoint: its inode is gone.
    pub fn forget(&mut self, key: EndpointKey) {
        // The watch first: without it nothing is counted. Either may be missing by now.
        let _ = self.watches.remove(&key);
        let _ = self.counters.remove(&key);
    }

    /// Registers endpoints that exist already, wherever they are open, and marks the holders. Each
    /// comes back as a record.
    ///
    /// Does nothing with [`Hook::RawTracepoint`]: iterators need the kernel's own types.
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
        self.walk(&keys)?;
        // A socket's registration makes its peer known. Who holds that one is marked by a second walk.
        let peers: Vec<EndpointKey> = keys
            .iter()
            .filter_map(|key| {
                let ino = self.counters(*key)?.peer_ino;
                (ino != 0).then_some(EndpointKey { ino, ..*key })
            })
            .collect();
        self.walk(&peers)
    }

    /// Has the kernel go through all descriptors of all processes and stop at `keys`.
    fn walk(&mut self, keys: &[EndpointKey]) -> Result<(), ProbeError> {
        const NAME: &str = "descriptors";
        let mut inserted = Vec::new();
        for key in keys {
            match self.candidates.insert(key, 1, 0) {
                Ok(()) => inserted.push(key),
                Err(error) => tracing::warn!(?key, %error, "cannot ask for an endpoint"),
            }
        }
        if inserted.is_empty() {
            return Ok(());
        }
        let iterator: &mut Iter = program(&mut self.ebpf, NAME)?;
        let link = iterator.attach().map_err(|error| refused(NAME, error))?;
        let link = iterator
            .take_link(link)
            .map_err(|error| refused(NAME, error))?;
        let mut walk = link.into_file().map_err(std::io::Error::other)?;
        // The walk happens while its (empty) output is read.
        std::io::copy(&mut walk, &mut std::io::sink())?;
        for key in inserted {
            let _ = self.candidates.remove(key);
        }
        Ok(())
    }

    /// A statistic of the probes, over all CPUs.
    pub fn stat(&self, stat: Stat) -> u64 {
        self.stats
            .get(&(stat as u32), 0)
            .map_or(0, |slots| slots.iter().sum())
    }

    /// Writes what the probes have logged, if they were asked to.
    pub fn flush_log(&mut self) {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
    }
}

/// Attaches everything, and gives how system calls are hooked.
fn attach(
    ebpf: &mut Ebpf,
    choice: HookChoice,
    types_from_file: bool,
) -> Result<(Hook, Option<Handover>), ProbeError> {
    // Who follows the processes first, so that none slips through before its calls are seen.
    attach_raw(ebpf, "process_fork", "sched_process_fork")?;
    attach_raw(ebpf, "process_exit", "sched_process_exit")?;
    let (hook, handover) = Hook::attach(choice, types_from_file, ebpf)?;
    attach_raw(ebpf, "process_exec", "sched_process_exec")?;
    if hook != Hook::RawTracepoint {
        const NAME: &str = "descriptors";
        let btf = aya::Btf::from_sys_fs().map_err(|error| ProbeError::Load(error.into()))?;
        let iterator: &mut Iter = program(ebpf, NAME)?;
        iterator
            .load("task_file", &btf)
            .map_err(|error| refused(NAME, error))?;
    }
    Ok((hook, handover))
}

/// Why this program has no probes; `None` if it has them.
pub fn probes_missing() -> Option<&'static str> {
    let reason = env!("MCPINSPECT_PROBES_MISSING");
    (!reason.is_empty()).then_some(reason)
}

/// Finds where the fields are that the probes read.
///
/// # Errors
/// `types` is not BTF, or of a kernel that lacks one of them.
pub fn resolve_layout(types: &[u8]) -> Result<Layout, BtfError> {
    Layout::resolve(&Btf::parse(types)?)
}

pub(super) fn map<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, ProbeError>
where
    T: TryFrom<aya::maps::Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or(ProbeError::Incomplete(name))?;
    T::try_from(map).map_err(|error| ProbeError::Map { map: name, error })
}

pub(super) fn program<'a, P>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut P, ProbeError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    ebpf.program_mut(name)
        .ok_or(ProbeError::Incomplete(name))?
        .try_into()
        .map_err(|error| ProbeError::Program {
            program: name,
            error,
        })
}

pub(super) fn attach_raw(
    ebpf: &mut Ebpf,
    name: &'static str,
    tracepoint: &str,
) -> Result<(), ProbeError> {
    let program: &mut RawTracePoint = program(ebpf, name)?;
    program
        .load()
        .and_then(|()| program.attach(tracepoint))
        .map(|_| ())
        .map_err(|error| refused(name, error))
}

/// Tells a lack of permission from a program that the kernel does not accept.
pub(super) fn refused(program: &'static str, error: ProgramError) -> ProbeError {
    // The verifier says the same of a program that it objects to, and tells why.
    let objected = matches!(
        &error,
        ProgramError::LoadError { verifier_log, .. } if !verifier_log.to_string().is_empty()
    );
    if !objected && io_kind(&error) == Some(std::io::ErrorKind::PermissionDenied) {
        return ProbeError::NotPermitted;
    }
    ProbeError::Program { program, error }
}

fn not_loaded(error: EbpfError) -> ProbeError {
    match io_kind(&error) {
        Some(std::io::ErrorKind::PermissionDenied) => ProbeError::NotPermitted,
        // The ring is the only map that old kernels do not know.
        Some(std::io::ErrorKind::InvalidInput) => ProbeError::NoRingBuffer,
        _ => ProbeError::Load(error),
    }
}

/// The kind of the innermost I/O error.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<std::io::ErrorKind> {
    let mut source = Some(error);
    let mut kind = None;
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            kind = Some(io.kind());
        }
        source = error.source();
    }
    kind
}
