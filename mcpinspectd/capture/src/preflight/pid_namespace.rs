//! Whether `/proc` shows the whole machine.
//!
//! The probes see every process, by its pid in the machine's first pid namespace. In a container
//! `/proc` numbers processes differently: the same pid is another process there, or none, so servers
//! would have no name, and without a name no pins.

use std::path::Path;

use super::check::Check;

/// The machine's first pid namespace (`PROC_PID_INIT_INO` in the kernel's headers).
const INITIAL: &str = "pid:[4026531836]";

/// Compares the namespace of process 1 in `proc` with the machine's first.
pub fn check(proc: &Path) -> Check {
    const NAME: &str = "process table";
    match std::fs::read_link(proc.join("1/ns/pid")) {
        Ok(namespace) if namespace.as_os_str() == INITIAL => {
            Check::ok(NAME, "of the whole machine")
        }
        Ok(_) => Check::warning(
            NAME,
            "of a container: messages are captured, but servers have no names and no pins",
            "run the daemon outside the container, or start the container with the host's processes (`--pid=host`)",
        ),
        // Without the privilege to read this, the probes cannot be loaded either, which another check
        // reports.
        Err(_) => Check::ok(NAME, "unknown without root"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::preflight::Outcome;

    #[test]
    fn warns_in_a_container() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(check(proc.path()).verdict, Outcome::Ok);
        std::fs::create_dir_all(proc.path().join("1/ns")).unwrap();
        let link = proc.path().join("1/ns/pid");
        symlink(INITIAL, &link).unwrap();
        assert_eq!(check(proc.path()).found, "of the whole machine");
        std::fs::remove_file(&link).unwrap();
        symlink("pid:[4026532290]", &link).unwrap();
        assert_eq!(check(proc.path()).verdict, Outcome::Warning);
    }
}
