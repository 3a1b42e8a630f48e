//! What the kernel must offer.

use std::path::Path;

use super::check::Check;
use super::tls;
use crate::capture::{Hook, KERNEL_BTF, Layout, Options, Probes, probes_missing, release_numbers};

/// The first kernel with everything that the probes use; loops with a callback (`bpf_loop`) came last.
const MINIMUM: (u32, u32) = (5, 17);

/// Checks the kernel's release, from a file like `/proc/sys/kernel/osrelease`.
pub fn version(osrelease: &Path, own_btf: bool) -> Check {
    const NAME: &str = "kernel version";
    let release = std::fs::read_to_string(osrelease).unwrap_or_default();
    let release = release.trim();
    match release_numbers(release) {
        None => Check::warning(
            NAME,
            format!("{release} is not a version number"),
            "the other checks show whether the daemon can run",
        ),
        Some(version) if version < MINIMUM => Check::failed(
            NAME,
            format!("{release} is too old"),
            "use Linux 5.17 or newer (Debian 12, Ubuntu 22.04 with the HWE kernel, Fedora 36, RHEL 9.2)",
        ),
        Some(_) if own_btf => Check::ok(NAME, format!("{release}, with types from a file")),
        Some(_) => Check::ok(NAME, release),
    }
}

/// Checks the machine's architecture.
pub fn architecture() -> Check {
    const NAME: &str = "architecture";
    match std::env::consts::ARCH {
        "x86_64" => Check::ok(NAME, "x86_64"),
        "aarch64" => Check::warning(
            NAME,
            "aarch64",
            "not tested as well as x86_64: please report problems",
        ),
        other => Check::failed(NAME, other, "use an x86_64 or aarch64 machine"),
    }
}

/// Checks the lockdown mode, from a file like `/sys/kernel/security/lockdown`.
pub fn lockdown(file: &Path) -> Check {
    const NAME: &str = "lockdown";
    let Ok(text) = std::fs::read_to_string(file) else {
        return Check::ok(NAME, "not active");
    };
    let mode = text.split(['[', ']']).nth(1).unwrap_or("none");
    if mode == "confidentiality" {
        return Check::failed(
            NAME,
            "confidentiality: eBPF programs cannot read kernel or process memory",
            "boot with lockdown=integrity (or none), or turn off the confidentiality mode of Secure Boot",
        );
    }
    Check::ok(NAME, mode)
}

/// Checks the kernel's type information, or `file` instead.
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
    match Layout::from_btf(&data) {
        Ok(layout) if !layout.unix_sockets => Check::warning(
            NAME,
            "has no type information for Unix sockets (they are a module of this kernel)",
            "servers on pipes are captured; those on socket pairs (Node's default) are not",
        ),
        Ok(layout) if !layout.exec_facts => Check::warning(
            NAME,
            "lacks type information for programs that start",
            "servers are named from /proc, where they can change their names",
        ),
        Ok(_) => Check::ok(NAME, path.display().to_string()),
        Err(error) => Check::failed(
            NAME,
            error.to_string(),
            "report the kernel version: a field that the probes read was moved or removed",
        ),
    }
}

/// Checks whether tracefs is mounted. The probes attach without it, but it makes debugging them easier.
pub fn tracefs() -> Check {
    const NAME: &str = "tracefs";
    let mounted = |path: &str| Path::new(path).join("events").is_dir();
    if mounted("/sys/kernel/tracing") || mounted("/sys/kernel/debug/tracing") {
        Check::ok(NAME, "mounted")
    } else {
        Check::ok(NAME, "not mounted (the probes do not need it)")
    }
}

/// Checks the ring's size.
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
        return Check::warning(NAME, shown, "bursts may be lost; 16 MiB is a good size");
    }
    Check::ok(NAME, shown)
}

/// Checks whether the probes are part of this program.
pub fn probes() -> Check {
    const NAME: &str = "probes";
    match probes_missing() {
        None => Check::ok(NAME, "built in"),
        Some(reason) => Check::failed(
            NAME,
            format!("this program was built without them: {reason}"),
            "run `cargo xtask build-ebpf`, which installs what is missing, then build again",
        ),
    }
}

/// Loads and attaches the probes, and detaches them again.
pub fn attach(options: &Options) -> Vec<Check> {
    match Probes::load(options) {
        Ok((mut probes, _ring)) => {
            let mut checks = vec![hook(&probes)];
            if options.connections {
                checks.extend(tls::scope(options.tls, &mut probes));
            }
            checks
        }
        Err(error) => vec![Check::failed(HOOK, error.to_string(), error.advice())],
    }
}

const HOOK: &str = "hook";

fn hook(probes: &Probes) -> Check {
    match probes.hook() {
        hook @ Hook::RawTracepoint => Check::warning(
            HOOK,
            hook.as_str(),
            "servers that are already running are not found; that takes a kernel with BTF of its own",
        ),
        hook => match hook.warning() {
            Some(warning) => Check::warning(HOOK, hook.as_str(), warning),
            None => Check::ok(HOOK, hook.as_str()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Outcome;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn old_kernels_are_refused() {
        let outcome = |release| version(written(release).path(), false).verdict;
        assert_eq!(outcome("5.16.0-1-amd64\n"), Outcome::Failed);
        assert_eq!(outcome("4.18.0-553.el8\n"), Outcome::Failed);
        assert_eq!(outcome("5.17.0\n"), Outcome::Ok);
        assert_eq!(outcome("6.1.0-18-amd64\n"), Outcome::Ok);
        assert_eq!(outcome("next\n"), Outcome::Warning);
    }

    #[test]
    fn lockdown_modes() {
        let outcome = |text| lockdown(written(text).path()).verdict;
        assert_eq!(outcome("[none] integrity confidentiality\n"), Outcome::Ok);
        assert_eq!(outcome("none [integrity] confidentiality\n"), Outcome::Ok);
        assert_eq!(
            outcome("none integrity [confidentiality]\n"),
            Outcome::Failed
        );
        assert_eq!(lockdown(Path::new("/nonexistent")).verdict, Outcome::Ok);
    }

    #[test]
    fn missing_types_come_with_advice() {
        let check = btf(Some(Path::new("/nonexistent/btf")));
        assert_eq!(check.verdict, Outcome::Failed);
        assert!(check.advice.contains("CONFIG_DEBUG_INFO_BTF"));
        assert_eq!(btf(Some(written("no").path())).verdict, Outcome::Failed);
    }

    #[test]
    fn ring_sizes() {
        assert_eq!(ring(16 << 20).verdict, Outcome::Ok);
        assert_eq!(ring(4096).verdict, Outcome::Warning);
        assert_eq!(ring(5000).verdict, Outcome::Failed);
        assert_eq!(ring(0).verdict, Outcome::Failed);
    }
}
