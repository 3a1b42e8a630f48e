//! Packages of npm, Bun and Deno, and the scripts that these runtimes run.

use super::grammar::{
    DENO_VALUES, HOSTED_BY_NODE, NODE_VALUES, NPM_ELSEWHERE, NPM_VALUES, SURROUNDED_BY_NODE,
    hosted, option, positional, script_launcher,
};
use super::{Command, Invocation, LaunchSource};
use crate::identity::node_modules;
use crate::identity::node_modules::NodeModulesPath;
use crate::identity::normal;

impl Command<'_> {
    /// Launchers that run a command of the project if it has one of that name, and a package otherwise.
    pub(super) fn npx(&self, args: &[String]) -> Option<Invocation> {
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

    pub(super) fn npm(&self, args: &[String]) -> Option<Invocation> {
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
        // npm's title contains the command, but not the package it comes from.
        Some(behind_command(found, package.map(normal::npm_name)))
    }

    pub(super) fn bun(&self, args: &[String]) -> Option<Invocation> {
        match args {
            [word, rest @ ..] if word == "x" => self.npx(rest),
            [word, rest @ ..] if word == "run" => self.node(rest),
            args => self.node(args),
        }
    }

    pub(super) fn node(&self, args: &[String]) -> Option<Invocation> {
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

    pub(super) fn deno(&self, args: &[String]) -> Option<Invocation> {
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

    /// A script, or the package whose folder contains it or a link to it.
    pub(super) fn script_or_package(
        &self,
        script: &str,
        arguments: &[String],
    ) -> Option<Invocation> {
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
        Some(match node_modules::locate(&plain) {
            Some(NodeModulesPath::Package(name)) => package(name),
            Some(NodeModulesPath::Command(name)) => {
                let is_absolute = path.starts_with('/');
                let behind = is_absolute.then(|| self.links.package(&plain)).flatten();
                behind_command(package(name), behind)
            }
            None => self.invocation(LaunchSource::Script, plain, arguments),
        })
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
