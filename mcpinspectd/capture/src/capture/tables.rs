//! How many endpoints the kernel's tables have room for.
//!
//! The kernel allocates the tables whole, so no one size fits every machine. They scale with the memory
//! (using at most about 0.2 % of it), and hold no more endpoints than all processes
//! could have as standard input and output. Discovery frees entries long before they are full.

use mcpinspect_common::ENDPOINTS_MIN;

/// Bytes of memory per endpoint that there is room for.
const MEMORY_PER_ENDPOINT: u64 = 128 << 10;
/// Endpoints that a process can have as standard input and output: the two ends of two socket pairs.
const ENDPOINTS_PER_PROCESS: u64 = 4;
/// Most endpoints, on any machine.
const ENDPOINTS_MAX: u32 = 262_144;

/// The number of endpoints that the tables of this machine have room for.
pub fn endpoints() -> u32 {
    let memory = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total_memory(&text))
        .unwrap_or(0);
    let pid_max = std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX);
    for_machine(memory, pid_max)
}

/// The machine's memory in bytes, as stated by `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The number of endpoints for a machine with this many bytes of memory, whose process ids are below
/// `pid_max`.
fn for_machine(memory: u64, pid_max: u64) -> u32 {
    let wanted = (memory / MEMORY_PER_ENDPOINT).min(pid_max.saturating_mul(ENDPOINTS_PER_PROCESS));
    u32::try_from(wanted)
        .unwrap_or(u32::MAX)
        .clamp(ENDPOINTS_MIN, ENDPOINTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_follow_the_machine_within_bounds() {
        let gib = 1 << 30;
        assert_eq!(for_machine(0, 4 << 20), ENDPOINTS_MIN);
        assert_eq!(for_machine(2 * gib, 4 << 20), ENDPOINTS_MIN);
        assert_eq!(for_machine(8 * gib, 4 << 20), 65_536);
        assert_eq!(for_machine(24 * gib, 32_768), 131_072, "few processes");
        assert_eq!(for_machine(1 << 50, u64::MAX), ENDPOINTS_MAX);
    }

    #[test]
    fn the_memory_is_stated_in_kibibytes() {
        let text = "MemTotal:       24684544 kB\nMemFree:         7103000 kB\n";
        assert_eq!(total_memory(text), Some(24_684_544 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_has_room() {
        assert!((ENDPOINTS_MIN..=ENDPOINTS_MAX).contains(&endpoints()));
    }
}
