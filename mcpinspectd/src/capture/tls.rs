//! Probes in TLS libraries: which functions they belong at, and attaching them to a file.
//!
//! The programs are loaded once, at the start. Each is attached to a place in a file, by which the kernel
//! finds it in every process that has mapped it.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};

use aya::Ebpf;
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeLink, UProbeScope};

use super::error::ProbeError;
use super::object::program;

const ENTRY: &str = "tls_entry";
const ENTRY_COUNTED: &str = "tls_entry_counted";
const READ: &str = "tls_read";
const WRITTEN: &str = "tls_written";
const NEW: &str = "tls_new";
const NEW_AT: &str = "tls_new_at";
const CLEAR: &str = "tls_clear";

const PROGRAMS: [&str; 7] = [ENTRY, ENTRY_COUNTED, READ, WRITTEN, NEW, NEW_AT, CLEAR];

/// A function, and the programs at it. Those that make an object come last: what they have seen is
/// followed, so the others must be there by then.
const FUNCTIONS: [(&str, &[&str]); 9] = [
    ("SSL_read", &[ENTRY, READ]),
    ("SSL_write", &[ENTRY, WRITTEN]),
    ("SSL_read_ex", &[ENTRY_COUNTED, READ]),
    ("SSL_write_ex", &[ENTRY_COUNTED, WRITTEN]),
    ("gnutls_record_recv", &[ENTRY, READ]),
    ("gnutls_record_send", &[ENTRY, WRITTEN]),
    ("SSL_clear", &[CLEAR]),
    ("SSL_new", &[NEW]),
    ("gnutls_init", &[ENTRY, NEW_AT]),
];

/// The names of the functions that the probes belong at.
pub fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// The programs.
pub struct TlsProbes {
    object: Arc<Mutex<Ebpf>>,
}

/// Probes in one file. They are detached when this value is dropped, which may take a moment.
pub struct Attached {
    _links: Vec<UProbeLink>,
}

impl TlsProbes {
    /// Loads the programs of the object.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub(super) fn load(object: Arc<Mutex<Ebpf>>) -> Result<Self, ProbeError> {
        {
            let mut object = object.lock().unwrap_or_else(PoisonError::into_inner);
            for name in PROGRAMS {
                let probe: &mut UProbe = program(&mut object, name)?;
                probe
                    .load()
                    .map_err(|error| ProbeError::refused(name, error))?;
            }
        }
        Ok(Self { object })
    }

    /// Attaches the programs to a file. `offset` tells where a function is in it, if it has that function.
    ///
    /// # Errors
    /// The kernel refuses; nothing stays attached.
    pub fn attach(
        &self,
        file: &File,
        offset: impl Fn(&str) -> Option<u64>,
    ) -> Result<Attached, ProbeError> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut links = Vec::new();
        for (function, programs) in FUNCTIONS {
            let Some(offset) = offset(function) else {
                continue;
            };
            for name in programs {
                // Not for longer: the pipeline uses the object, too.
                let mut object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
                let probe: &mut UProbe = program(&mut object, name)?;
                let location = UProbeAttachLocation::AbsoluteOffset(offset);
                let link = probe
                    .attach(location, &path, UProbeScope::AllProcesses)
                    .and_then(|link| probe.take_link(link))
                    .map_err(|error| ProbeError::refused(name, error))?;
                links.push(link);
            }
        }
        Ok(Attached { _links: links })
    }
}
