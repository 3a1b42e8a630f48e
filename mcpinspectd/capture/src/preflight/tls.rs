//! Which TLS libraries are on this machine, and which of them are supported.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use mcpinspect_core::model::Pid;
use mcpinspect_core::model::TlsChoice;
use mcpinspect_core::text::escape::printable;
use mcpinspect_process::Mapped;

use super::check::Check;
use crate::capture::{
    Probes, are_return_probes_harmless, go_refusal, has_probes_by_process, tls_functions,
    tls_places,
};

const NAME: &str = "TLS library";
/// Characters of a path to show.
const PATH_MAX: usize = 200;
const ADVICE: &str =
    "its traffic is not captured; put `mcpinspect guard --listen` in front of the server instead";

/// Where TLS is examined. Loads the probes for it.
pub fn scope(choice: TlsChoice, probes: &mut Probes) -> Option<Check> {
    const NAME: &str = "TLS";
    if choice == TlsChoice::Off {
        return None;
    }
    if !are_return_probes_harmless() {
        return Some(Check::warning(
            NAME,
            "on this kernel, return probes can kill processes that filter their system calls: TLS is not decrypted",
            "use Linux 6.14 or newer, or an update of this kernel that lets `uretprobe` pass filters",
        ));
    }
    if choice == TlsChoice::Processes && !has_probes_by_process() {
        return Some(Check::warning(
            NAME,
            "this kernel cannot attach probes to a library for one process: TLS is not decrypted",
            "use Linux 6.10 or newer, or set `tls = \"machine\"` in the configuration's [capture] section",
        ));
    }
    let (loader, choice) = probes.tls()?;
    Some(match loader.load() {
        Err(error) => Check::warning(NAME, error.to_string(), error.advice()),
        Ok(_) if choice == TlsChoice::Machine => Check::ok(NAME, "decrypted in every process"),
        Ok(_) => Check::ok(NAME, "decrypted, process by process"),
    })
}

/// A library, and a process that has mapped it.
struct Library {
    path: PathBuf,
    user: Option<Pid>,
}

/// One check for each library in the usual places, and for each that a running process has mapped.
pub fn libraries() -> Vec<Check> {
    let mut libraries: BTreeMap<(u64, u64), Library> = BTreeMap::new();
    for path in tls_places() {
        use std::os::unix::fs::MetadataExt as _;
        if let Ok(about) = fs::metadata(&path) {
            let library = Library { path, user: None };
            libraries.insert((about.dev(), about.ino()), library);
        }
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids.map(Pid) {
        for Mapped { dev, ino, path } in Mapped::of(pid) {
            libraries.entry((dev, ino)).or_insert(Library {
                path,
                user: Some(pid),
            });
        }
    }
    libraries.into_values().filter_map(check).collect()
}

fn check(library: Library) -> Option<Check> {
    let about = fs::metadata(&library.path).ok()?;
    if !about.is_file() {
        return None;
    }
    let file = File::open(&library.path).ok()?;
    let path = printable(&library.path.to_string_lossy(), PATH_MAX);
    let used = library
        .user
        .map_or_else(String::new, |pid| format!(", which process {pid} has"));
    let functions = tls_functions(&file);
    if functions.is_nspr() {
        // It only matters to a process with NSS, which is listed itself.
        return None;
    }
    if !functions.is_empty() {
        return Some(Check::ok(NAME, format!("{path}{used}: decrypted")));
    }
    let reason = go_refusal(&file)?;
    let found = format!("{path}{used}: Go's crypto/tls, not decrypted: {reason}");
    Some(Check::warning(NAME, found, ADVICE))
}
