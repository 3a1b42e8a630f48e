//! What a command line runs.
//!
//! Servers are rarely started as themselves. `npx -y @scope/pkg@1.2.3 /dir`, `uvx pkg`,
//! `node …/node_modules/@scope/pkg/dist/index.js /dir` and `docker run -i image` all name a package
//! somewhere, and it is the package with its own arguments that tells one server from another. This
//! module knows the launchers' grammars just well enough to find both. If it guesses wrong, the
//! identity is still stable, only less readable.

use super::bin_links::BinLinks;
use super::node_modules::{self, Place};
use super::normal;
use crate::process::launcher::{behind_guard, file_name};

mod grammar;

use grammar::{
    DENO_VALUES, DOCKER_FLAGS, HOSTED_BY_NODE, INTERPRETERS, LAUNCHED_BY_PYTHON, NODE_VALUES,
    NPM_ELSEWHERE, NPM_VALUES, PREFIXES, PROJECT_TOOLS, PYTHON_VALUES, RUNNERS, SHELL_VALUES,
    SHELLS, SURROUNDED_BY_NODE, SURROUNDINGS, UV_VALUES, behind, hosted, is_command_option, option,
    positional, program, script_launcher, shell_words,
};

/// Where the program that runs comes from.
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
    /// The command in `node_modules/.bin` that led to the package, where that has another name.
    pub(super) called: Option<String>,
    /// The arguments as written.
    pub(super) arguments: Vec<String>,
    /// Whether the arguments come from a process title, where blanks no longer separate them reliably.
    pub(super) from_title: bool,
}

/// How deeply launchers may nest (`env` in `sh -c` in `uv run` …).
const MAX_DEPTH: usize = 6;

/// Finds what a process runs from its arguments and its executable's path; `links` finds the packages
/// behind commands.
pub(super) fn recognise(
    argv: &[String],
    exe: &str,
    cwd: Option<&str>,
    links: &BinLinks,
) -> Option<Invocation> {
    // A process title: one argument with blanks in the place of a command.
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

/// Whether a process is a launcher: it stays above what it launches, or gives way to it. If the client
/// is unknown, only such processes count as part of a server.
pub(super) fn is_wrapper(argv: &[String], exe: &str) -> bool {
    let words: Vec<&str> = match argv {
        [title] => title.split_whitespace().collect(),
        argv => argv.iter().map(String::as_str).collect(),
    };
    launches(&words, exe, 0)
}

fn launches(words: &[&str], exe: &str, depth: usize) -> bool {
    let Some((&first, rest)) = words.split_first() else {
        return false;
    };
    if depth > MAX_DEPTH {
        return false;
    }
    match called(first, exe) {
        "npx" | "uvx" | "uv" | "bunx" | "pipx" | "pnpx" => true,
        "npm" | "pnpm" | "yarn" => rest
            .iter()
            .any(|word| matches!(*word, "exec" | "x" | "dlx" | "run" | "start")),
        // Launchers that are scripts.
        "node" => match positional(rest, NODE_VALUES).split_first() {
            Some((script, rest)) => script_launcher(script)
                .or_else(|| hosted(script, SURROUNDED_BY_NODE))
                .is_some_and(|name| launches(&join(name, rest), "", depth + 1)),
            None => false,
        },
        "python" | "pypy" => {
            let command = match rest {
                ["-m", module, rest @ ..] => Some((*module, rest)),
                rest => positional(rest, PYTHON_VALUES)
                    .split_first()
                    .map(|(script, rest)| (*script, rest)),
            };
            command.is_some_and(|(script, rest)| {
                hosted(script, LAUNCHED_BY_PYTHON)
                    .or_else(|| hosted(script, PROJECT_TOOLS))
                    .is_some_and(|name| launches(&join(name, rest), "", depth + 1))
            })
        }
        name if SHELLS.contains(&name) => {
            rest.iter().any(|word| is_command_option(word))
                || match positional(rest, SHELL_VALUES) {
                    // A shim: a script that takes an interpreter's or a launcher's place.
                    command @ [script, ..] if is_shim(script) => launches(command, "", depth + 1),
                    _ => false,
                }
        }
        "mcpinspect" => behind_guard(words).is_some(),
        name => {
            SURROUNDINGS.iter().any(|(known, _)| *known == name)
                || RUNNERS.contains(&name)
                || PROJECT_TOOLS.contains(&name)
                || PREFIXES.contains(&name)
                || name == "timeout"
        }
    }
}

/// The name by which a program decides what to do, for a program that was called `first`. A title
/// cannot fake an interpreter's executable; but Node's and Bun's are called by the names of their
/// launchers. Of anything else, the name by which it was called says more than the file behind a link.
fn called<'a>(first: &'a str, exe: &'a str) -> &'a str {
    let name = program(first);
    match program(exe) {
        "node" if matches!(name, "npm" | "npx") => name,
        "bun" if name == "bunx" => name,
        known @ ("node" | "python" | "pypy" | "bun" | "deno" | "java") => known,
        _ => name,
    }
}

fn join<'a>(name: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    std::iter::once(name).chain(rest.iter().copied()).collect()
}

/// Whether a shell script has the name of an interpreter or a launcher, in whose place version managers
/// put it: `bash ~/.pyenv/shims/python server.py`.
fn is_shim(script: &str) -> bool {
    matches!(
        program(script),
        "node"
            | "npm"
            | "npx"
            | "pnpm"
            | "pnpx"
            | "yarn"
            | "python"
            | "pypy"
            | "uv"
            | "uvx"
            | "pipx"
            | "poetry"
            | "bun"
            | "bunx"
            | "deno"
            | "java"
    )
}

/// A command line that is being parsed.
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
        // A launcher's name alone, in the place of an interpreter's.
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

    /// Launchers that run a command of the project if it has one of that name, and a package otherwise.
    fn npx(&self, args: &[String]) -> Option<Invocation> {
        let found = self.npm(args)?;
        let command = positional(args, NPM_VALUES);
        let options = &args[..args.len() - command.len()];
        let is_here = found.source == LaunchSource::Npm && option(options, NPM_ELSEWHERE).is_none();
        let package = match (command, self.cwd) {
            ([name, ..], Some(cwd)) if is_here => self.links.nearest(name, cwd),
            _ => None,
        };
        Some(behind_command(found, package))
    }

    fn npm(&self, args: &[String]) -> Option<Invocation> {
        if let Some(call) = option(args, &["-c", "--call"]) {
            return self.shell_text(call);
        }
        let package = option(args, &["-p", "--package"]);
        let [spec, arguments @ ..] = positional(args, NPM_VALUES) else {
            return None;
        };
        let command = normal::npm_name(spec);
        let spec = package.unwrap_or(spec);
        if spec.starts_with(['/', '.', '~']) {
            return Some(self.invocation(LaunchSource::Script, self.path(spec), arguments));
        }
        let found = self.invocation(LaunchSource::Npm, command, arguments);
        // npm's title has the command, but not the package that it is from.
        Some(behind_command(found, package.map(normal::npm_name)))
    }

    fn bun(&self, args: &[String]) -> Option<Invocation> {
        match args {
            [word, rest @ ..] if word == "x" => self.npx(rest),
            [word, rest @ ..] if word == "run" => self.node(rest),
            args => self.node(args),
        }
    }

    fn uv_tool(&self, args: &[String]) -> Option<Invocation> {
        let [command, arguments @ ..] = positional(args, UV_VALUES) else {
            return None;
        };
        let spec = option(args, &["--from", "--spec"]).unwrap_or(command);
        Some(self.invocation(LaunchSource::PyPi, normal::pypi_name(spec), arguments))
    }

    fn uv(&self, args: &[String]) -> Option<Invocation> {
        let directory = option(args, &["--directory"]).map(|dir| self.path(dir));
        let cwd = directory.as_deref().or(self.cwd);
        let args = positional(args, UV_VALUES);
        match args {
            // `uvx` replaces itself by `uv tool uvx`.
            [tool, run, rest @ ..] if tool == "tool" && matches!(run.as_str(), "run" | "uvx") => {
                self.uv_tool(rest)
            }
            [run, rest @ ..] if run == "run" => {
                let inner = option(rest, &["--directory"]).map(|dir| self.path(dir));
                let cwd = inner.as_deref().or(cwd);
                if let Some(module) = option(rest, &["-m", "--module"]) {
                    let at = rest.iter().position(|arg| arg == module)?;
                    let arguments = &rest[at + 1..];
                    return Some(self.invocation(
                        LaunchSource::PyPi,
                        normal::pypi_name(module),
                        arguments,
                    ));
                }
                let command = positional(rest, UV_VALUES);
                match command {
                    [script, ..] if script.ends_with(".py") => Command {
                        argv: command,
                        exe: "",
                        cwd,
                        links: self.links,
                        depth: self.depth + 1,
                    }
                    .script(command),
                    [program, arguments @ ..] if !program.contains('/') => {
                        // A console script of the project, unless it is a launcher itself.
                        let nested = self.nested(command, cwd)?;
                        Some(match nested.source {
                            LaunchSource::Binary => self.invocation(
                                LaunchSource::PyPi,
                                normal::pypi_name(program),
                                arguments,
                            ),
                            _ => nested,
                        })
                    }
                    command => self.nested(command, cwd),
                }
            }
            _ => None,
        }
    }

    fn python(&self, args: &[String]) -> Option<Invocation> {
        for (at, arg) in args.iter().enumerate() {
            if arg == "-m" {
                let arguments = args.get(at + 2..)?;
                return Some(match args.get(at + 1)?.as_str() {
                    // Launchers that are modules as well.
                    "uv" => return self.uv(arguments),
                    "pipx" => return self.uv_tool(behind(arguments, &["run"])?),
                    module => {
                        self.invocation(LaunchSource::PyPi, normal::pypi_name(module), arguments)
                    }
                });
            }
            if arg == "-c" {
                return Some(self.invocation(
                    LaunchSource::Binary,
                    "python".to_owned(),
                    &args[at..],
                ));
            }
            if !arg.starts_with('-') {
                break;
            }
        }
        let command = positional(args, PYTHON_VALUES);
        let [script, arguments @ ..] = command else {
            return Some(self.invocation(LaunchSource::Binary, "python".to_owned(), args));
        };
        let path = self.path(script);
        let name = file_name(script);
        if let Some((_, inside)) = path.rsplit_once("/site-packages/") {
            let package = inside.split('/').next().unwrap_or(inside);
            let package = package.strip_suffix(".py").unwrap_or(package);
            return Some(self.invocation(
                LaunchSource::PyPi,
                normal::pypi_name(package),
                arguments,
            ));
        }
        if matches!(name, "mcp" | "fastmcp")
            || LAUNCHED_BY_PYTHON.contains(&name)
            || (PROJECT_TOOLS.contains(&name) && behind(arguments, &["run"]).is_some())
        {
            return self.nested(command, self.cwd);
        }
        // A console script: its name is the package's more often than not.
        if path.contains("/bin/") && !name.contains('.') {
            return Some(self.invocation(LaunchSource::PyPi, normal::pypi_name(name), arguments));
        }
        Some(self.invocation(LaunchSource::Script, path, arguments))
    }

    fn node(&self, args: &[String]) -> Option<Invocation> {
        let command = positional(args, NODE_VALUES);
        match command {
            [script, arguments @ ..] => {
                let launcher = script_launcher(script)
                    .or_else(|| hosted(script, SURROUNDED_BY_NODE))
                    .or_else(|| hosted(script, HOSTED_BY_NODE));
                if let Some(launcher) = launcher {
                    let mut argv = vec![launcher.to_owned()];
                    argv.extend_from_slice(arguments);
                    return self.nested(&argv, self.cwd);
                }
                self.script_or_package(script, arguments)
            }
            // Code on the command line (`node -e`), or on standard input.
            [] => Some(self.invocation(LaunchSource::Binary, self.called(), args)),
        }
    }

    fn deno(&self, args: &[String]) -> Option<Invocation> {
        let args = match args {
            [word, rest @ ..] if matches!(word.as_str(), "run" | "x" | "serve") => rest,
            args => args,
        };
        let [spec, arguments @ ..] = positional(args, DENO_VALUES) else {
            return None;
        };
        if let Some(package) = spec.strip_prefix("npm:") {
            return Some(self.invocation(LaunchSource::Npm, normal::npm_name(package), arguments));
        }
        if let Some(package) = spec.strip_prefix("jsr:") {
            return Some(self.invocation(LaunchSource::Deno, normal::npm_name(package), arguments));
        }
        if spec.contains("://") {
            return Some(self.invocation(LaunchSource::Deno, spec.clone(), arguments));
        }
        self.script_or_package(spec, arguments)
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

    /// A script, or the package whose folder contains it or a link to it.
    fn script_or_package(&self, script: &str, arguments: &[String]) -> Option<Invocation> {
        let path = self.path(script);
        if !path.contains("/node_modules/") {
            let package = match node_modules::is_global_command(&path) {
                true => self.links.package(&path),
                false => None,
            };
            return Some(match package {
                Some(name) => self.invocation(LaunchSource::Npm, name, arguments),
                None => self.invocation(LaunchSource::Script, path, arguments),
            });
        }
        // pnpm's commands run `node_modules/.bin/../package/index.js`.
        let plain = normal::join("/", &path);
        let package = |name| self.invocation(LaunchSource::Npm, name, arguments);
        Some(match node_modules::place(&plain) {
            Some(Place::Package(name)) => package(name),
            Some(Place::Command(name)) => {
                let is_absolute = path.starts_with('/');
                let behind = is_absolute.then(|| self.links.package(&plain)).flatten();
                behind_command(package(name), behind)
            }
            None => self.invocation(LaunchSource::Script, plain, arguments),
        })
    }

    /// The name by which the program was called.
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

/// An invocation of a command as one of the package behind it, if that is known.
fn behind_command(command: Invocation, package: Option<String>) -> Invocation {
    match package {
        Some(name) if name != command.name => Invocation {
            called: Some(command.name),
            name,
            ..command
        },
        _ => command,
    }
}

#[cfg(test)]
mod tests;
