//! Why the probes do not run, and what to do about it.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use thiserror::Error;

use super::btf::BtfError;

/// Why the probes do not run. The message names the problem, [`ProbeError::advice`] the remedy.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The program was built on a machine without the eBPF tool chain.
    #[error("this program was built without its eBPF probes: {0}")]
    NotBuilt(&'static str),
    /// Type information is missing.
    #[error("cannot read the kernel's type information from {path}: {error}")]
    NoBtf {
        /// The file tried.
        path: PathBuf,
        /// Why it cannot be read.
        error: std::io::Error,
    },
    /// The type information lacks something that the probes need.
    #[error("cannot use the kernel's type information: {0}")]
    Btf(#[from] BtfError),
    /// The kernel does not let this process load eBPF programs.
    #[error("not permitted to load eBPF programs")]
    NotPermitted,
    /// The configuration asks for function exits, which this kernel does not allow to be hooked.
    #[error("this kernel does not allow hooks on function exits")]
    NoFunctionExits,
    /// The kernel has no ring buffer.
    #[error("this kernel has no eBPF ring buffer")]
    NoRingBuffer,
    /// Loading failed for another reason.
    #[error("cannot load the probes: {0}")]
    Load(#[source] EbpfError),
    /// The kernel refuses a program.
    #[error("cannot load or attach the probe `{program}`: {error}")]
    Program {
        /// The program's name.
        program: &'static str,
        /// The kernel's reason.
        #[source]
        error: ProgramError,
    },
    /// The kernel refuses a program for TLS libraries.
    #[error("cannot load the probes for TLS: {0}")]
    Tls(#[source] std::io::Error),
    /// A map cannot be used.
    #[error("cannot use the probes' map `{map}`: {error}")]
    Map {
        /// The map's name.
        map: &'static str,
        /// The reason.
        #[source]
        error: MapError,
    },
    /// The object file lacks a program or map: it belongs to another version.
    #[error("the probes have no `{0}`")]
    Incomplete(&'static str),
    /// The shared table cannot be mapped, or a descriptor cannot be opened.
    #[error("cannot share memory with the probes: {0}")]
    Io(#[from] std::io::Error),
}

impl ProbeError {
    /// One sentence on what to do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NotBuilt(_) => {
                "run `cargo xtask build-ebpf`, which installs what is missing and builds the probes."
            }
            Self::NoBtf { .. } => {
                "use a kernel with CONFIG_DEBUG_INFO_BTF=y, or set `btf` in the configuration's [capture] section to a BTF file of exactly this kernel."
            }
            Self::Btf(_) => {
                "report the kernel version: a field that the probes read was moved or removed."
            }
            Self::NotPermitted => {
                "run as root, or with the capabilities CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; a kernel in lockdown mode `confidentiality` refuses every process."
            }
            Self::NoFunctionExits => {
                "set `hook = \"auto\"` in the configuration's [capture] section to use the tracepoint instead."
            }
            Self::NoRingBuffer => "use Linux 5.8 or newer.",
            Self::Load(_)
            | Self::Program { .. }
            | Self::Tls(_)
            | Self::Map { .. }
            | Self::Incomplete(_)
            | Self::Io(_) => "run `mcpinspectd check` to see what this kernel offers.",
        }
    }

    /// From an error of loading or attaching `program`: distinguishes a lack of permission from a
    /// program that the kernel does not accept.
    pub(super) fn refused(program: &'static str, error: ProgramError) -> Self {
        // The verifier returns the same error code for a program that it rejects, but explains itself.
        let rejected = matches!(
            &error,
            ProgramError::LoadError { verifier_log, .. } if !verifier_log.to_string().is_empty()
        );
        if !rejected && io_kind(&error) == Some(ErrorKind::PermissionDenied) {
            return Self::NotPermitted;
        }
        Self::Program { program, error }
    }

    /// From an error of loading the object file.
    pub(super) fn not_loaded(error: EbpfError) -> Self {
        match io_kind(&error) {
            Some(ErrorKind::PermissionDenied) => Self::NotPermitted,
            // The ring is the only map that old kernels do not know.
            Some(ErrorKind::InvalidInput) => Self::NoRingBuffer,
            _ => Self::Load(error),
        }
    }
}

/// The kind of the innermost I/O error.
fn io_kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
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
