//! What a command line runs.
//!
//! Servers are rarely started directly. `npx -y @scope/pkg@1.2.3 /dir`, `uvx pkg`,
//! `node …/node_modules/@scope/pkg/dist/index.js /dir` and `docker run -i image` all name a package
//! somewhere, and the package with its own arguments is what distinguishes one server from another. This
//! module knows the launchers' grammars just well enough to find both. If it guesses wrong, the
//! identity is still stable, only less readable.

use super::bin_links::BinLinks;
use super::normal;
use crate::launcher::{behind_guard, file_name};

mod grammar;
mod javascript;
mod python;
mod wrapper;

pub(super) use wrapper::is_wrapper;

use grammar::{
    DOCKER_FLAGS, INTERPRETERS, MAX_DEPTH, PROJECT_TOOLS, RUNNERS, SHELL_VALUES, SHELLS,
    SURROUNDINGS, UV_VALUES, behind, is_command_option, positional, program, shell_words,
};
use wrapper::{called, is_shim};

/// Where the running program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LaunchSource {
    Npm,
    PyPi,
    Image,
    Deno,
    Script,
    Binary,
}

impl LaunchSource {
    /// The word that events use for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "package:npm",
            Self::PyPi => "package:pypi",
            Self::Image => "package:image",
            Self::Deno => "package:deno",
            Self::Script => "script",
            Self::Binary => "binary",
        }
    }

    pub(super) fn is_package(self) -> bool {
        matches!(self, Self::Npm | Self::PyPi | Self::Image | Self::Deno)
    }
}

/// What runs, and its own arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) source: LaunchSource,
    /// The package's name without version, the image without tag, or the absolute path of a script or
    /// executable (its bare name if no path is known).
    pub(super) name: String,
    /// The command in `node_modules/.bin` that led to the package, if that has another name.
    pub(super) called: Option<String>,
    /// The arguments as written.
    pub(super) arguments: Vec<String>,
    /// Whether the arguments come from a process title, where blanks no longer separate them reliably.
    pub(super) from_title: bool,
}

/// Finds what a process runs from its arguments and its executable's path; `links` finds the packages
/// behind commands.
pub(super) fn recognise(
    argv: &[String],
    exe: &str,
    cwd: Option<&str>,
    links: &BinLinks,
) -> Option<Invocation> {
    // A process title: one argument with blanks in place of a command.
    if let [title] = argv
        && title.contains(' ')
        && file_name(title.split(' ').next().unwrap_or_default()) != file_name(exe)
    {
        let words: Vec<String> = title.split_whitespace().map(str::to_owned).collect();
        return Some(Invocation {
            from_title: true,
            ..Command {
                argv: &words,
                exe: "",
                cwd,
                links,
                depth: 0,
            }
            .recognise()?
        });
    }
    Command {
        argv,
        exe,
        cwd,
        links,
        depth: 0,
    }
    .recognise()
}

/// A command line being parsed.
struct Command<'a> {
    argv: &'a [String],
    /// The executable of the process that runs it; empty for an entry of a configuration.
    exe: &'a str,
    cwd: Option<&'a str>,
    links: &'a BinLinks,
    depth: usize,
}

impl Command<'_> {
    fn recognise(&self) -> Option<Invocation> {
        if self.depth > MAX_DEPTH {
            return None;
        }
        let Some(first) = self.argv.first().filter(|first| !first.is_empty()) else {
            return (!self.exe.is_empty())
                .then(|| self.invocation(LaunchSource::Binary, self.path(self.exe), &[]));
        };
        let rest = &self.argv[1..];
        let name = called(first, self.exe);
        let found = self.recognise_as(name, first, rest);
        // Just a launcher's name, in place of an interpreter's.
        let own = program(self.exe);
        if found.is_none() && own != name && matches!(own, "node" | "bun") {
            return self.recognise_as(own, first, rest);
        }
        found
    }

    fn recognise_as(&self, name: &str, first: &str, rest: &[String]) -> Option<Invocation> {
        match name {
            "npx" | "bunx" => self.npx(rest),
            "pnpx" => self.npm(rest),
            "npm" | "pnpm" | "yarn" => {
                let verbs = ["exec", "x", "dlx"];
                let at = rest.iter().position(|arg| verbs.contains(&arg.as_str()))?;
                match rest[at].as_str() {
                    "dlx" => self.npm(&rest[at + 1..]),
                    _ => self.npx(&rest[at + 1..]),
                }
            }
            "bun" => self.bun(rest),
            "uvx" => self.uv_tool(rest),
            "uv" => self.uv(rest),
            "pipx" => self.uv_tool(behind(rest, &["run"])?),
            "python" | "pypy" => self.python(rest),
            "node" => self.node(rest),
            "deno" => self.deno(rest),
            "docker" | "podman" | "nerdctl" => self.docker(rest),
            "java" => self.java(rest),
            "dotnet" => self.script(positional(rest, &[])),
            "mcp" | "fastmcp" if behind(rest, &["run", "dev"]).is_some() => {
                self.script(positional(behind(rest, &["run", "dev"])?, UV_VALUES))
            }
            name if SHELLS.contains(&name) => self.shell(rest),
            name if INTERPRETERS.contains(&name) => self.node(rest),
            name if PROJECT_TOOLS.contains(&name) => {
                self.nested(positional(behind(rest, &["run"])?, UV_VALUES), self.cwd)
            }
            "timeout" => self.nested(positional(rest, &["-k", "-s"]).get(1..)?, self.cwd),
            // A server is the same with a guard in front of it.
            "mcpinspect" if let Some(at) = behind_guard(self.argv) => {
                self.nested(&self.argv[at..], self.cwd)
            }
            name if RUNNERS.contains(&name) => {
                let dashes = rest.iter().position(|arg| arg == "--")?;
                self.nested(&rest[dashes + 1..], self.cwd)
            }
            name => match SURROUNDINGS.iter().find(|(known, _)| *known == name) {
                Some((_, values)) => {
                    let mut command = positional(rest, values);
                    while let [assignment, tail @ ..] = command
                        && assignment.contains('=')
                    {
                        command = tail;
                    }
                    self.nested(command, self.cwd)
                }
                None => self.other(first, rest),
            },
        }
    }

    /// A plain executable, or an interpreter that this module does not know (an editor that runs
    /// scripts with its built-in runtime).
    fn other(&self, first: &str, rest: &[String]) -> Option<Invocation> {
        const SCRIPTS: [&str; 7] = ["js", "mjs", "cjs", "ts", "mts", "py", "rb"];
        if let [script, ..] = rest
            && script
                .rsplit_once('.')
                .is_some_and(|(stem, ext)| stem.contains('/') && SCRIPTS.contains(&ext))
        {
            return self.node(rest);
        }
        let path = if self.exe.is_empty() || first.starts_with('/') {
            first
        } else {
            self.exe
        };
        if path.contains("/node_modules/") {
            return self.script_or_package(path, rest);
        }
        Some(self.invocation(LaunchSource::Binary, self.path(path), rest))
    }

    fn docker(&self, args: &[String]) -> Option<Invocation> {
        let verb = args
            .iter()
            .position(|arg| matches!(arg.as_str(), "run" | "exec"))?;
        // `docker mcp gateway run` and the like are plugins, not containers.
        if args[..verb]
            .iter()
            .any(|arg| !arg.starts_with('-') && matches!(arg.as_str(), "mcp" | "compose" | "model"))
        {
            return Some(self.invocation(LaunchSource::Binary, self.called(), args));
        }
        let mut rest = &args[verb + 1..];
        while let [option, tail @ ..] = rest
            && option.starts_with('-')
        {
            let alone = option.contains('=') || DOCKER_FLAGS.contains(&option.as_str());
            rest = if alone { tail } else { tail.get(1..)? };
        }
        let [image, arguments @ ..] = rest else {
            return None;
        };
        Some(self.invocation(LaunchSource::Image, normal::image_name(image), arguments))
    }

    fn java(&self, args: &[String]) -> Option<Invocation> {
        if let Some(at) = args.iter().position(|arg| arg == "-jar") {
            return self.script(args.get(at + 1..)?);
        }
        let values = [
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "-m",
        ];
        let [class, arguments @ ..] = positional(args, &values) else {
            return None;
        };
        Some(self.invocation(LaunchSource::Binary, class.clone(), arguments))
    }

    fn shell(&self, args: &[String]) -> Option<Invocation> {
        if let Some(at) = args.iter().position(|arg| is_command_option(arg)) {
            return self.shell_text(args.get(at + 1)?).or_else(|| {
                Some(self.invocation(LaunchSource::Binary, self.called(), &args[at..]))
            });
        }
        match positional(args, SHELL_VALUES) {
            [] => None,
            command @ [script, ..] if is_shim(script) => self.nested(command, self.cwd),
            // What pnpm puts into `.bin` is a shell script.
            [script, arguments @ ..] => self.script_or_package(script, arguments),
        }
    }

    /// A shell's command, if it consists of words only.
    fn shell_text(&self, text: &str) -> Option<Invocation> {
        let last = text.rsplit("&&").next()?;
        let mut words = shell_words(last)?;
        let assignments = words
            .iter()
            .take_while(|word| word.contains('=') && !word.starts_with('-'))
            .count();
        words.drain(..assignments);
        self.nested(&words, self.cwd)
    }

    fn nested(&self, argv: &[String], cwd: Option<&str>) -> Option<Invocation> {
        if argv.is_empty() {
            return None;
        }
        Command {
            argv,
            exe: "",
            cwd,
            links: self.links,
            depth: self.depth + 1,
        }
        .recognise()
    }

    fn script(&self, command: &[String]) -> Option<Invocation> {
        let [script, arguments @ ..] = command else {
            return None;
        };
        Some(self.invocation(LaunchSource::Script, self.path(script), arguments))
    }

    /// The name under which the program was called.
    fn called(&self) -> String {
        self.argv
            .first()
            .map_or_else(String::new, |first| program(first).to_owned())
    }

    /// Makes a path absolute. A bare word without a known directory stays as it is.
    fn path(&self, path: &str) -> String {
        match self.cwd {
            Some(cwd)
                if path.starts_with('.')
                    || (path.contains('/') && !path.starts_with(['/', '~'])) =>
            {
                normal::join(cwd, path)
            }
            Some(cwd) if !path.contains('/') && path.contains('.') => normal::join(cwd, path),
            _ => path.to_owned(),
        }
    }

    fn invocation(&self, source: LaunchSource, name: String, arguments: &[String]) -> Invocation {
        Invocation {
            source,
            name,
            called: None,
            arguments: arguments.to_vec(),
            from_title: false,
        }
    }
}

#[cfg(test)]
mod tests;
