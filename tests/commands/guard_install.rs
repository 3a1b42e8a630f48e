//! `mcpinspect guard install` and `uninstall` on clients' configurations, and the servers that they start
//! afterwards.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{built, require_root};

const POLICY: &str = "[[rule]]\nid = \"no-writes\"\nwhen = { server = \"files\", method = \"tools/call\" }\naction = \"block\"\n";

const CURSOR: &str = r#"{
    // mine
    "mcpServers": {
        "files": {"command": "cat", "args": []},
        "plain": {
            "command": "cat" // no arguments
        },
        "remote": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer x"}},
    },
}
"#;

/// A home directory with a policy in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.write("policy.toml", POLICY);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn guard(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(built("mcpinspect"));
        command
            .arg("guard")
            .args(arguments)
            .env("HOME", self.path(""))
            .current_dir(self.path(""));
        command
    }

    #[track_caller]
    fn install(&self, arguments: &[&str]) -> String {
        let output = self.guard(&["install", "--policy", "policy.toml"]);
        done(output, arguments)
    }

    #[track_caller]
    fn uninstall(&self, arguments: &[&str]) -> String {
        done(self.guard(&["uninstall"]), arguments)
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.guard(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

#[track_caller]
fn done(mut command: Command, arguments: &[&str]) -> String {
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Starts what a configuration says, as a client would, and says one line to it.
fn start(entry: &Value, line: &str) -> Output {
    let words = entry["args"].as_array().unwrap().iter();
    let mut child = Command::new(entry["command"].as_str().unwrap())
        .args(words.map(|word| word.as_str().unwrap()))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{line}").unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

#[test]
fn a_client_starts_its_servers_through_the_guard_and_then_no_longer() {
    let home = Home::new();
    home.write(".cursor/mcp.json", CURSOR);
    let path = home.path(".cursor/mcp.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

    let report = home.install(&["cursor"]);
    for part in [
        "  files: guarded\n",
        "  plain: guarded\n",
        "  remote: not guarded: it is at a URL",
        "mcp.json.mcpinspect-backup\n",
        "restart the client",
    ] {
        assert!(report.contains(part), "{report}");
    }
    let text = home.read(".cursor/mcp.json");
    assert!(text.starts_with("{\n    // mine\n"), "{text}");
    assert!(text.contains("] // no arguments\n"), "{text}");
    assert!(text.contains(
        r#""remote": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer x"}},"#
    ));
    assert_eq!(home.read(".cursor/mcp.json.mcpinspect-backup"), CURSOR);
    for name in ["mcp.json", "mcp.json.mcpinspect-backup"] {
        let data = fs::metadata(home.path(".cursor").join(name)).unwrap();
        assert_eq!(data.permissions().mode() & 0o7777, 0o640, "{name}");
    }

    // As its client starts it, in another directory: the rule knows the server by its configured name.
    let plain = text.replace("// mine", "").replace("// no arguments", "");
    let plain = plain.replace("},\n    },\n}", "}}}");
    let value: Value = serde_json::from_str(&plain).unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
    let blocked = start(&value["mcpServers"]["files"], call);
    let said = String::from_utf8(blocked.stdout).unwrap();
    assert!(said.contains("Blocked by policy"), "{said}");
    let passed = start(&value["mcpServers"]["plain"], call);
    assert_eq!(
        String::from_utf8(passed.stdout).unwrap(),
        format!("{call}\n")
    );

    let report = home.install(&["cursor"]);
    assert!(report.contains("  files: already guarded\n"), "{report}");
    assert_eq!(home.read(".cursor/mcp.json"), text);

    let report = home.uninstall(&["cursor"]);
    assert!(
        report.contains("files: started without the guard again"),
        "{report}"
    );
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    assert_eq!(
        home.files(".cursor"),
        ["mcp.json"],
        "nothing is left behind"
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o640
    );
    let report = home.uninstall(&["cursor"]);
    assert!(report.contains("files: not guarded"), "{report}");
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let home = Home::new();
    home.write(".cursor/mcp.json", CURSOR);
    let before = fs::metadata(home.path(".cursor/mcp.json")).unwrap();
    let report = home.install(&["cursor", "files", "--dry-run"]);
    assert!(
        report.contains("\n-        \"files\": {\"command\": \"cat\", \"args\": []},\n"),
        "{report}"
    );
    assert!(
        report.contains("\n+        \"files\": {\"command\": \""),
        "{report}"
    );
    assert!(
        report.contains("\"--server=files\", \"--\", \"cat\"]},\n"),
        "{report}"
    );
    assert!(report.contains("files: would be guarded"), "{report}");
    assert!(!report.contains("plain: "), "{report}");
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    assert_eq!(home.files(".cursor"), ["mcp.json"]);
    let after = fs::metadata(home.path(".cursor/mcp.json")).unwrap();
    assert_eq!(before.ino(), after.ino());
}

#[test]
fn what_was_changed_since_stays_changed() {
    let home = Home::new();
    home.write(
        "p/.mcp.json",
        r#"{"mcpServers":{"a":{"command":"cat","args":["-u"]},"b":{"command":"cat"}}}"#,
    );
    let run = |command: &str, arguments: &[&str]| {
        let mut guard = home.guard(&[command]);
        if command == "install" {
            guard.arg("--policy").arg(home.path("policy.toml"));
        }
        guard.current_dir(home.path("p"));
        done(guard, arguments)
    };
    run("install", &["claude-code", "a"]);
    run("install", &["claude-code", "b"]);
    let backup = home.read("p/.mcp.json.mcpinspect-backup");
    assert!(
        !backup.contains("guard"),
        "it is from before the first: {backup}"
    );
    let text = home.read("p/.mcp.json").replace("\"-u\"", "\"-u\", \"-n\"");
    home.write("p/.mcp.json", &text);
    let report = run("uninstall", &["claude-code"]);
    assert!(report.contains("as it was before the guard: "), "{report}");
    assert_eq!(
        home.read("p/.mcp.json"),
        r#"{"mcpServers":{"a":{"command":"cat","args":["-u", "-n"]},"b":{"command":"cat"}}}"#
    );
    assert_eq!(
        home.files("p"),
        [".mcp.json", ".mcp.json.mcpinspect-backup"]
    );
}

#[test]
fn a_file_by_its_path_and_one_that_is_kept_elsewhere() {
    let home = Home::new();
    let before = r#"{"servers": {"a": {"type": "stdio", "command": "cat"}}}"#;
    home.write("dotfiles/code.json", before);
    home.install(&["dotfiles/code.json"]);
    assert!(home.read("dotfiles/code.json").contains("\"guard\""));
    home.uninstall(&["dotfiles/code.json"]);
    assert_eq!(home.read("dotfiles/code.json"), before);

    // Through a link: nobody but root follows it.
    home.write(".vscode/x", "");
    home.write(".config/Code/User/x", "");
    let link = home.path(".config/Code/User/mcp.json");
    symlink(home.path("dotfiles/code.json"), &link).unwrap();
    if nix::unistd::geteuid().is_root() {
        let policy = home.path("policy.toml");
        let report = home.refused(&["install", "vscode", "--policy", policy.to_str().unwrap()]);
        assert!(report.contains("symbolic link"), "{report}");
        assert!(
            report.contains("dotfiles/code.json"),
            "what to do: {report}"
        );
        symlink(home.path("dotfiles"), home.path("linked")).unwrap();
        let report = home.refused(&["uninstall", "linked/code.json"]);
        assert!(report.contains("symbolic link"), "{report}");
        assert_eq!(home.read("dotfiles/code.json"), before);
    } else {
        home.install(&["vscode"]);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(home.read("dotfiles/code.json").contains("\"guard\""));
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    let home = Home::new();
    home.write(".cursor/mcp.json", CURSOR);
    let policy = home.path("policy.toml");
    let policy = policy.to_str().unwrap();
    home.write("prose.json", "servers: none\n");
    let install = |arguments: &[&str]| {
        let mut all = vec!["install", "--policy", policy];
        all.extend(arguments);
        home.refused(&all)
    };
    for (arguments, part) in [
        (
            &["emacs"][..],
            "known clients: claude-code, claude-desktop, codex, cursor",
        ),
        (&["zed"], "no configuration at ~/.config/zed/settings.json"),
        (&["./none.json"], "none.json"),
        (&["cursor", "gone"], "its servers: files, plain, remote"),
        (&["cursor", "remote"], "it is at a URL"),
        (&["policy.toml"], "has no servers"),
        (&["prose.json"], "it is not valid JSON"),
        (&["/"], "is not a file"),
        (&["/dev/null"], "is not a regular file"),
    ] {
        let report = install(arguments);
        assert!(report.contains(part), "{arguments:?}: {report}");
    }
    home.write("broken.toml", "[[rule]]\nid = \"x\"\n");
    let report = home.refused(&["install", "cursor", "--policy", "broken.toml"]);
    assert!(report.contains("nothing was changed"), "{report}");
    let report = home.refused(&["install", "cursor", "--policy", "gone.toml"]);
    assert!(report.contains("gone.toml"), "{report}");

    fs::hard_link(home.path(".cursor/mcp.json"), home.path("other.json")).unwrap();
    let report = install(&["cursor"]);
    assert!(report.contains("hard links"), "{report}");
    fs::remove_file(home.path("other.json")).unwrap();
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    assert_eq!(home.files(".cursor"), ["mcp.json"]);
}

/// Tests that need root: `cargo xtask test --unit` leaves this module out.
mod as_root {
    use super::*;

    #[test]
    fn root_keeps_the_owner() {
        require_root();
        let home = Home::new();
        home.write(".cursor/mcp.json", CURSOR);
        let owner = Some(nix::unistd::Uid::from_raw(12345));
        let group = Some(nix::unistd::Gid::from_raw(23456));
        let path = home.path(".cursor/mcp.json");
        nix::unistd::chown(&path, owner, group).unwrap();
        home.install(&["cursor"]);
        for path in [
            &path,
            Path::new(&format!("{}.mcpinspect-backup", path.display())),
        ] {
            let data = fs::metadata(path).unwrap();
            assert_eq!(
                (data.uid(), data.gid()),
                (12345, 23456),
                "{}",
                path.display()
            );
        }
    }
}
