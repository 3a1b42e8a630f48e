//! What runs behind a server's name: the file, and the package that it belongs to.
//!
//! A server keeps its name when its program is replaced, and a replaced program can do anything
//! without changing a single definition. So the program is pinned as the definitions are: an
//! executable by its contents; a script that an interpreter runs by its contents, and by package and
//! version where it is one. An interpreter that root installed is named and not hashed: its
//! updates are no news about the server, and whoever can replace it needs no server.
//!
//! Where to look is taken from the process' arguments and working directory, which the process can
//! rewrite. So paths are resolved inside its own root, without the kernel's magic links; only
//! regular files that its user may read are opened, without blocking on pipes; and reading is
//! bounded. The executable itself is opened through `/proc`, where no path can be faked. What a
//! script was when the interpreter loaded it is not to be had: it is what lies there a moment later.
//!
//! - here: what is looked at, and how it is told
//! - [`files`]: opening what a process names, and hashing it
//! - [`package`]: which package a script belongs to
//! - [`background`]: all of it off the daemon's way

use std::path::{Component, Path, PathBuf};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::info::{ProcessSnapshot, file_name};
use super::snapshot;
use crate::mcp::json;
use crate::model::Pid;

pub mod background;
mod files;
mod package;

use files::{Files, Root};
use package::Package;

/// Arguments among which a script is looked for.
const ARGUMENTS: usize = 16;

/// Interpreters: the name of their file without a version.
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

/// Who is behind a program, by its definition: its package, or else its script or its executable.
/// The same in every version.
pub fn vendor(definition: &RawValue) -> Option<String> {
    let value = json::value(definition)?;
    ["package", "script", "module", "executable"]
        .iter()
        .find_map(|member| value.get(member)?.as_str().map(str::to_owned))
}

/// Looks at programs. Keeps the hashes of files that have not changed since.
#[derive(Debug, Default)]
pub struct Programs {
    files: Files,
}

impl Programs {
    /// The program that a process runs; `None` where the process is gone or another has its number.
    /// Reads files, and may take a second: not for a thread that must not wait.
    pub fn of(&mut self, pid: Pid, start_time: u64) -> Option<Program> {
        let process = snapshot(pid).filter(|process| process.start_time == start_time)?;
        let root = Root::of(pid, process.uid)?;
        let definition = self.describe(&process, &root);
        // The number may have become another's while its files were read.
        super::start_time(pid).filter(|now| *now == start_time)?;
        let definition = RawValue::from_string(Value::Object(definition).to_string()).ok()?;
        Some(Program { definition })
    }

    fn describe(&mut self, process: &ProcessSnapshot, root: &Root) -> Map<String, Value> {
        let mut told = Map::new();
        let mut tell = |member: &str, value: String| told.insert(member.to_owned(), value.into());
        let interpreter = is_interpreter(&process.exe);
        let executable = root.executable();
        tell("executable", process.exe.clone());
        if let Some(file) = &executable
            && !(interpreter && file.is_roots_own())
            && let Some(hash) = self.files.hash(file)
        {
            tell("executable_sha256", hash);
        }
        if !interpreter {
            return told;
        }
        match script(process, root) {
            Some(Script::Module(module)) => {
                let package =
                    prefix(process).and_then(|prefix| package::python(root, &prefix, &module));
                if let Some(package) = package {
                    self.tell_package(&package, &mut tell);
                }
                tell("module", module);
            }
            Some(Script::File(path, file)) => {
                let package =
                    package::of_script(root, &file.path().unwrap_or_else(|| path.clone()));
                // A package manager makes the script that starts a Python package anew with each
                // installation; what is behind it is told by the package's own list of files.
                let generated = package
                    .as_ref()
                    .is_some_and(|package| package.contents.is_some());
                if !generated && let Some(hash) = self.files.hash(&file) {
                    tell("script_sha256", hash);
                }
                match package {
                    Some(package) => self.tell_package(&package, &mut tell),
                    None => {
                        tell("script", path.to_string_lossy().into_owned());
                    }
                }
            }
            None => {}
        }
        told
    }

    fn tell_package(
        &mut self,
        package: &Package,
        tell: &mut impl FnMut(&str, String) -> Option<Value>,
    ) {
        tell("package", package.name.clone());
        if let Some(version) = &package.version {
            tell("version", version.clone());
        }
        if let Some(hash) = package
            .contents
            .as_ref()
            .and_then(|file| self.files.hash(file))
        {
            tell("contents_sha256", hash);
        }
    }
}

/// What an interpreter runs.
enum Script {
    /// A file, by the path it was named with.
    File(PathBuf, files::Found),
    /// A module that Python finds by itself.
    Module(String),
}

/// What an interpreter was told to run: the first argument that names a file.
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

/// A path as the process means it, without `.` and `..` in it.
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

/// Where a Python interpreter's packages are: the folder above the `bin` that it was called from.
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
