//! What can be said about a TLS library that is not supported.
//!
//! Someone who reads that something is not seen wants to know what it is. A library with a file of its own is
//! named by its project. Anything else a process uses for TLS is inside its program: rustls, Go's own, or a
//! BoringSSL without symbols look alike from outside, so the program is named.

use std::path::Path;

use mcpinspect_core::model::Pid;
use mcpinspect_process::identity::Examiner;
use mcpinspect_process::{Mapped, ProcessHandle, snapshot};

use crate::discover::UnseenLibrary;

/// How the file names of other libraries begin, and what they are.
const OTHERS: [(&str, &str); 4] = [
    ("libmbedtls", "Mbed TLS"),
    ("libwolfssl", "wolfSSL"),
    ("librustls", "rustls"),
    ("libbotan", "Botan"),
];

/// Describes a process that speaks TLS without a supported library; `None` if it is gone. `examiner` reads its
/// configuration.
pub(super) fn uncovered(pid: Pid, examiner: &mut Examiner) -> Option<UnseenLibrary> {
    let started = ProcessHandle::open(pid).ok().flatten()?.start_time()?;
    let mapped = Mapped::of(pid);
    let found = mapped
        .iter()
        .find_map(|file| describe(file, pid))
        .unwrap_or_else(|| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe"));
            let program = program.unwrap_or_default();
            format!("no known TLS library in {}", program.display())
        });
    let servers = snapshot(pid).map(|process| examiner.secure_hosts(&process));
    Some(UnseenLibrary {
        pid: pid.0,
        started,
        found,
        servers: servers.unwrap_or_default(),
    })
}

/// What a mapped file is, if it is another TLS library.
fn describe(file: &Mapped, pid: Pid) -> Option<String> {
    let name = file.path.file_name()?.to_str()?;
    let (_, project) = OTHERS
        .into_iter()
        .find(|(beginning, _)| name.starts_with(beginning))?;
    let inside = file.path.strip_prefix(format!("/proc/{pid}/root"));
    let path = inside.map_or(file.path.clone(), |inside| Path::new("/").join(inside));
    Some(format!("{project} in {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_by_its_project_and_any_other_by_its_program() {
        let file = |path: &str| Mapped {
            dev: 1,
            ino: 1,
            path: path.into(),
        };
        let wolf = file("/proc/7/root/usr/lib/libwolfssl.so.35");
        let expected = "wolfSSL in /usr/lib/libwolfssl.so.35";
        assert_eq!(describe(&wolf, Pid(7)).as_deref(), Some(expected));
        let other = file("/proc/7/root/usr/lib/libc.so.6");
        assert_eq!(describe(&other, Pid(7)), None);

        let own = uncovered(mcpinspect_process::own(), &mut Examiner::default()).unwrap();
        let program = std::env::current_exe().unwrap();
        let expected = format!("no known TLS library in {}", program.display());
        assert_eq!(own.found, expected);
    }
}
