//! Probes in TLS libraries: which functions they belong at, and attaching them to a file.
//!
//! There are four programs for libraries: one for the start of a function, and three for its end, depending on
//! what it did. Programs in Go have three others, see [`crate::golang`]: their ends are plain locations, like starts.
//! A cookie tells the programs more about the function. They are loaded once, at startup. Each is attached to
//! locations in a file, by which the kernel finds them in the chosen process, or in every one that has mapped it.
//! If the kernel can do that with one link for all locations (`uprobe_multi`), it does.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope};
use mcpinspect_common::{GoEntry, TlsEntry, TlsExit};
use mcpinspect_core::model::{BootTime, Pid};

use super::clock::BootClock;
use super::error::ProbeError;
use super::object::{map, program};
use super::uprobe_multi::{self, Kind, MultiProgram, ProbeLocation, SharedMaps};
use crate::golang;

/// The programs, in the order of attaching: those that create an object come last.
const PROGRAMS: [(&str, Kind); 7] = [
    ("tls_enter", Kind::AtOffset),
    ("tls_read", Kind::AtReturn),
    ("tls_written", Kind::AtReturn),
    ("tls_made", Kind::AtReturn),
    ("go_read", Kind::AtOffset),
    ("go_written", Kind::AtOffset),
    ("go_enter", Kind::AtOffset),
];

/// A function, and what a call and a return of it mean.
type Function = (&'static str, Option<TlsEntry>, Option<TlsExit>);

/// All of them. Those that create an object come last: what they have seen is followed, so the others must be
/// attached by then.
const FUNCTIONS: [Function; 15] = {
    use TlsEntry::{
        Clears, LeavesLayered, Moves, MovesCounted, MovesLayered, MovesLayeredUnlessPeeked,
    };
    use TlsExit::{Makes, MakesAt, MakesLayered, Read, Written};
    [
        ("SSL_read", Some(Moves), Some(Read)),
        ("SSL_write", Some(Moves), Some(Written)),
        ("SSL_read_ex", Some(MovesCounted), Some(Read)),
        ("SSL_write_ex", Some(MovesCounted), Some(Written)),
        ("gnutls_record_recv", Some(Moves), Some(Read)),
        ("gnutls_record_send", Some(Moves), Some(Written)),
        ("PR_Read", Some(MovesLayered), Some(Read)),
        ("PR_Recv", Some(MovesLayeredUnlessPeeked), Some(Read)),
        ("PR_Write", Some(MovesLayered), Some(Written)),
        ("PR_Send", Some(MovesLayered), Some(Written)),
        ("PR_Writev", Some(LeavesLayered), None),
        ("SSL_clear", Some(Clears), None),
        ("SSL_new", None, Some(Makes)),
        ("gnutls_init", Some(Moves), Some(MakesAt)),
        ("SSL_ImportFD", None, Some(MakesLayered)),
    ]
};

/// The names of the functions that the probes belong at.
pub fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, ..)| *name)
}

/// A file's TLS functions, and where each is in the file.
#[derive(Clone, Debug, Default)]
pub struct TlsFunctions {
    /// Those of libraries, by name.
    pub(super) named: BTreeMap<&'static str, u64>,
    /// Those of Go.
    pub(super) go: Option<golang::TlsFunctions>,
}

impl TlsFunctions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.go.is_none()
    }

    /// Whether they only matter in a process that has NSS too.
    pub fn is_nspr(&self) -> bool {
        self.named.contains_key("PR_Read") && !self.is_nss()
    }

    /// Whether they are those of NSS, or of a program that contains it.
    pub fn is_nss(&self) -> bool {
        self.named.contains_key("SSL_ImportFD")
    }
}

/// The programs.
pub struct TlsProbes {
    attachment: Attachment,
    /// Inode numbers of programs that contain a library: the probes report when one is executed.
    programs: HashMap<MapData, u64, u8>,
    /// By process: when it got its first probes, and its last; in nanoseconds since boot.
    attached: HashMap<MapData, u32, [u64; 2]>,
    /// By process: since when its calls are counted, and how many there were. The probes fill it.
    paces: HashMap<MapData, u32, [u64; 2]>,
    /// Processes whose first TLS connection was reported.
    greeted: HashMap<MapData, u32, u64>,
    /// Processes of which more greetings are sought, and the probes' count of them.
    sought: HashMap<MapData, u32, [u64; 2]>,
}

/// How they are attached.
enum Attachment {
    /// Each to all its locations at once.
    Together(Vec<MultiProgram>),
    /// One by one.
    Singly(Arc<Mutex<Ebpf>>),
}

/// Probes in one file. Dropping this value detaches them, which may take a moment.
pub struct Attached {
    links: Vec<OwnedFd>,
    single: Vec<UProbeLink>,
}

/// Maps of the loaded object that the programs and this side of them use.
pub(super) struct TlsMaps {
    programs: HashMap<MapData, u64, u8>,
    attached: HashMap<MapData, u32, [u64; 2]>,
    paces: HashMap<MapData, u32, [u64; 2]>,
    greeted: HashMap<MapData, u32, u64>,
    sought: HashMap<MapData, u32, [u64; 2]>,
    /// All of them, if the programs are attached together.
    shared: Option<SharedMaps>,
}

impl TlsMaps {
    /// Those of `ebpf`. Call this before others are taken out of it. `is_together`: the programs will be attached
    /// together.
    ///
    /// # Errors
    /// One is missing, or there are no descriptors left.
    pub(super) fn of(ebpf: &mut Ebpf, is_together: bool) -> Result<Self, ProbeError> {
        let shared = is_together.then(|| SharedMaps::of(ebpf)).transpose()?;
        Ok(Self {
            programs: map(ebpf, "TLS_PROGRAMS")?,
            attached: map(ebpf, "TLS_ATTACHED")?,
            paces: map(ebpf, "TLS_PACES")?,
            greeted: map(ebpf, "TLS_GREETED")?,
            sought: map(ebpf, "TLS_SOUGHT")?,
            shared,
        })
    }
}

/// Loads the programs. The kernel takes a while to verify them, and examining all processes takes longer, so
/// this runs on another thread than the one that startup waits for.
pub struct TlsLoader {
    object: &'static [u8],
    maps: TlsMaps,
    loaded: Arc<Mutex<Ebpf>>,
}

impl TlsLoader {
    /// One for the programs of `object`, which is loaded as `loaded`.
    pub(super) fn new(object: &'static [u8], maps: TlsMaps, loaded: Arc<Mutex<Ebpf>>) -> Self {
        Self {
            object,
            maps,
            loaded,
        }
    }

    /// Loads them.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn load(self) -> Result<TlsProbes, ProbeError> {
        let attachment = match self.maps.shared {
            Some(maps) => {
                let programs = uprobe_multi::load(self.object, &maps, &PROGRAMS);
                Attachment::Together(programs.map_err(ProbeError::Tls)?)
            }
            None => {
                for (name, _) in PROGRAMS {
                    // One at a time: the pipeline uses the object too.
                    let mut object = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
                    let probe: &mut UProbe = program(&mut object, name)?;
                    probe
                        .load()
                        .map_err(|error| ProbeError::refused(name, error))?;
                }
                Attachment::Singly(self.loaded)
            }
        };
        Ok(TlsProbes {
            attachment,
            programs: self.maps.programs,
            attached: self.maps.attached,
            paces: self.maps.paces,
            greeted: self.maps.greeted,
            sought: self.maps.sought,
        })
    }
}

impl TlsProbes {
    /// Whether attaching takes privileges.
    pub fn is_privileged(&self) -> bool {
        matches!(self.attachment, Attachment::Singly(_))
    }

    /// Attaches the programs to a file's functions: for one process, or for all.
    ///
    /// # Errors
    /// The kernel refuses, or the process is gone; nothing stays attached.
    pub fn attach(
        &self,
        file: &File,
        process: Option<Pid>,
        functions: &TlsFunctions,
    ) -> Result<Attached, ProbeError> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let [enter, read, written, made] = locations_by_name(functions);
        let [go_read, go_written, go_enter] =
            functions.go.as_ref().map(go_locations).unwrap_or_default();
        let locations = [enter, read, written, made, go_read, go_written, go_enter];
        let mut attached = Attached {
            links: Vec::new(),
            single: Vec::new(),
        };
        match &self.attachment {
            Attachment::Together(programs) => {
                let wanted = programs.iter().zip(&locations);
                for (program, locations) in wanted.filter(|(_, locations)| !locations.is_empty()) {
                    attached
                        .links
                        .push(program.attach(&path, locations, process)?);
                }
            }
            Attachment::Singly(object) => {
                for ((name, _), locations) in PROGRAMS.into_iter().zip(locations) {
                    for location in locations {
                        // No longer than that: the pipeline uses the object too.
                        let mut object = object.lock().unwrap_or_else(PoisonError::into_inner);
                        let probe: &mut UProbe = program(&mut object, name)?;
                        let link = attach_one(probe, name, &path, location, process)?;
                        attached.single.push(link);
                    }
                }
            }
        }
        Ok(attached)
    }

    /// Tells the probes that a process is about to get some.
    pub fn will_attach(&mut self, pid: Pid) {
        self.note(pid, |first, _| [first, u64::MAX]);
    }

    /// It has them: from now on, a connection is seen from the first byte of its greeting.
    pub fn has_attached(&mut self, pid: Pid) {
        self.note(pid, |first, now| [first, now]);
    }

    fn note(&mut self, pid: Pid, times: impl FnOnce(u64, u64) -> [u64; 2]) {
        let Ok(BootTime(now)) = BootClock::now_boot() else {
            return;
        };
        let known = self.attached.get(&pid.0, 0);
        let first = known.map_or(now, |[first, _]| first);
        // Without room, only objects count whose creation was seen.
        let _ = self.attached.insert(pid.0, times(first, now), 0);
    }

    /// It no longer has any.
    pub fn has_left(&mut self, pid: Pid) {
        let _ = self.attached.remove(&pid.0);
        let _ = self.paces.remove(&pid.0);
        self.has_none(pid);
    }

    /// It has none, so its next TLS connection is an occasion to attach.
    pub fn has_none(&mut self, pid: Pid) {
        let _ = self.greeted.remove(&pid.0);
    }

    /// Has the probes ship more greetings of a process than its first one.
    pub fn seek_greetings(&mut self, pid: Pid) {
        // Without room, the first one is all there is.
        let _ = self.sought.insert(pid.0, [0; 2], 0);
    }

    /// Whether a process has called its library since it got its probes.
    pub fn has_called(&self, pid: Pid) -> bool {
        self.paces.get(&pid.0, 0).is_ok()
    }

    /// Has the probes report when a program with this inode number is executed.
    pub fn tell_of(&mut self, ino: u64) {
        // Without room, the program's first internet socket is the occasion.
        let _ = self.programs.insert(ino, 1, 0);
    }
}

/// Where the programs for libraries belong.
fn locations_by_name(functions: &TlsFunctions) -> [Vec<ProbeLocation>; 4] {
    let locations = |kind: &dyn Fn(&Function) -> Option<u64>| {
        let locations = FUNCTIONS.iter().filter_map(|function| {
            Some(ProbeLocation {
                offset: *functions.named.get(function.0)?,
                cookie: kind(function)?,
            })
        });
        locations.collect::<Vec<_>>()
    };
    let exits = |at: fn(TlsExit) -> bool| {
        locations(&|(_, _, exit)| exit.filter(|exit| at(*exit)).map(|exit| exit as u64))
    };
    [
        locations(&|(_, entry, _)| entry.map(|entry| entry as u64)),
        exits(|exit| exit == TlsExit::Read),
        exits(|exit| exit == TlsExit::Written),
        exits(|exit| !matches!(exit, TlsExit::Read | TlsExit::Written)),
    ]
}

/// Where the programs for Go belong: the ends of reading calls, those of writing calls, and starts. What
/// begins a connection comes last, as its bytes are counted from then on.
fn go_locations(functions: &golang::TlsFunctions) -> [Vec<ProbeLocation>; 3] {
    let location = |cookie: u64| {
        move |offset: &u64| ProbeLocation {
            offset: *offset,
            cookie,
        }
    };
    let entry = |kind: GoEntry| location(kind as u64);
    let ends = |function: &golang::Function| function.returns.iter().map(location(0)).collect();
    let calls = [
        entry(GoEntry::Reads)(&functions.read.entry),
        entry(GoEntry::Writes)(&functions.write.entry),
    ];
    let handshakes = functions.handshakes.iter().map(entry(GoEntry::Handshakes));
    [
        ends(&functions.read),
        ends(&functions.write),
        calls.into_iter().chain(handshakes).collect(),
    ]
}

fn attach_one(
    probe: &mut UProbe,
    name: &'static str,
    path: &str,
    location: ProbeLocation,
    process: Option<Pid>,
) -> Result<UProbeLink, ProbeError> {
    let point = UProbeAttachPoint {
        location: UProbeAttachLocation::AbsoluteOffset(location.offset),
        cookie: Some(location.cookie),
    };
    let process = process.and_then(|pid| std::num::NonZeroU32::new(pid.0));
    let scope = process.map_or(UProbeScope::AllProcesses, UProbeScope::OneProcess);
    probe
        .attach(point, path, scope)
        .and_then(|link| probe.take_link(link))
        .map_err(|error| ProbeError::refused(name, error))
}
