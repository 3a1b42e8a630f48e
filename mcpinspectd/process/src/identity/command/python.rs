//! Packages of PyPI, their launchers, and Python's scripts.

use super::grammar::{
    LAUNCHED_BY_PYTHON, PROJECT_TOOLS, PYTHON_VALUES, UV_VALUES, behind, option, positional,
};
use super::{Command, Invocation, LaunchSource};
use crate::identity::normal;
use crate::launcher::file_name;

impl Command<'_> {
    pub(super) fn uv_tool(&self, args: &[String]) -> Option<Invocation> {
        let [command, arguments @ ..] = positional(args, UV_VALUES) else {
            return None;
        };
        let spec = option(args, &["--from", "--spec"]).unwrap_or(command);
        Some(self.invocation(LaunchSource::PyPi, normal::pypi_name(spec), arguments))
    }

    pub(super) fn uv(&self, args: &[String]) -> Option<Invocation> {
        let directory = option(args, &["--directory"]).map(|dir| self.path(dir));
        let cwd = directory.as_deref().or(self.cwd);
        let args = positional(args, UV_VALUES);
        match args {
            // `uvx` replaces itself with `uv tool uvx`.
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

    pub(super) fn python(&self, args: &[String]) -> Option<Invocation> {
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
        // A console script: its name is usually the package's.
        if path.contains("/bin/") && !name.contains('.') {
            return Some(self.invocation(LaunchSource::PyPi, normal::pypi_name(name), arguments));
        }
        Some(self.invocation(LaunchSource::Script, path, arguments))
    }
}
