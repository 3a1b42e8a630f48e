//! Whether the kernel may preempt itself anywhere.
//!
//! While a program on a function's exit is preempted, the kernel skips it for the next task on that
//! CPU. That can happen on kernels with full or lazy preemption, and never with `none` or `voluntary`,
//! where the kernel yields only at points of its choice. With `PREEMPT_DYNAMIC` the mode is chosen at
//! boot.

use std::path::Path;

/// Whether the kernel may preempt itself. Returns true if that cannot be determined.
pub fn is_possible() -> bool {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let configuration = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ];
    let facts = Facts {
        mode: read("/sys/kernel/debug/sched/preempt"),
        version: read("/proc/sys/kernel/version"),
        command_line: read("/proc/cmdline"),
        configuration: configuration.iter().find_map(|path| read(path)),
    };
    !facts.exclude_preemption()
}

/// Whether programs on the tracepoints of system calls may be preempted as well (7.2 and later). Returns
/// true if the version cannot be read.
pub fn reaches_tracepoints() -> bool {
    running_release().is_none_or(|version| version >= (7, 2))
}

/// The first two numbers of the running kernel's release.
pub(super) fn running_release() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    release_numbers(&release)
}

/// The first two numbers of a kernel release: `6.1.0-18-amd64` is (6, 1).
pub fn release_numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where the preemption mode can be read, most reliable first.
#[derive(Default)]
struct Facts {
    /// The available modes, with the active one in parentheses.
    mode: Option<String>,
    /// The kernel's version string, which names the preemption model that was built in.
    version: Option<String>,
    command_line: Option<String>,
    /// The kernel's build configuration.
    configuration: Option<String>,
}

impl Facts {
    fn exclude_preemption(&self) -> bool {
        let is_cooperative = |mode: &str| matches!(mode, "none" | "voluntary");
        if let Some(mode) = self.mode.as_deref().and_then(in_parentheses) {
            return is_cooperative(mode);
        }
        let built_in = |word: &str| word.starts_with("PREEMPT");
        match &self.version {
            None => return false,
            Some(version) if !version.split_whitespace().any(built_in) => return true,
            Some(version) if !version.contains("PREEMPT_DYNAMIC") => return false,
            Some(_) => {}
        }
        let requested = self
            .command_line
            .iter()
            .flat_map(|line| line.split_whitespace());
        if let Some(mode) = requested
            .filter_map(|word| word.strip_prefix("preempt="))
            .next_back()
        {
            return is_cooperative(mode);
        }
        self.configuration.as_ref().is_some_and(|text| {
            text.lines()
                .any(|line| matches!(line, "CONFIG_PREEMPT_NONE=y" | "CONFIG_PREEMPT_VOLUNTARY=y"))
        })
    }
}

fn in_parentheses(modes: &str) -> Option<&str> {
    let (_, rest) = modes.split_once('(')?;
    Some(rest.split_once(')')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(mode: &str, version: &str, command_line: &str, configuration: &str) -> bool {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let facts = Facts {
            mode: some(mode),
            version: some(version),
            command_line: some(command_line),
            configuration: some(configuration),
        };
        facts.exclude_preemption()
    }

    const DYNAMIC: &str = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";
    const VOLUNTARY: &str = "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_VOLUNTARY=y\n";

    #[test]
    fn the_active_mode_counts_most() {
        assert!(excluded(
            "none (voluntary) full lazy\n",
            DYNAMIC,
            "preempt=full",
            ""
        ));
        assert!(!excluded(
            "none voluntary full (lazy)\n",
            DYNAMIC,
            "",
            VOLUNTARY
        ));
        assert!(!excluded(
            "none voluntary (full)\n",
            DYNAMIC,
            "preempt=none",
            VOLUNTARY
        ));
    }

    #[test]
    fn next_come_the_command_line_and_the_build_configuration() {
        assert!(excluded("", DYNAMIC, "quiet preempt=full preempt=none", ""));
        assert!(!excluded("", DYNAMIC, "preempt=full quiet", VOLUNTARY));
        assert!(excluded("", DYNAMIC, "quiet", VOLUNTARY));
        assert!(!excluded(
            "",
            DYNAMIC,
            "",
            "# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT=y\n"
        ));
    }

    #[test]
    fn kernels_without_dynamic_preemption_name_their_model() {
        assert!(excluded("", "#101-Ubuntu SMP Tue", "", ""));
        assert!(!excluded(
            "",
            "#1 SMP PREEMPT_RT Debian",
            "preempt=none",
            ""
        ));
        assert!(!excluded("", "#1 SMP PREEMPT Fri", "", ""));
    }

    #[test]
    fn preemption_is_assumed_where_nothing_is_known() {
        assert!(!excluded("", "", "", ""));
        assert!(!excluded("", DYNAMIC, "", ""));
    }
}
