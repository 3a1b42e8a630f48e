//! Programs by the last part of their paths, and launchers that are themselves scripts.

use std::path::Path;

/// The last component of a path.
pub(super) fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

/// The bare name of a program: no directory, no login dash, no version (`python3.11` → `python`).
pub(super) fn program(path: &str) -> &str {
    let name = file_name(path).trim_start_matches('-');
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    match bare {
        "python" | "pypy" | "node" | "ruby" | "perl" | "php" | "lua" | "java" => bare,
        "nodejs" => "node",
        _ => name,
    }
}

/// The launcher that is itself a Node script: `node /usr/bin/npx …`.
pub(super) fn script_launcher(script: &str) -> Option<&'static str> {
    match file_name(script) {
        "npx" | "npx-cli.js" => Some("npx"),
        "npm" | "npm-cli.js" => Some("npm"),
        // Those that end with `js` are corepack's.
        "pnpm" | "pnpm.cjs" | "pnpm.mjs" | "pnpm.js" => Some("pnpm"),
        "pnpx" | "pnpx.cjs" | "pnpx.mjs" | "pnpx.js" => Some("npx"),
        "yarn" | "yarn.js" | "yarn.cjs" | "yarnpkg.js" => Some("yarn"),
        _ => None,
    }
}

/// What follows `mcpinspect guard` in a command, including the server's own command.
fn of_guard<W: AsRef<str>>(words: &[W]) -> Option<&[W]> {
    let [first, second, rest @ ..] = words else {
        return None;
    };
    let is_guard = file_name(first.as_ref()) == "mcpinspect" && second.as_ref() == "guard";
    is_guard.then_some(rest)
}

/// Where the command behind our own guard begins: `mcpinspect guard … -- COMMAND`.
pub(super) fn behind_guard<W: AsRef<str>>(words: &[W]) -> Option<usize> {
    let rest = of_guard(words)?;
    let dashes = rest.iter().position(|word| word.as_ref() == "--")?;
    (dashes + 1 < rest.len()).then_some(dashes + 3)
}

/// The options of our own guard. Whatever follows `--` is the server's.
fn options_of_guard<W: AsRef<str>>(words: &[W]) -> impl Iterator<Item = &str> {
    let rest = of_guard(words).unwrap_or_default().iter();
    rest.map(AsRef::as_ref).take_while(|word| *word != "--")
}

/// The URL behind our own guard: `mcpinspect guard … --upstream URL`.
pub(super) fn upstream_of_guard<W: AsRef<str>>(words: &[W]) -> Option<&str> {
    let mut rest = options_of_guard(words);
    while let Some(word) = rest.next() {
        match word.strip_prefix("--upstream") {
            Some("") => return rest.next(),
            Some(url) if url.starts_with('=') => return Some(&url[1..]),
            _ => {}
        }
    }
    None
}

/// Whether a command is our own guard in front of a server, or of everything that its clients name.
pub fn is_guard<W: AsRef<str>>(command: &[W]) -> bool {
    behind_guard(command).is_some()
        || upstream_of_guard(command).is_some()
        || options_of_guard(command).any(|word| word == "--forward")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_no_directory_and_no_version() {
        for (path, name) in [
            ("/usr/bin/python3.11", "python"),
            ("-bash", "bash"),
            ("nodejs", "node"),
            ("/x/node-22", "node"),
            ("/opt/x (deleted)", "x"),
            ("mcp-2", "mcp-2"),
            ("", ""),
        ] {
            assert_eq!(program(path), name);
        }
        assert_eq!(script_launcher("/usr/bin/npx"), Some("npx"));
        assert_eq!(script_launcher("/x/index.js"), None);
    }

    #[test]
    fn a_guard_is_known_by_its_command() {
        let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        let behind = |text| behind_guard(&words(text));
        let upstream = |text| upstream_of_guard(&words(text)).map(str::to_owned);
        assert_eq!(
            behind("/usr/bin/mcpinspect guard --policy p -- x y"),
            Some(5)
        );
        assert_eq!(behind("mcpinspect guard --"), None);
        let url = Some("http://127.0.0.1:1/mcp".to_owned());
        let gateway = "mcpinspect guard --listen 127.0.0.1:0 --upstream http://127.0.0.1:1/mcp";
        assert_eq!(upstream(gateway), url);
        let gateway = "mcpinspect guard --upstream=http://127.0.0.1:1/mcp --server x";
        assert_eq!(upstream(gateway), url);
        assert!(is_guard(&words(gateway)) && is_guard(&words("mcpinspect guard -- x")));
        assert!(is_guard(&words(
            "mcpinspect guard --listen 127.0.0.1:0 --forward"
        )));
        // The options of the server behind a guard are not the guard's.
        assert_eq!(
            upstream("mcpinspect guard -- proxy --upstream http://x"),
            None
        );
        for other in [
            "mcpinspect call --upstream x",
            "guard --upstream x",
            "mcpinspect guard --upstream",
            "mcpinspect",
        ] {
            assert!(!is_guard(&words(other)), "{other}");
        }
    }
}
