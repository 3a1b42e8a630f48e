//! Whether this process may load the probes and read about other processes.

use std::path::Path;

use super::check::Check;

/// Bits of the capability sets, from `linux/capability.h`.
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

const NAME: &str = "capabilities";
const BECOME_ROOT: &str = "run it as root (`sudo mcpinspectd …`), or grant it CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";

/// Checks the effective capabilities in `status`, a file like `/proc/self/status`.
pub fn capabilities(status: &Path) -> Check {
    let effective = std::fs::read_to_string(status)
        .ok()
        .and_then(|text| effective(&text));
    let Some(set) = effective else {
        return Check::failed(NAME, "cannot be read", "mount /proc");
    };
    let has = |bit: u32| set >> bit & 1 == 1;
    let may_load = has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON);
    if !may_load {
        return Check::failed(NAME, "this process may not load eBPF programs", BECOME_ROOT);
    }
    if !has(CAP_SYS_PTRACE) || !has(CAP_DAC_READ_SEARCH) {
        return Check::warning(
            NAME,
            "enough to load the probes, but not to inspect other users' processes",
            "grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH as well; without them, servers of other users have no name",
        );
    }
    Check::ok(
        NAME,
        if has(CAP_BPF) && has(CAP_PERFMON) {
            "CAP_BPF, CAP_PERFMON"
        } else {
            "CAP_SYS_ADMIN, in place of CAP_BPF and CAP_PERFMON"
        },
    )
}

fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Outcome;

    fn outcome_of(set: u64) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let status = folder.path().join("status");
        std::fs::write(&status, format!("Name:\tx\nCapEff:\t{set:016x}\n")).unwrap();
        capabilities(&status).verdict
    }

    #[test]
    fn requires_the_capabilities_that_the_probes_need() {
        let both = 1 << CAP_BPF | 1 << CAP_PERFMON;
        let look = 1 << CAP_SYS_PTRACE | 1 << CAP_DAC_READ_SEARCH;
        assert_eq!(outcome_of(0), Outcome::Failed);
        assert_eq!(outcome_of(1 << CAP_BPF), Outcome::Failed);
        assert_eq!(outcome_of(both), Outcome::Warning);
        assert_eq!(outcome_of(both | look), Outcome::Ok);
        assert_eq!(outcome_of(1 << CAP_SYS_ADMIN | look), Outcome::Ok);
    }
}
