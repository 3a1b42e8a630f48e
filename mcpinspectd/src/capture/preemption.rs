//! Whether the kernel may interrupt itself anywhere.
//!
//! A program on a function's exit that is interrupted on a CPU is not run for the next task there. It
//! is where the kernel preempts itself (`PREEMPT` full or lazy), and never where it gives way at points
//! of its choice only (none or voluntary). Kernels with `PREEMPT_DYNAMIC` decide when they boot.

use std::path::Path;

/// Whether it may, as far as that can be found out: where it cannot, it may.
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
    !facts.exclude()
}

/// Whether programs on system calls' tracepoints may be interrupted as well, as far as that can be told
/// from the kernel's version.
pub fn reaches_tracepoints() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release_numbers(&release).is_none_or(|version| version >= (7, 2))
}

/// The first two numbers of a kernel's release.
pub fn release_numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What tells how the kernel preempts itself, the surest first.
#[derive(Default)]
struct Facts {
    /// The modes there are, with the one in use in parentheses.
    mode: Option<String>,
    /// The kernel's version, which names a preemption that was built in.
    version: Option<String>,
    command_line: Option<String>,
    /// What it was built with.
    configuration: Option<String>,
}

impl Facts {
    fn exclude(&self) -> bool {
        let gives_way = |mode: &str| matches!(mode, "none" | "voluntary");
        if let Some(mode) = self.mode.as_deref().and_then(in_parentheses) {
            return gives_way(mode);
        }
        let built_in = |word: &str| word.starts_with("PREEMPT");
        match &self.version {
            None => return false,
            Some(version) if !version.split_whitespace().any(built_in) => return true,
            Some(version) if !version.contains("PREEMPT_DYNAMIC") => return false,
            Some(_) => {}
        }
        let asked = self
            .command_line
            .iter()
            .flat_map(|line| line.split_whitespace());
        if let Some(mode) = asked
            .filter_map(|word| word.strip_prefix("preempt="))
            .next_back()
        {
            return gives_way(mode);
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
        facts.exclude()
    }

    const DYNAMIC: &str = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";
    const VOLUNTARY: &str = "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_VOLUNTARY=y\n";

    #[test]
    fn what_is_in_use_counts_most() {
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
    fn then_what_was_asked_for_and_then_what_was_built() {
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
    fn kernels_without_a_choice_name_it() {
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
    fn without_a_fact_it_is_possible() {
        assert!(!excluded("", "", "", ""));
        assert!(!excluded("", DYNAMIC, "", ""));
    }
}
