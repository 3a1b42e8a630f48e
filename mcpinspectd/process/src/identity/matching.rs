//! Whether an entry of a configuration describes a launch.
//!
//! An entry says `npx -y @scope/pkg@1.2 /dir`; what runs is `npm exec @scope/pkg@1.2 /dir`, a shell,
//! and `node …/.bin/pkg /dir`. So both sides are parsed first (see [`super::command`]), and then
//! package and arguments are compared: the package must be that of one process in the chain, and the
//! arguments those of one of them. Variables that the client fills in (`${workspaceFolder}`) match
//! anything.

use super::bin_links::BinLinks;
use super::command::{self, Invocation, LaunchSource};
use super::config_file::ConfiguredServer;
use super::launch::{self, Launch};
use super::normal;
use crate::info::ProcessSnapshot;
use crate::launcher::file_name;

/// Whether `entry` describes `launch`; `links` finds the packages behind commands.
pub(super) fn matches(entry: &ConfiguredServer, launch: &Launch, links: &BinLinks) -> bool {
    let Some(server) = launch.chain.first() else {
        return false;
    };
    if let Some(project) = &entry.project {
        let within = |cwd: &str| {
            cwd.strip_prefix(project.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut processes = launch.chain.iter().chain(&launch.client);
        if !processes.any(|process| process.cwd.as_deref().is_some_and(within)) {
            return false;
        }
    }
    let home = launch.home.as_deref();
    let argv: Vec<String> = entry.argv.iter().map(|arg| expand(arg, home)).collect();
    if launch
        .chain
        .iter()
        .any(|process| runs_exactly(process, &argv))
    {
        return true;
    }
    let cwd = entry.cwd.as_deref().or(server.cwd.as_deref());
    let Some(wanted) = command::recognise(&argv, "", cwd, links) else {
        return false;
    };
    let running: Vec<Invocation> = launch
        .chain
        .iter()
        .filter_map(|process| launch::invocation(process, links))
        .collect();
    running
        .iter()
        .any(|invocation| same_target(&wanted, invocation, links))
        && running
            .iter()
            .any(|invocation| same_arguments(&wanted, invocation))
}

/// Whether a process runs exactly this command. The program may be given with or without its directory.
fn runs_exactly(process: &ProcessSnapshot, argv: &[String]) -> bool {
    let ([program, args @ ..], [wanted, wanted_args @ ..]) = (process.argv.as_slice(), argv) else {
        return false;
    };
    let same_program = program == wanted
        || (!wanted.contains('/') && file_name(program) == wanted)
        || (!program.contains('/') && file_name(wanted) == program)
        || process.exe == *wanted;
    same_program && same_words(wanted_args, args)
}

fn same_target(wanted: &Invocation, running: &Invocation, links: &BinLinks) -> bool {
    // What was called by the entry's name runs the entry's package, unless the entry's is known to be
    // a different one.
    let called = running.called.as_deref();
    if wanted.source == running.source {
        let bare = wanted.source == LaunchSource::Binary && !wanted.name.contains('/');
        return same_word(&wanted.name, &running.name)
            || (bare && file_name(&running.name) == wanted.name)
            || (wanted.called.is_none()
                && called.is_some_and(|called| same_word(&wanted.name, called)));
    }
    if wanted.source != LaunchSource::Binary {
        return false;
    }
    // A console script is an executable to its caller, but a script to the interpreter.
    let name = normal::pypi_name(file_name(&wanted.name));
    let is_same = |running: &str| name == normal::pypi_name(running);
    match running.source {
        LaunchSource::PyPi => is_same(&running.name),
        LaunchSource::Npm => match links.package(&wanted.name) {
            Some(package) => package == running.name,
            None => is_same(&running.name) || called.is_some_and(is_same),
        },
        _ => false,
    }
}

fn same_arguments(wanted: &Invocation, running: &Invocation) -> bool {
    if running.from_title {
        let wanted: Vec<String> = wanted
            .arguments
            .iter()
            .flat_map(|arg| arg.split_whitespace())
            .map(str::to_owned)
            .collect();
        return same_words(&wanted, &running.arguments);
    }
    same_words(&wanted.arguments, &running.arguments)
}

fn same_words(wanted: &[String], running: &[String]) -> bool {
    wanted.len() == running.len() && wanted.iter().zip(running).all(|(w, r)| same_word(w, r))
}

/// Whether a word is what the configuration says; `${…}` in it matches anything.
fn same_word(wanted: &str, running: &str) -> bool {
    let Some((front, rest)) = wanted.split_once("${") else {
        return wanted == running;
    };
    let Some(mut running) = running.strip_prefix(front) else {
        return false;
    };
    let mut rest = rest;
    loop {
        let Some((_, literal)) = rest.split_once('}') else {
            return false;
        };
        let (literal, next) = match literal.split_once("${") {
            Some((literal, next)) => (literal, Some(next)),
            None => (literal, None),
        };
        match next {
            None => return running.ends_with(literal),
            Some(next) => {
                let Some(at) = running.find(literal) else {
                    return false;
                };
                running = &running[at + literal.len()..];
                rest = next;
            }
        }
    }
}

/// Replaces the usual spellings of the home directory at the start of an argument.
fn expand(arg: &str, home: Option<&str>) -> String {
    let Some(home) = home else {
        return arg.to_owned();
    };
    for sign in ["~/", "$HOME/", "${HOME}/", "${env:HOME}/", "${userHome}/"] {
        if let Some(rest) = arg.strip_prefix(sign) {
            return format!("{home}/{rest}");
        }
    }
    arg.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn variables_match_anything() {
        assert!(same_word("a", "a"));
        assert!(!same_word("a", "b"));
        assert!(same_word("${x}", "anything"));
        assert!(same_word("${x}/src/${y}.py", "/p/src/m.py"));
        assert!(!same_word("${x}/src/${y}.py", "/p/lib/m.py"));
        assert!(!same_word("a${x}b", "ac"));
        assert!(!same_word("a${x", "ab"));
        assert!(same_word("a${x}${y}b", "ab"));
    }

    #[test]
    fn home_directories() {
        assert_eq!(expand("~/x", Some("/home/me")), "/home/me/x");
        assert_eq!(expand("${HOME}/x", Some("/home/me")), "/home/me/x");
        assert_eq!(expand("a~/x", Some("/home/me")), "a~/x");
        assert_eq!(expand("~/x", None), "~/x");
    }

    proptest! {
        #[test]
        fn any_word_is_itself(word in "[^$]*", more in ".*") {
            prop_assert!(same_word(&word, &word));
            let _ = same_word(&more, &word);
        }
    }
}
