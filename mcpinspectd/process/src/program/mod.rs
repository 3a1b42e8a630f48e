//! What runs behind a server's name: the file, and the package that it belongs to.
//!
//! A server keeps its name when its program is replaced, and a replaced program can do anything
//! without changing a single definition. So the program is pinned like a definition: an executable by
//! its contents; a script that an interpreter runs by its contents, and by package and version if it
//! belongs to one. An interpreter that root installed is named but not hashed: its updates say nothing
//! about the server, and an attacker who can replace it does not need a server.
//!
//! The paths to examine come from the process, which can rewrite them; `process::root` opens them with
//! the necessary care. The executable itself is opened through `/proc`, where no path can be faked. The
//! script that the interpreter loaded cannot be recovered: what is examined is the file at its
//! path a moment later.
//!
//! - here: what is examined, and its description as a definition
//! - `package`: which package a script belongs to
//! - `hashes`: hashes of files
//! - [`background`]: the thread that does all of this, so that the daemon never waits

use std::path::{Component, Path, PathBuf};

use mcpinspect_core::model::Pid;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::found_file::FoundFile;
use super::info::{ProcessSnapshot, snapshot};
use super::launcher::file_name;
use super::root::Root;

pub mod background;
mod hashes;
mod package;

use self::hashes::FileHashes;
use self::package::Package;

/// How many arguments to search for a script.
const ARGUMENTS: usize = 16;

/// Interpreters, by the name of their file without a version.
const INTERPRETERS: [&str; 14] = [
    "node", "nodejs", "python", "pypy", "bun", "deno", "ruby", "perl", "php", "java", "lua", "sh",
    "bash", "dash",
];

/// What runs behind a server's name.
#[derive(Clone, Debug)]
pub struct Program {
    definition: Box<RawValue>,
}

impl Program {
    /// The program as a definition that can be pinned and compared: a JSON object with those of
    /// `executable`, `executable_sha256`, `script`, `script_sha256`, `package`, `version` and
    /// `contents_sha256` that are known.
    pub fn definition(&self) -> &RawValue {
        &self.definition
    }
}

/// Examines programs. Caches the hashes of files.
#[derive(Debug, Default)]
pub struct Programs {
    hashes: FileHashes,
}

impl Programs {
    /// The program that a process runs; `None` if the process is gone, about to be gone, or its number now
    /// belongs to another one.
    /// Reads files and may take a second, so it must not run on a thread that may not block.
    pub fn of(&mut self, pid: Pid, started: u64) -> Option<Program> {
        // A zombie has a number but no executable.
        let running =
            |process: &ProcessSnapshot| process.start_time == started && !process.exe.is_empty();
        let process = snapshot(pid).filter(running)?;
        let root = Root::of(pid, process.uid)?;
        let definition = self.describe(&process, &root);
        // It may have exited while its files were being read, and then some of them were not.
        snapshot(pid).filter(|now| running(now) && now.exe == process.exe)?;
        let definition = RawValue::from_string(Value::Object(definition).to_string()).ok()?;
        Some(Program { definition })
    }

    fn describe(&mut self, process: &ProcessSnapshot, root: &Root) -> Map<String, Value> {
        let mut described = Map::new();
        let mut describe =
            |member: &str, value: String| described.insert(member.to_owned(), value.into());
        let interpreter = is_interpreter(&process.exe);
        let executable = root.executable();
        describe("executable", process.exe.clone());
        if let Some(file) = &executable
            && !(interpreter && file.is_roots_own())
            && let Some(hash) = self.hashes.hash(file)
        {
            describe("executable_sha256", hash);
        }
        if !interpreter {
            return described;
        }
        match script(process, root) {
            Some(Script::Module(module)) => {
                let package =
                    prefix(process).and_then(|prefix| package::python(root, &prefix, &module));
                if let Some(package) = package {
                    self.describe_package(&package, &mut describe);
                }
                describe("module", module);
            }
            Some(Script::File(path, file)) => {
                let package =
                    package::of_script(root, &file.path().unwrap_or_else(|| path.clone()));
                // A package manager generates the script that starts a Python package with each
                // installation. The package's own list of files tells what is behind it.
                let generated = package
                    .as_ref()
                    .is_some_and(|package| package.contents.is_some());
                if !generated && let Some(hash) = self.hashes.hash(&file) {
                    describe("script_sha256", hash);
                }
                match package {
                    Some(package) => self.describe_package(&package, &mut describe),
                    None => {
                        describe("script", path.to_string_lossy().into_owned());
                    }
                }
            }
            None => {}
        }
        described
    }

    fn describe_package(
        &mut self,
        package: &Package,
        describe: &mut impl FnMut(&str, String) -> Option<Value>,
    ) {
        describe("package", package.name.clone());
        if let Some(version) = &package.version {
            describe("version", version.clone());
        }
        if let Some(hash) = package
            .contents
            .as_ref()
            .and_then(|file| self.hashes.hash(file))
        {
            describe("contents_sha256", hash);
        }
    }
}

/// What an interpreter runs.
enum Script {
    /// A file, with the path that the process named.
    File(PathBuf, FoundFile),
    /// A module, which Python finds itself.
    Module(String),
}

/// What an interpreter was told to run: a module, or the first argument that names a file.
fn script(process: &ProcessSnapshot, root: &Root) -> Option<Script> {
    let mut arguments = process.argv.iter().skip(1).take(ARGUMENTS);
    while let Some(argument) = arguments.next() {
        if argument == "-m" {
            return arguments.next().cloned().map(Script::Module);
        }
        if argument.starts_with('-') || argument.is_empty() {
            continue;
        }
        let path = absolute(argument, process.cwd.as_deref())?;
        if let Some(file) = root.open(&path) {
            return Some(Script::File(path, file));
        }
    }
    None
}

/// A path as the process means it, without `.` and `..`.
fn absolute(path: &str, cwd: Option<&str>) -> Option<PathBuf> {
    let path = Path::new(path);
    let whole = if path.is_absolute() {
        path.to_owned()
    } else {
        Path::new(cwd?).join(path)
    };
    let mut plain = PathBuf::from("/");
    for component in whole.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            _ => {}
        }
    }
    Some(plain)
}

/// The prefix of a Python interpreter's packages: the folder above the `bin` that it was called from.
fn prefix(process: &ProcessSnapshot) -> Option<PathBuf> {
    let called = absolute(process.argv.first()?, process.cwd.as_deref())
        .filter(|_| process.argv[0].contains('/'))
        .unwrap_or_else(|| PathBuf::from(&process.exe));
    Some(called.parent()?.parent()?.to_owned())
}

fn is_interpreter(exe: &str) -> bool {
    let name =
        file_name(exe).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&name)
}

#[cfg(test)]
mod tests;
