//! What the kernel offers.

use std::path::Path;

use super::Check;
use crate::capture::{
    Hook, KERNEL_BTF, Options, Probes, probes_missing, release_numbers, resolve_layout,
};

/// Typed tracepoints, task pointers and atomics as the probes use them, and loops with a callback.
const NEEDED: (u32, u32) = (5, 17);

/// The kernel's release, as in `/proc/sys/kernel/osrelease`.
pub fn version(osrelease: &Path, own_btf: bool) -> Check {
    const NAME: &str = "kernel version";
    let release = std::fs::read_to_string(osrelease).unwrap_or_default();
    let release = release.trim();
    match release_numbers(release) {
        None => Check::warning(
            NAME,
            format!("{release} is not understood"),
            "try; the other checks tell more",
        ),
        Some(version) if version < NEEDED => Check::failed(
            NAME,
            format!("{release} is too old"),
            "use Linux 5.17 or newer (Debian 12, Ubuntu 22.04 with its HWE kernel, Fedora 36 and RHEL 9.2 have one)",
        ),
        Some(_) if own_btf => Check::ok(NAME, format!("{release}, types from a file")),
        Some(_) => Check::ok(NAME, release),
    }
}

/// The machine's architecture.
pub fn architecture() -> Check {
    const NAME: &str = "architecture";
    match std::env::consts::ARCH {
        "x86_64" => Check::ok(NAME, "x86_64"),
        "aarch64" => Check::warning(
            NAME,
            "aarch64",
            "less tested than x86_64: please report what you see",
        ),
        other => Check::failed(NAME, other, "use an x86_64 or aarch64 machine"),
    }
}

/// Kernel lockdown, as in `/sys/kernel/security/lockdown`.
pub fn lockdown(file: &Path) -> Check {
    const NAME: &str = "lockdown";
    let Ok(text) = std::fs::read_to_string(file) else {
        return Check::ok(NAME, "not in force");
    };
    let mode = text.split(['[', ']']).nth(1).unwrap_or("none");
    if mode == "confidentiality" {
        return Check::failed(
            NAME,
            "confidentiality: the kernel lets nobody read kernel or process memory with eBPF",
            "boot with lockdown=integrity (or none), or turn Secure Boot's confidentiality mode off",
        );
    }
    Check::ok(NAME, mode)
}

/// The kernel's types.
pub fn btf(file: Option<&Path>) -> Check {
    const NAME: &str = "type information (BTF)";
    let path = file.unwrap_or(Path::new(KERNEL_BTF));
    let data = match std::fs::read(path) {
        Ok(data) => data,
        Err(error) => {
            return Check::failed(
                NAME,
                format!("{}: {error}", path.display()),
                "use a kernel with CONFIG_DEBUG_INFO_BTF=y, or set `btf` in the configuration's [capture] section to a BTF file of exactly this kernel",
            );
        }
    };
    match resolve_layout(&data) {
        Ok(layout) if layout.unix_sockets => Check::ok(NAME, path.display().to_string()),
        Ok(_) => Check::warning(
            NAME,
            "describes no Unix sockets (a module of this kernel)",
            "servers on pipes are seen; those on socket pairs (Node's default) are not",
        ),
        Err(error) => Check::failed(
            NAME,
            error.to_string(),
            "report the kernel version: a field that the probes read has moved or gone",
        ),
    }
}

/// Whether tracefs is mounted. The probes attach without it; people who debug them want it.
pub fn tracefs() -> Check {
    const NAME: &str = "tracefs";
    let mounted = |path: &str| Path::new(path).join("events").is_dir();
    if mounted("/sys/kernel/tracing") || mounted("/sys/kernel/debug/tracing") {
        Check::ok(NAME, "mounted")
    } else {
        Check::ok(NAME, "not mounted, and not needed by the probes in use")
    }
}

/// The ring's size against what may be locked and what there is.
pub fn ring(bytes: u32) -> Check {
    const NAME: &str = "ring size";
    let shown = format!("{} KiB", bytes / 1024);
    if !bytes.is_power_of_two() || bytes < 4096 {
        return Check::failed(
            NAME,
            shown,
            "set `ring_size` in [capture] to a power of two of at least 4096",
        );
    }
    if bytes < 1 << 20 {
        return Check::warning(NAME, shown, "bursts will be lost; 16 MiB is a good size");
    }
    Check::ok(NAME, shown)
}

/// Whether this program brings its probes.
pub fn probes() -> Check {
    const NAME: &str = "probes";
    match probes_missing() {
        None => Check::ok(NAME, "built in"),
        Some(reason) => Check::failed(
            NAME,
            format!("this program was built without them: {reason}"),
            "run `cargo xtask build-ebpf`, which installs what is missing, and build again",
        ),
    }
}

/// Loads and attaches the probes, and takes them away again.
pub fn attach(options: &Options) -> Check {
    const NAME: &str = "hook";
    match Probes::load(options) {
        Ok((probes, _ring)) => match probes.hook() {
            hook @ Hook::RawTracepoint => Check::warning(
                NAME,
                hook.as_str(),
                "servers that run already are not found; the kernel's own type information would allow it",
            ),
            hook => match hook.caution() {
                Some(caution) => Check::warning(NAME, hook.as_str(), caution),
                None => Check::ok(NAME, hook.as_str()),
            },
        },
        Err(error) => Check::failed(NAME, error.to_string(), error.advice()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::preflight::Verdict;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn old_kernels_are_refused() {
        let verdict = |release| version(written(release).path(), false).verdict;
        assert_eq!(verdict("5.16.0-1-amd64\n"), Verdict::Failed);
        assert_eq!(verdict("4.18.0-553.el8\n"), Verdict::Failed);
        assert_eq!(verdict("5.17.0\n"), Verdict::Ok);
        assert_eq!(verdict("6.1.0-18-amd64\n"), Verdict::Ok);
        assert_eq!(verdict("next\n"), Verdict::Warning);
    }

    #[test]
    fn lockdown_modes() {
        let verdict = |text| lockdown(written(text).path()).verdict;
        assert_eq!(verdict("[none] integrity confidentiality\n"), Verdict::Ok);
        assert_eq!(verdict("none [integrity] confidentiality\n"), Verdict::Ok);
        assert_eq!(
            verdict("none integrity [confidentiality]\n"),
            Verdict::Failed
        );
        assert_eq!(lockdown(Path::new("/nonexistent")).verdict, Verdict::Ok);
    }

    #[test]
    fn missing_types_say_what_to_do() {
        let check = btf(Some(Path::new("/nonexistent/btf")));
        assert_eq!(check.verdict, Verdict::Failed);
        assert!(check.advice.contains("CONFIG_DEBUG_INFO_BTF"));
        assert_eq!(btf(Some(written("no").path())).verdict, Verdict::Failed);
    }

    #[test]
    fn ring_sizes() {
        assert_eq!(ring(16 << 20).verdict, Verdict::Ok);
        assert_eq!(ring(4096).verdict, Verdict::Warning);
        assert_eq!(ring(5000).verdict, Verdict::Failed);
        assert_eq!(ring(0).verdict, Verdict::Failed);
    }
}
