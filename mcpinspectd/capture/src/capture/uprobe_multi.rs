//! Programs at many locations of a file through one link, for one process or for all: the kernel's "uprobe_multi".
//!
//! A probe of the older kind takes two descriptors, needs `CAP_SYS_ADMIN` since Linux 6.16, and is removed
//! under a lock shared by all of them, after two grace periods: 90 ms each, so a daemon that has
//! attached ten to each of thirty processes takes half a minute to end. A link of this kind has all locations of
//! a program, and a process that holds the program can create one without any capability.
//!
//! aya can neither load nor attach programs of this kind, so both are done here; aya still reads and relocates
//! the object, and creates its maps.
//!
//! Minimum kernel version: 6.6. Before 6.10 and its backports, a link for one process saw only one of its
//! threads; [`is_supported`] treats such kernels as having no support.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::Object;
use aya_obj::generated::{
    BPF_F_UPROBE_MULTI_RETURN, bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_type,
};
use mcpinspect_core::model::Pid;
use nix::libc;

/// The maps of a loaded object.
pub(super) struct SharedMaps(HashMap<String, OwnedFd>);

impl SharedMaps {
    /// Those of `ebpf`. Call this before any is taken out of it.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(super) fn of(ebpf: &Ebpf) -> io::Result<Self> {
        use std::os::fd::AsFd as _;
        let mut maps = HashMap::new();
        for (name, map) in ebpf.maps() {
            let (Map::Array(data)
            | Map::PerCpuArray(data)
            | Map::HashMap(data)
            | Map::LruHashMap(data)
            | Map::RingBuf(data)) = map
            else {
                continue;
            };
            maps.insert(name.to_owned(), data.fd().as_fd().try_clone_to_owned()?);
        }
        Ok(Self(maps))
    }
}

/// A loaded program.
pub(super) struct MultiProgram {
    program: OwnedFd,
    kind: Kind,
}

/// When a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Before the instruction at its location.
    AtOffset,
    /// When the function that begins at its location returns.
    AtReturn,
}

/// A location in a file, and the value passed to the program there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeLocation {
    /// Its offset from the start of the file, in bytes.
    pub(super) offset: u64,
    /// The value passed to the program.
    pub(super) cookie: u64,
}

/// Loads programs of an object.
///
/// # Errors
/// The object has no such programs, or the kernel refuses them.
pub(super) fn load(
    object: &[u8],
    maps: &SharedMaps,
    programs: &[(&str, Kind)],
) -> io::Result<Vec<MultiProgram>> {
    let mut object = Object::parse(object).map_err(io::Error::other)?;
    let features = aya::features();
    let types = match features.btf() {
        Some(features) => object
            .fixup_and_sanitize_btf(features)
            .map_err(io::Error::other)?
            .map(|types| load_types(&types.to_bytes()))
            .transpose()?,
        None => None,
    };
    let sections = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    // Relocating borrows the maps as the object describes them, and changes the rest of the object.
    let described = std::mem::take(&mut object.maps);
    let known = described.iter().filter_map(|(name, map)| {
        let fd = maps.0.get(name)?;
        Some((name.as_str(), fd.as_raw_fd(), map))
    });
    object
        .relocate_maps(known, &sections)
        .map_err(io::Error::other)?;
    object.relocate_calls(&sections).map_err(io::Error::other)?;
    object.sanitize_functions(features);
    programs
        .iter()
        .map(|(name, kind)| {
            Ok(MultiProgram {
                program: load_program(&object, name, types.as_ref())?,
                kind: *kind,
            })
        })
        .collect()
}

impl MultiProgram {
    /// Attaches it to locations in the file at `path`, for one process or for all.
    ///
    /// # Errors
    /// The kernel refuses, or the process is gone.
    pub(super) fn attach(
        &self,
        path: &str,
        locations: &[ProbeLocation],
        process: Option<Pid>,
    ) -> io::Result<OwnedFd> {
        let pid = process.map_or(0, |pid| pid.0);
        link(&self.program, path, locations, self.kind, pid)
    }
}

/// Whether the kernel has links of this kind, and allows one for all threads of one process.
pub fn is_supported() -> bool {
    const NOBODY: u32 = u32::MAX;
    /// `r0 = 0; exit`.
    const NOTHING: [(u8, i32); 2] = [(0xb7, 0), (0x95, 0)];
    let instructions = NOTHING.map(|(code, imm)| bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
        off: 0,
        imm,
    });
    let mut attr = zeroed();
    // SAFETY: all bit patterns of this variant are valid.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
    load.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    load.insns = instructions.as_ptr() as u64;
    load.insn_cnt = 2;
    load.license = c"GPL".as_ptr() as u64;
    let Ok(program) = bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr) else {
        return false;
    };
    let refusal = |pid| {
        let location = ProbeLocation {
            offset: 0,
            cookie: 0,
        };
        let refused = link(&program, "/", &[location], Kind::AtOffset, pid).err()?;
        refused.raw_os_error()
    };
    // The root directory is not a program. A kernel without these links returns another error; so does one
    // that looks up the thread before it checks the number.
    refusal(0) == Some(libc::EBADF) && refusal(NOBODY) == Some(libc::EINVAL)
}

/// An empty attribute. The kernel demands zeroes where a command has no field.
fn zeroed() -> bpf_attr {
    // SAFETY: a union of integers and arrays of them.
    unsafe { std::mem::zeroed() }
}

fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: all bit patterns of this variant are valid.
    let load = unsafe { &mut attr.__bindgen_anon_7 };
    load.btf = types.as_ptr() as u64;
    load.btf_size = length(types);
    bpf(bpf_cmd::BPF_BTF_LOAD, &mut attr)
}

fn load_program(object: &Object, name: &str, types: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let missing = || io::Error::other(format!("the probes have no `{name}`"));
    let program = object.programs.get(name).ok_or_else(missing)?;
    let function = object
        .functions
        .get(&program.function_key())
        .ok_or_else(missing)?;
    let instructions = &function.instructions;
    let functions = function.func_info.func_info_bytes();
    let lines = function.line_info.line_info_bytes();
    let mut attr = zeroed();
    // SAFETY: all bit patterns of this variant are valid.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    // All but the last, which ends the name.
    for (to, from) in load.prog_name[..15].iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
    load.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    load.insns = instructions.as_ptr() as u64;
    load.insn_cnt = length(instructions);
    load.license = program.license.as_ptr() as u64;
    if let Some(types) = types {
        load.prog_btf_fd = types.as_raw_fd().unsigned_abs();
        load.func_info = functions.as_ptr() as u64;
        load.func_info_cnt = length(&function.func_info.func_info);
        load.func_info_rec_size = u32::try_from(function.func_info_rec_size).unwrap_or(0);
        load.line_info = lines.as_ptr() as u64;
        load.line_info_cnt = length(&function.line_info.line_info);
        load.line_info_rec_size = u32::try_from(function.line_info_rec_size).unwrap_or(0);
    }
    let refused = match bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr) {
        Ok(program) => return Ok(program),
        Err(refused) => refused,
    };
    // Once more, for the verifier's log.
    const LOG: usize = 16 << 20;
    let mut log = vec![0_u8; LOG];
    // SAFETY: as above.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.log_level = 1;
    load.log_buf = log.as_mut_ptr() as u64;
    load.log_size = length(&log);
    let _ = bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let words = String::from_utf8_lossy(&log[end.saturating_sub(300)..end]);
    Err(io::Error::new(
        refused.kind(),
        format!("{name}: {refused}: {}", words.trim()),
    ))
}

fn link(
    program: &OwnedFd,
    path: &str,
    locations: &[ProbeLocation],
    kind: Kind,
    pid: u32,
) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let offsets: Vec<u64> = locations.iter().map(|location| location.offset).collect();
    let cookies: Vec<u64> = locations.iter().map(|location| location.cookie).collect();
    let mut attr = zeroed();
    // SAFETY: all bit patterns of this variant are valid.
    let create = unsafe { &mut attr.link_create };
    create.__bindgen_anon_1.prog_fd = program.as_raw_fd().unsigned_abs();
    create.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    // SAFETY: as above.
    let multi = unsafe { &mut create.__bindgen_anon_3.uprobe_multi };
    multi.path = path.as_ptr() as u64;
    multi.offsets = offsets.as_ptr() as u64;
    multi.cookies = cookies.as_ptr() as u64;
    multi.cnt = length(locations);
    multi.flags = match kind {
        Kind::AtOffset => 0,
        Kind::AtReturn => BPF_F_UPROBE_MULTI_RETURN,
    };
    multi.pid = pid;
    bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// Runs a command that returns a descriptor.
fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is as large as stated, and what it points to outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_int,
            std::ptr::from_mut(attr),
            size_of::<bpf_attr>(),
        )
    };
    match i32::try_from(result) {
        // SAFETY: just opened, and nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
