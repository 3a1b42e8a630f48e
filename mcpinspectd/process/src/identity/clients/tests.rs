use std::os::unix::fs::symlink;

use mcpinspect_core::model::Pid;

use super::*;
use crate::ProcessSnapshot;

fn process(line: &str, cwd: &str) -> ProcessSnapshot {
    ProcessSnapshot {
        pid: Pid(1),
        start_time: 1,
        parent: Pid(0),
        name: "x".to_owned(),
        exe: match line.split(' ').next() {
            Some("node" | "npm") => "/usr/bin/node".to_owned(),
            Some("python") => "/usr/bin/python3.11".to_owned(),
            _ => String::new(),
        },
        exe_deleted: false,
        argv: match line.starts_with("npm exec") {
            true => vec![line.to_owned()],
            false => line.split(' ').map(str::to_owned).collect(),
        },
        cwd: Some(cwd.to_owned()),
        uid: nix::unistd::getuid().as_raw(),
        cgroup: "/".to_owned(),
    }
}

/// A home directory with a project in it.
struct Home {
    dir: tempfile::TempDir,
    configs: ClientConfigs,
}

impl Home {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            configs: ClientConfigs::default(),
        }
    }

    fn path(&self, path: &str) -> String {
        self.dir.path().join(path).to_str().unwrap().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn launch(&self, lines: &[&str]) -> Launch {
        std::fs::create_dir_all(self.path("src/project")).unwrap();
        Launch {
            chain: lines
                .iter()
                .map(|line| process(line, &self.path("src/project")))
                .collect(),
            client: None,
            home: Some(self.path("")).map(|home| home.trim_end_matches('/').to_owned()),
        }
    }

    fn named(&self, launch: &Launch) -> Option<ConfiguredName> {
        self.configs.name_of(launch, &BinLinks::none())
    }

    fn name(&self, lines: &[&str]) -> Option<(String, &'static str)> {
        let ConfiguredName { name, client } = self.named(&self.launch(lines))?;
        Some((name, client))
    }
}

const NPX: &[&str] = &[
    "node /h/.npm/_npx/0a/node_modules/.bin/mcp-server-filesystem /data",
    "sh -c 'mcp-server-filesystem' /data",
    "npm exec @modelcontextprotocol/server-filesystem /data",
];
const NPX_ENTRY: &str = r#"{"docs": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem@1.0", "/data"]}}"#;

#[test]
fn the_files_of_every_client_are_found() {
    for (path, text, client) in [
        (
            ".config/Claude/claude_desktop_config.json",
            r#"{"mcpServers": E}"#,
            "claude-desktop",
        ),
        (
            ".claude.json",
            r#"{"numStartups": 3, "mcpServers": E}"#,
            "claude-code",
        ),
        (
            "src/project/.mcp.json",
            r#"{"mcpServers": E}"#,
            "claude-code",
        ),
        ("src/.mcp.json", r#"{"mcpServers": E}"#, "claude-code"),
        (".cursor/mcp.json", r#"{"mcpServers": E}"#, "cursor"),
        (
            "src/project/.cursor/mcp.json",
            r#"{"mcpServers": E}"#,
            "cursor",
        ),
        (
            "src/project/.vscode/mcp.json",
            "{// c\n\"servers\": E, }",
            "vscode",
        ),
        (".config/Code/User/mcp.json", r#"{"servers": E}"#, "vscode"),
        (
            ".config/Code/User/settings.json",
            r#"{"a.b": 1, "mcp": {"servers": E,},}"#,
            "vscode",
        ),
        (
            ".codeium/windsurf/mcp_config.json",
            r#"{"mcpServers": E}"#,
            "windsurf",
        ),
        (
            ".gemini/settings.json",
            r#"{"theme": "x", "mcpServers": E}"#,
            "gemini",
        ),
        (
            ".config/zed/settings.json",
            "{/* c */ \"context_servers\": E}",
            "zed",
        ),
    ] {
        let home = Home::new();
        assert_eq!(home.name(NPX), None);
        home.write(path, &text.replace('E', NPX_ENTRY));
        assert_eq!(home.name(NPX), Some(("docs".to_owned(), client)), "{path}");
        assert_eq!(home.name(&["node /x/other.js /data"]), None, "{path}");
    }
}

#[test]
fn claude_codes_projects_are_limited_to_their_directory() {
    let home = Home::new();
    let text = format!(
        r#"{{"projects": {{"{}": {{"mcpServers": {NPX_ENTRY}}}, "/elsewhere": {{"mcpServers": {}}}}}}}"#,
        home.path("src"),
        NPX_ENTRY.replace("docs", "a-wrong"),
    );
    home.write(".claude.json", &text);
    assert_eq!(home.name(NPX).unwrap().0, "docs");
}

#[test]
fn launches_of_all_kinds_match() {
    let home = Home::new();
    let servers = r#"{
        "zed-style": {"command": {"path": "/opt/x", "args": ["a"]}},
        "bridge": {"url": "https://x/mcp"},
        "broken": {"command": 7},
        "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", "${workspaceFolder}"]},
        "time": {"command": "mcp-server-time", "args": ["--n", 3]},
        "script": {"command": "python", "args": ["~/src/w/server.py"]},
        "relative": {"command": "node", "args": ["build/index.js"]},
        "image": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "KEY", "ghcr.io/o/x:1"]}
    }"#;
    home.write(
        ".cursor/mcp.json",
        &format!(r#"{{"mcpServers": {servers}}}"#),
    );
    let name = |line: &str| home.name(&[line]).map(|(name, _)| name).unwrap_or_default();
    assert_eq!(name("/opt/x a"), "zed-style");
    assert_eq!(name("/opt/x b"), "");
    assert_eq!(
        name("python /v/bin/mcp-server-git --repository /any"),
        "git"
    );
    assert_eq!(name("uvx mcp-server-git --repository /any"), "git");
    assert_eq!(name("python /v/bin/mcp-server-time --n 3"), "time");
    assert_eq!(
        name(&format!("python {}", home.path("src/w/server.py"))),
        "script"
    );
    assert_eq!(name("node build/index.js"), "relative");
    assert_eq!(
        name(&format!("node {}", home.path("src/project/build/index.js"))),
        "relative"
    );
    assert_eq!(name("docker run -i --rm -e KEY=abc ghcr.io/o/x:1"), "image");
}

#[test]
fn the_clients_own_file_comes_first() {
    let home = Home::new();
    home.write(".mcp.json", "{}");
    home.write(".claude.json", &format!(r#"{{"mcpServers": {NPX_ENTRY}}}"#));
    home.write(
        ".gemini/settings.json",
        &format!(
            r#"{{"mcpServers": {}}}"#,
            NPX_ENTRY.replace("docs", "other")
        ),
    );
    let mut launch = home.launch(NPX);
    assert_eq!(home.named(&launch).unwrap().client, "claude-code");
    launch.client = Some(process("gemini --x", "/"));
    let named = home.named(&launch).unwrap();
    assert_eq!((named.name.as_str(), named.client), ("other", "gemini"));
    assert_eq!(client_of("code-insiders", ""), Some("vscode"));
    assert_eq!(client_of("node", "/x/claude"), Some("claude-code"));
    assert_eq!(client_of("encode", ""), None);
}

#[test]
fn links_pipes_devices_and_foreign_files_are_refused() {
    let home = Home::new();
    let good = format!(r#"{{"mcpServers": {NPX_ENTRY}}}"#);
    let path = home.dir.path().join(".cursor/mcp.json");
    home.write(".cursor/mcp.json", &good);
    assert!(home.name(NPX).is_some());

    // A link to somewhere else.
    home.write("elsewhere.json", &good);
    std::fs::remove_file(&path).unwrap();
    symlink(home.path("elsewhere.json"), &path).unwrap();
    assert_eq!(home.name(NPX), None);
    // A named pipe must not hang the reader.
    std::fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(home.name(NPX), None);
    // A directory, a device.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(home.name(NPX), None);
    std::fs::remove_dir(&path).unwrap();
    symlink("/dev/zero", &path).unwrap();
    assert_eq!(home.name(NPX), None);
    // Too large.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(
        &path,
        format!(
            "{good}{}",
            " ".repeat(usize::try_from(config_file::MAX_FILE).unwrap())
        ),
    )
    .unwrap();
    assert_eq!(home.name(NPX), None);
    // Another user's.
    std::fs::write(&path, &good).unwrap();
    assert!(home.name(NPX).is_some());
    if nix::unistd::getuid().is_root() {
        nix::unistd::chown(&path, Some(12345.into()), None).unwrap();
        assert_eq!(home.name(NPX), None);
        // A file owned by root, without a link on the way to it and with one.
        let mut launch = home.launch(NPX);
        for process in &mut launch.chain {
            process.uid = 4321;
        }
        nix::unistd::chown(&path, Some(0.into()), None).unwrap();
        assert!(home.named(&launch).is_some());
        std::fs::rename(home.path(".cursor"), home.path("real")).unwrap();
        symlink(home.path("real"), home.path(".cursor")).unwrap();
        assert!(home.named(&launch).is_none());
    }
}

#[test]
fn a_changed_file_is_read_again_and_an_unchanged_one_is_not() {
    let home = Home::new();
    home.write(
        ".cursor/mcp.json",
        &format!(r#"{{"mcpServers": {NPX_ENTRY}}}"#),
    );
    assert_eq!(home.name(NPX).unwrap().0, "docs");
    let first = Arc::clone(
        &home
            .configs
            .cache
            .lock()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .1,
    );
    assert_eq!(home.name(NPX).unwrap().0, "docs");
    let second = Arc::clone(
        &home
            .configs
            .cache
            .lock()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .1,
    );
    assert!(Arc::ptr_eq(&first, &second));
    home.write(
        ".cursor/mcp.json",
        &format!(
            r#"{{"mcpServers": {}}}"#,
            NPX_ENTRY.replace("docs", "renamed")
        ),
    );
    assert_eq!(home.name(NPX).unwrap().0, "renamed");
}

#[test]
fn commands_of_a_project_match_what_they_lead_to() {
    let home = Home::new();
    home.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {
            "plain": {"command": "./node_modules/.bin/mcp", "args": ["--plain"]},
            "bare": {"command": "node_modules/.bin/mcp", "args": ["--bare"]},
            "npx": {"command": "npx", "args": ["mcp", "--npx"]},
            "filled": {"command": "${workspaceFolder}/node_modules/.bin/mcp", "args": ["--filled"]},
            "package": {"command": "npx", "args": ["-y", "@acme/files@2", "--package"]},
            "other": {"command": "npx", "args": ["-y", "other", "--other"]}
        }}"#,
    );
    let project = home.path("src/project");
    let bin = format!("{project}/node_modules/.bin");
    std::fs::create_dir_all(&bin).unwrap();
    let links = || {
        let me = crate::snapshot(Pid(std::process::id())).unwrap();
        BinLinks::of(&me)
    };
    let name = |line: &str| {
        let named = home.configs.name_of(&home.launch(&[line]), &links());
        named.map(|named| named.name)
    };
    let linked = format!("node {bin}/mcp");
    let shim = format!("node {bin}/../@acme/files/i.js");
    let same = |line: &str, option: &str| {
        assert_eq!(
            name(&format!("{line} --{option}")).as_deref(),
            Some(option),
            "{line}"
        );
    };
    symlink("../@acme/files/i.js", format!("{bin}/mcp")).unwrap();
    for option in ["plain", "bare", "npx", "filled", "package"] {
        same(&linked, option);
    }
    std::fs::remove_file(format!("{bin}/mcp")).unwrap();
    let script = "#!/bin/sh\nexec node \"$basedir/../@acme/files/i.js\" \"$@\"\n";
    std::fs::write(format!("{bin}/mcp"), script).unwrap();
    for option in ["plain", "bare", "npx", "package"] {
        same(&shim, option);
    }
    // A different package than the entry's, although its command has the same name.
    let elsewhere = home.path("elsewhere/node_modules/.bin");
    std::fs::create_dir_all(&elsewhere).unwrap();
    symlink("../evil/i.js", format!("{elsewhere}/mcp")).unwrap();
    for option in ["plain", "bare", "npx", "package", "other"] {
        assert_eq!(name(&format!("node {elsewhere}/mcp --{option}")), None);
    }
}

#[test]
fn a_guarded_server_has_the_name_of_its_entry() {
    let home = Home::new();
    home.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"docs": {"command": "/usr/bin/mcpinspect", "args": ["guard", "--server=docs", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem@1.0", "/data"]}}}"#,
    );
    let named = Some(("docs".to_owned(), "cursor"));
    assert_eq!(home.name(NPX), named, "between guard and server");
    let guard = "/usr/bin/mcpinspect guard --server=docs -- npx -y @modelcontextprotocol/server-filesystem@1.0 /data";
    assert_eq!(home.name(&[guard]), named, "between client and guard");
    assert_eq!(home.name(&["node /x/other.js"]), None);
}

#[test]
fn a_known_client_has_the_hosts_of_its_own_configurations() {
    let home = Home::new();
    let servers = r#"{"a": {"url": "https://A.example/mcp"}, "b": {"url": "http://plain.example/mcp"}, "c": {"command": "npx"}}"#;
    let projects = format!(
        r#""{}": {{"mcpServers": {{"p": {{"url": "https://project.example"}}}}}}, "/elsewhere": {{"mcpServers": {{"q": {{"url": "https://elsewhere.example"}}}}}}"#,
        home.path("src"),
    );
    home.write(
        ".claude.json",
        &format!(r#"{{"mcpServers": {servers}, "projects": {{{projects}}}}}"#),
    );
    home.write(
        "src/.cursor/mcp.json",
        r#"{"mcpServers": {"d": {"url": "https://other-client.example/"}}}"#,
    );
    let hosts = |line| {
        let client = process(line, &home.path("src"));
        home.configs.secure_hosts(&client, Some(&home.path("")))
    };
    assert_eq!(hosts("claude --resume"), ["a.example", "project.example"]);
    assert_eq!(hosts("cursor"), ["other-client.example"]);
    assert_eq!(hosts("firefox"), Vec::<String>::new());
}
