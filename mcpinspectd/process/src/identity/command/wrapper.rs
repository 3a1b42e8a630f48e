//! Launchers: which processes only start the one that serves.

use super::grammar::{
    LAUNCHED_BY_PYTHON, MAX_DEPTH, NODE_VALUES, PREFIXES, PROJECT_TOOLS, PYTHON_VALUES, RUNNERS,
    SHELL_VALUES, SHELLS, SURROUNDED_BY_NODE, SURROUNDINGS, hosted, is_command_option, positional,
    program, script_launcher,
};
use crate::launcher::behind_guard;

/// Whether a process is a launcher: it stays above what it launches, or is replaced by it. If the client
/// is unknown, only such processes count as part of a server.
pub(in super::super) fn is_wrapper(argv: &[String], exe: &str) -> bool {
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
/// cannot fake an interpreter's executable; but Node and Bun are called by the names of their
/// launchers. For anything else, the name it was called by says more than the file behind a link.
pub(super) fn called<'a>(first: &'a str, exe: &'a str) -> &'a str {
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

/// Whether a shell script has the name of an interpreter or a launcher that version managers replace
/// with it: `bash ~/.pyenv/shims/python server.py`.
pub(super) fn is_shim(script: &str) -> bool {
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
