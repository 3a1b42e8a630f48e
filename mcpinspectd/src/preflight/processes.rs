//! Whether the process table here is the whole machine's.
//!
//! The probes see every process and name each by its number in the machine's own process table. In
//! a container `/proc` counts anew: the same number is another process there, or none, so servers
//! would go without a name, and with it without pins.

use std::path::Path;

use super::Check;

/// The machine's first process namespace, by `PROC_PID_INIT_INO` of the kernel's headers.
const WHOLE_MACHINE: &str = "pid:[4026531836]";

/// Looks at the namespace of the first process of the table at `proc`.
pub fn table(proc: &Path) -> Check {
    const NAME: &str = "process table";
    match std::fs::read_link(proc.join("1/ns/pid")) {
        Ok(namespace) if namespace.as_os_str() == WHOLE_MACHINE => {
            Check::ok(NAME, "the whole machine's")
        }
        Ok(_) => Check::warning(
            NAME,
            "a container's own: messages are seen, but servers have no names and no pins",
            "run it outside of the container, or give the container the machine's processes (`--pid=host`)",
        ),
        // Whoever may not look there may not load probes either, and that is told already.
        Err(_) => Check::ok(NAME, "cannot be told without privileges"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::preflight::Verdict;

    #[test]
    fn a_container_is_told() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(table(proc.path()).verdict, Verdict::Ok);
        std::fs::create_dir_all(proc.path().join("1/ns")).unwrap();
        let link = proc.path().join("1/ns/pid");
        symlink(WHOLE_MACHINE, &link).unwrap();
        assert_eq!(table(proc.path()).found, "the whole machine's");
        std::fs::remove_file(&link).unwrap();
        symlink("pid:[4026532290]", &link).unwrap();
        assert_eq!(table(proc.path()).verdict, Verdict::Warning);
    }
}
