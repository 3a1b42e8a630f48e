//! The programs as packages install them, and their symbols apart.
//!
//! Nothing reads symbols until somebody debugs or profiles a program, yet they are a large part of
//! it. A package of their own has them, where debuggers look: below `/usr/lib/debug/.build-id`, by
//! the build ID that the linker writes into a program and that stays in what is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::build::Build;
use super::contents::{PROGRAMS, Symbols};
use super::files;
use crate::shell::{self, say};

/// Copies the built programs into `folder` and strips them there.
pub(super) fn strip_all(build: &Build, folder: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    for program in PROGRAMS {
        let to = folder.join(program);
        files::install(&build.folder().join(program), &to, 0o755)?;
        strip(build, &to)?;
    }
    Ok(())
}

/// Removes all symbols that starting a program does not need.
pub(super) fn strip(build: &Build, program: &Path) -> Result<()> {
    let mut strip = Command::new(build.machine.tool("strip"));
    shell::run(strip.arg("--strip-unneeded").arg(program))
}

/// Copies the symbols of the built programs into a tree below `root`.
///
/// Returns `None` if a program has no build ID, as after a plain `cargo build` where the C compiler
/// asks for none: its symbols could not be found again.
pub(super) fn collect(build: &Build, root: &Path) -> Result<Option<Symbols>> {
    let _ = fs::remove_dir_all(root);
    let mut build_ids = Vec::new();
    for program in PROGRAMS {
        let program = build.folder().join(program);
        let Some(id) = build_id(build, &program)? else {
            say("not packing symbols: the programs were linked without build IDs");
            return Ok(None);
        };
        let to = root.join(place(&id));
        copy(build, &program, &to)?;
        build_ids.push(id);
    }
    files::modes(root)?;
    Ok(Some(Symbols {
        root: root.to_owned(),
        build_ids,
    }))
}

/// Copies the symbols, and debug information if there is any, of one program.
fn copy(build: &Build, program: &Path, to: &Path) -> Result<()> {
    files::create_parent(to)?;
    let mut copy = Command::new(build.machine.tool("objcopy"));
    copy.args(["--only-keep-debug", "--compress-debug-sections"]);
    shell::run(copy.arg(program).arg(to))?;
    files::set_mode(to, 0o644)
}

fn build_id(build: &Build, program: &Path) -> Result<Option<String>> {
    let mut read = Command::new(build.machine.tool("readelf"));
    let notes = shell::output(read.arg("--notes").arg(program))?;
    Ok(noted(&notes).map(str::to_owned))
}

/// The build ID among a program's notes, in hexadecimal digits.
fn noted(notes: &str) -> Option<&str> {
    notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .map(str::trim)
        // The first byte names a folder and the rest a file.
        .filter(|id| id.len() > 2 && id.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Where debuggers look for the symbols of the program with this build ID.
fn place(id: &str) -> PathBuf {
    let (folder, file) = id.split_at(2);
    Path::new("usr/lib/debug/.build-id")
        .join(folder)
        .join(format!("{file}.debug"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use anyhow::{Context, Result};

    use super::super::build::{Build, Libc, Machine};
    use crate::shell;

    #[test]
    fn a_build_id_is_read_from_the_notes() {
        let notes = "\
Displaying notes found in: .note.gnu.build-id
  Owner                Data size \tDescription
  GNU                  0x00000014\tNT_GNU_BUILD_ID (unique build ID bitstring)
    Build ID: 3f07b1c2
";
        assert_eq!(super::noted(notes), Some("3f07b1c2"));
        assert_eq!(super::noted(""), None);
        assert_eq!(super::noted("    Build ID: \n"), None);
        assert_eq!(
            super::place("3f07b1c2"),
            Path::new("usr/lib/debug/.build-id/3f/07b1c2.debug")
        );
    }

    /// A program linked with these flags, in a folder of the test's own.
    fn program(name: &str, flags: &[&str]) -> Result<PathBuf> {
        let folder = shell::target().join("tmp/xtask").join(name);
        let source = folder.join("main.c");
        super::files::write(
            &source,
            "int answer(void) { return 42; }\nint main(void) { return answer() - 42; }\n",
        )?;
        let made = folder.join("program");
        let mut compile = Command::new("cc");
        shell::run(compile.args(flags).arg("-o").arg(&made).arg(&source))?;
        Ok(made)
    }

    fn names_its_function(file: &Path) -> Result<bool> {
        let symbols = shell::output(
            Command::new("readelf")
                .arg("--symbols")
                .arg("--wide")
                .arg(file),
        )?;
        Ok(symbols.lines().any(|line| line.ends_with(" answer")))
    }

    #[test]
    fn symbols_leave_the_program_for_a_file_of_their_own() -> Result<()> {
        let build = Build {
            machine: Machine::host(),
            libc: Libc::Gnu,
            profile: "release".to_owned(),
        };
        let plain = program("plain", &["-Wl,--build-id=none"])?;
        assert_eq!(super::build_id(&build, &plain)?, None);
        let program = program("symbols", &["-g", "-Wl,--build-id=sha1"])?;
        let id = super::build_id(&build, &program)?.context("no build ID")?;
        let debug = program.with_extension("debug");
        super::copy(&build, &program, &debug)?;
        super::strip(&build, &program)?;
        assert!(names_its_function(&debug)?);
        assert!(!names_its_function(&program)?);
        for file in [&program, &debug] {
            assert_eq!(super::build_id(&build, file)?.as_ref(), Some(&id));
        }
        shell::run(&mut Command::new(program))
    }
}
