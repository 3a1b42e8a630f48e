//! The launchers' grammars: which options take a value, where the command begins, and how a shell
//! splits words. The tables come first: correct them when a launcher changes its options.

use crate::launcher::file_name;
pub(super) use crate::launcher::{program, script_launcher};

/// How deeply launchers may nest (`env` in `sh -c` in `uv run` …).
pub(super) const MAX_DEPTH: usize = 6;

/// Options of npx and related launchers that take a value.
pub(super) const NPM_VALUES: &[&str] = &[
    "-p",
    "--package",
    "-c",
    "--call",
    "--registry",
    "-w",
    "--workspace",
    "--prefix",
    "--cache",
    "--userconfig",
    "--loglevel",
    "-C",
    "--dir",
    "--filter",
    "-L",
    "--location",
    "--scope",
    "--tag",
    "--before",
    "--otp",
    "--omit",
    "--include",
    "--only",
    "--also",
    "--cpu",
    "--os",
    "--libc",
    "--ca",
    "--cafile",
    "--cert",
    "--key",
    "--proxy",
    "--https-proxy",
    "--noproxy",
    "--local-address",
    "--maxsockets",
    "--fetch-retries",
    "--fetch-retry-factor",
    "--fetch-retry-maxtimeout",
    "--fetch-retry-mintimeout",
    "--fetch-timeout",
    "--globalconfig",
    "--logs-dir",
    "--logs-max",
    "--cache-max",
    "--cache-min",
    "--min-release-age",
    "--install-strategy",
    "--node-options",
    "--node-gyp",
    "--script-shell",
    "--shell",
    "--umask",
    "--user-agent",
];

/// Options of npx and related launchers after which the working directory's commands do not count.
pub(super) const NPM_ELSEWHERE: &[&str] = &[
    "-p",
    "--package",
    "-c",
    "--call",
    "-w",
    "--workspace",
    "--prefix",
    "-C",
    "--dir",
    "--filter",
];

/// Options of uv, uvx and pipx that take a value.
pub(super) const UV_VALUES: &[&str] = &[
    "--from",
    "--with",
    "-w",
    "--with-editable",
    "--with-requirements",
    "-p",
    "--python",
    "-i",
    "--index-url",
    "--extra-index-url",
    "--index",
    "--default-index",
    "--directory",
    "--project",
    "--cache-dir",
    "--config-file",
    "--env-file",
    "-f",
    "--find-links",
    "-c",
    "--constraints",
    "--overrides",
    "--exclude-newer",
    "--resolution",
    "--prerelease",
    "--link-mode",
    "--extra",
    "--group",
    "--only-group",
    "--no-group",
    "--no-extra",
    "--package",
    "--color",
    "-P",
    "--upgrade-package",
    "--refresh-package",
    "--reinstall-package",
    "--keyring-provider",
    "--allow-insecure-host",
    "--index-strategy",
    "-C",
    "--config-setting",
    "--python-platform",
    "--spec",
    "--pip-args",
    "--build-constraints",
    "--torch-backend",
];

/// Options of python that take a value.
pub(super) const PYTHON_VALUES: &[&str] = &["-W", "-X", "--check-hash-based-pycs"];

/// Options of node and its derivatives that take a value.
pub(super) const NODE_VALUES: &[&str] = &[
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--title",
    "--tsconfig",
    "-P",
    "--project",
];

/// Options of deno that take a value.
pub(super) const DENO_VALUES: &[&str] = &[
    "-c",
    "--config",
    "--import-map",
    "-L",
    "--log-level",
    "--cert",
    "--ext",
];

/// Options of docker that take no value; all others do.
pub(super) const DOCKER_FLAGS: &[&str] = &[
    "-i",
    "-t",
    "-d",
    "-P",
    "-it",
    "-ti",
    "-dit",
    "--rm",
    "--init",
    "--interactive",
    "--tty",
    "--detach",
    "--privileged",
    "--read-only",
    "--no-healthcheck",
    "--sig-proxy",
    "--publish-all",
    "--quiet",
    "-q",
    "--oom-kill-disable",
    "--disable-content-trust",
    "--debug",
    "-D",
    "--tls",
    "--replace",
    "--tls-verify",
];

/// Launchers that only change the environment of a command, with their options that take a value.
pub(super) const SURROUNDINGS: &[(&str, &[&str])] = &[
    (
        "env",
        &["-u", "--unset", "-C", "--chdir", "-S", "--split-string"],
    ),
    (
        "sudo",
        &[
            "-u", "-g", "-C", "-D", "-p", "-h", "-r", "-t", "--user", "--group",
        ],
    ),
    ("doas", &["-u", "-C"]),
    ("nice", &["-n", "--adjustment"]),
    ("ionice", &["-c", "-n", "--class", "--classdata"]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("exec", &[]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("tini", &["-p", "-e"]),
    ("dumb-init", &["-r"]),
    ("catatonit", &[]),
    ("unbuffer", &[]),
    ("cross-env", &[]),
    ("time", &[]),
];

/// Launchers whose command follows `--` or a word of their own.
pub(super) const RUNNERS: &[&str] = &[
    "op",
    "doppler",
    "dotenv",
    "mise",
    "direnv",
    "infisical",
    "systemd-run",
    "flatpak-spawn",
];

/// Project tools whose `run` takes a command.
pub(super) const PROJECT_TOOLS: &[&str] = &[
    "poetry",
    "pdm",
    "hatch",
    "rye",
    "pipenv",
    "pixi",
    "conda",
    "micromamba",
];

/// Programs that run a command given among their arguments, in a grammar of their own. They are part of
/// a launch but say nothing about the server.
pub(super) const PREFIXES: &[&str] = &[
    "firejail",
    "bwrap",
    "taskset",
    "chrt",
    "prlimit",
    "numactl",
    "unshare",
    "nsenter",
    "chroot",
    "setpriv",
    "runuser",
    "su",
    "gosu",
    "su-exec",
    "strace",
    "ltrace",
    "proxychains",
    "proxychains4",
    "xvfb-run",
    "dbus-run-session",
    "systemd-inhibit",
    "fnm",
    "volta",
    "asdf",
    "corepack",
];

/// Interpreters that are themselves Node scripts.
pub(super) const HOSTED_BY_NODE: &[&str] = &["tsx", "ts-node", "jiti", "nodemon"];

/// Launchers in [`SURROUNDINGS`] that are Node scripts.
pub(super) const SURROUNDED_BY_NODE: &[&str] = &["cross-env"];

/// Launchers that may be Python scripts, besides [`PROJECT_TOOLS`].
pub(super) const LAUNCHED_BY_PYTHON: &[&str] = &["uv", "uvx", "pipx"];

/// Options of shells that take a value.
pub(super) const SHELL_VALUES: &[&str] = &["-o", "-O", "--rcfile", "--init-file"];

/// Shells.
pub(super) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];

/// Interpreters that take a script.
pub(super) const INTERPRETERS: &[&str] = &[
    "ruby", "perl", "php", "lua", "Rscript", "julia", "tsx", "ts-node", "jiti", "nodemon",
];

/// Whether a word is a shell's option that takes a command, such as `-c` or `-lc`.
pub(super) fn is_command_option(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

/// The arguments from the first one that is not an option; options and their values are skipped.
pub(super) fn positional<'a, W: AsRef<str>>(args: &'a [W], with_value: &[&str]) -> &'a [W] {
    let mut rest = args;
    while let [first, tail @ ..] = rest {
        let first = first.as_ref();
        if first == "--" {
            return tail;
        }
        if !first.starts_with('-') || first == "-" {
            return rest;
        }
        rest = if with_value.contains(&first) {
            tail.get(1..).unwrap_or_default()
        } else {
            tail
        };
    }
    &[]
}

/// Which of these names a script has.
pub(super) fn hosted(script: &str, names: &[&'static str]) -> Option<&'static str> {
    let name = file_name(script);
    names.iter().copied().find(|known| *known == name)
}

/// The arguments after the first of these words.
pub(super) fn behind<'a>(args: &'a [String], words: &[&str]) -> Option<&'a [String]> {
    let at = args.iter().position(|arg| words.contains(&arg.as_str()))?;
    Some(&args[at + 1..])
}

/// The value of an option (`--from X`, `--from=X`) that precedes the first `--`.
pub(super) fn option<'a>(args: &'a [String], names: &[&str]) -> Option<&'a str> {
    for (at, arg) in args.iter().enumerate() {
        if arg == "--" {
            return None;
        }
        if names.contains(&arg.as_str()) {
            return args.get(at + 1).map(String::as_str);
        }
        if let Some((name, value)) = arg.split_once('=')
            && names.contains(&name)
        {
            return Some(value);
        }
    }
    None
}

/// Splits a shell's command into words; `None` if it is more than words and quotes.
pub(super) fn shell_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => word.push(chars.next()?),
                        '`' => return None,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            ';' | '|' | '&' | '<' | '>' | '(' | ')' | '`' | '\n' | '#' => return None,
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_commands_split_into_words() {
        let words = shell_words("a 'b c' \"d\\\"e\" f\\ g ''");
        assert_eq!(words.unwrap(), ["a", "b c", "d\"e", "f g", ""]);
        for text in [
            "", "a | b", "a; b", "$(x) (", "a > b", "'open", "\"open", "a \\",
        ] {
            assert_eq!(shell_words(text), None, "{text}");
        }
    }
}
