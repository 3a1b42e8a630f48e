use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;
use crate::info::snapshot;

/// A project that this process looks at, in a location that everyone may read.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(dir.path().join("node_modules/.bin")).unwrap();
        Self(dir)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.path(path).to_str().unwrap().to_owned()
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let _ = fs::remove_file(self.path(path));
        symlink(target, self.path(path)).unwrap();
    }

    /// The package behind the command `mcp`.
    fn package(&self) -> Option<String> {
        self.seen_by(nix::unistd::getuid().as_raw())
    }

    fn seen_by(&self, uid: u32) -> Option<String> {
        links(uid).package(&self.text("node_modules/.bin/mcp"))
    }
}

/// Sees the files of this process, on behalf of a user.
fn links(uid: u32) -> BinLinks {
    let me = snapshot(Pid(std::process::id())).unwrap();
    BinLinks::of(&ProcessSnapshot { uid, ..me })
}

const COMMAND: &str = "node_modules/.bin/mcp";

#[test]
fn a_link_leads_to_its_package() {
    let project = Project::new();
    assert_eq!(project.package(), None);
    for (target, name) in [
        ("../@acme/files/dist/index.js", Some("@acme/files")),
        ("../files/cli.js", Some("files")),
        (
            "../../node_modules/.pnpm/x@1/node_modules/@a/x/i.js",
            Some("@a/x"),
        ),
        ("/usr/lib/node_modules/@a/global/i.js", Some("@a/global")),
        ("../../dist/cli.js", None),
        ("../.hidden/cli.js", None),
        ("../a b/cli.js", None),
        ("../\u{1b}[31m/cli.js", None),
        ("/", None),
    ] {
        project.link(COMMAND, target);
        assert_eq!(project.package().as_deref(), name, "{target}");
    }
    // By way of another command, and through a directory that is a link.
    project.link("node_modules/.bin/other", "../@acme/files/i.js");
    project.link(COMMAND, "other");
    assert_eq!(project.package().as_deref(), Some("@acme/files"));
    project.link("current", ".");
    let through = project.text("current/node_modules/.bin/mcp");
    let uid = nix::unistd::getuid().as_raw();
    assert_eq!(links(uid).package(&through).as_deref(), Some("@acme/files"));
}

#[test]
fn a_global_command_leads_to_its_package_and_to_no_project() {
    let project = Project::new();
    project.write("bin/x", "");
    let command = project.text("bin/mcp");
    let package = || links(nix::unistd::getuid().as_raw()).package(&command);
    project.link("bin/mcp", "../lib/node_modules/@acme/files/dist/index.js");
    assert_eq!(package().as_deref(), Some("@acme/files"));
    // Written for this machine alone, in a folder that has a manifest.
    project.write("dist/cli.js", "");
    project.write("package.json", r#"{"name":"@acme/files"}"#);
    project.link("bin/mcp", "../dist/cli.js");
    assert_eq!(package(), None);
}

#[test]
fn a_shell_script_leads_to_its_package() {
    let project = Project::new();
    project.write(
        COMMAND,
        "#!/bin/sh\nexec node  \"$basedir/../@acme/files/dist/index.js\" \"$@\"\n",
    );
    assert_eq!(project.package().as_deref(), Some("@acme/files"));
    // A program of its own.
    project.write(COMMAND, "#!/usr/bin/env node\nprocess.exit()\n");
    project.write("package.json", r#"{"name":"project"}"#);
    assert_eq!(project.package(), None);
    // One that is too large to be such a script.
    let filler = "#".repeat(usize::try_from(MAX_SHIM).unwrap());
    project.write(
        COMMAND,
        &format!("#!/bin/sh\n{filler}\nexec node \"$basedir/../x/x.js\" \"$@\"\n"),
    );
    assert_eq!(project.package(), None);
}

#[test]
fn a_link_into_a_workspace_leads_to_its_project() {
    let project = Project::new();
    project.link(COMMAND, "../../packages/files/dist/cli.js");
    project.write("packages/files/dist/cli.js", "");
    assert_eq!(project.package(), None);
    let manifest = "packages/files/package.json";
    project.write("packages/files/dist/package.json", r#"{"type":"module"}"#);
    project.write(manifest, r#"{"name":"@acme/files","version":"1"}"#);
    assert_eq!(project.package().as_deref(), Some("@acme/files"));
    for broken in [
        "",
        "{",
        "[]",
        r#"{"name":7}"#,
        r#"{"name":"\u001b[2J\u202e"}"#,
        r#"{"name":"../../etc"}"#,
    ] {
        project.write(manifest, broken);
        assert_eq!(project.package(), None, "{broken}");
    }
    // A large one is not read at all, and a pipe or a device is not waited for.
    let file = fs::File::create(project.path(manifest)).unwrap();
    file.set_len(100 << 20).unwrap();
    let begin = Instant::now();
    assert_eq!(project.package(), None);
    fs::remove_file(project.path(manifest)).unwrap();
    nix::unistd::mkfifo(&project.path(manifest), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(project.package(), None);
    project.link(manifest, "/dev/zero");
    assert_eq!(project.package(), None);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn links_without_an_end_are_given_up() {
    let project = Project::new();
    project.link(COMMAND, "mcp");
    assert_eq!(project.package(), None);
    project.link(COMMAND, "loop");
    project.link("node_modules/.bin/loop", "mcp");
    assert_eq!(project.package(), None);
    // Directories that lead to themselves, and paths that grow at every step.
    project.link("round", "round/round");
    project.link("node_modules/.bin/deep", "../../round/x");
    project.link(COMMAND, "deep");
    assert_eq!(project.package(), None);
    let long = "a/../".repeat(800);
    project.link(COMMAND, &format!("{long}mcp"));
    assert_eq!(project.package(), None);
    nix::unistd::mkfifo(
        &project.path("node_modules/.bin/pipe"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    project.link(COMMAND, "pipe");
    assert_eq!(project.package(), None);
}

#[test]
fn look_ups_for_one_server_are_bounded() {
    let project = Project::new();
    project.link(COMMAND, "../@acme/files/i.js");
    let me = links(nix::unistd::getuid().as_raw());
    let nowhere = project.text(&"none/../".repeat(9));
    for number in 0..MAX_STEPS {
        assert_eq!(me.package(&format!("{nowhere}{number}")), None);
    }
    assert_eq!(me.package(&project.text(COMMAND)), None);
    assert_eq!(project.package().as_deref(), Some("@acme/files"));
}

#[test]
fn nothing_above_the_root_is_reached() {
    let project = Project::new();
    project.write("packages/files/cli.js", "");
    project.write("packages/files/package.json", r#"{"name":"inside"}"#);
    let me = nix::unistd::getuid().as_raw();
    // A process whose root is the project.
    let root = fs::File::open(project.0.path()).unwrap();
    let links = BinLinks::new(Some((Pid(0), 0, me)));
    let root = Root::at(root.into(), me);
    links.root.set(Some(root)).unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("cli.js"), "").unwrap();
    fs::write(outside.path().join("package.json"), r#"{"name":"outside"}"#).unwrap();
    let outside = outside.path().join("cli.js");
    project.link("node_modules/.bin/out", outside.to_str().unwrap());
    assert_eq!(links.package("/node_modules/.bin/out"), None);
    let up = "../".repeat(40);
    project.link(
        "node_modules/.bin/up",
        &format!("{up}packages/files/cli.js"),
    );
    assert_eq!(
        links.package("/node_modules/.bin/up").as_deref(),
        Some("inside")
    );
}

#[test]
fn another_users_files_stay_private() {
    // Only root can look at a location on behalf of another user.
    if !nix::unistd::getuid().is_root() {
        return;
    }
    const STRANGER: u32 = 12_345;
    let project = Project::new();
    project.link(COMMAND, "../@acme/files/dist/index.js");
    assert_eq!(project.seen_by(STRANGER).as_deref(), Some("@acme/files"));
    // A link's target is not secret if everyone may search the directory; otherwise it is.
    let modules = project.path("node_modules");
    fs::set_permissions(&modules, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(project.seen_by(STRANGER), None);
    assert_eq!(project.package().as_deref(), Some("@acme/files"));
    nix::unistd::chown(&modules, Some(STRANGER.into()), None).unwrap();
    assert_eq!(project.seen_by(STRANGER).as_deref(), Some("@acme/files"));
    // A manifest in a directory that may be searched, but that may not be read itself.
    project.link(COMMAND, "../../packages/files/cli.js");
    project.write("packages/files/cli.js", "");
    let manifest = "packages/files/package.json";
    project.write(manifest, r#"{"name":"secret"}"#);
    assert_eq!(project.seen_by(STRANGER).as_deref(), Some("secret"));
    fs::set_permissions(project.path(manifest), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(project.seen_by(STRANGER), None);
    // Another user's directory on the way of a link.
    fs::set_permissions(project.path(manifest), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(project.path("packages"), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(project.seen_by(STRANGER), None);
}

#[test]
fn the_nearest_command_is_what_npx_runs() {
    let project = Project::new();
    project.link(COMMAND, "../@acme/files/i.js");
    fs::create_dir_all(project.path("a/b/node_modules/.bin")).unwrap();
    let me = links(nix::unistd::getuid().as_raw());
    let nearest = |name: &str| me.nearest(name, &project.text("a/b"));
    assert_eq!(nearest("mcp").as_deref(), Some("@acme/files"));
    for name in [
        "other",
        "@acme/files",
        "mcp@1",
        "../mcp",
        "..",
        "",
        "github:o/r",
    ] {
        assert_eq!(nearest(name), None, "{name}");
    }
    project.link("a/b/node_modules/.bin/mcp", "../nearer/i.js");
    let me = links(nix::unistd::getuid().as_raw());
    let path = project.text("a/b/c");
    assert_eq!(me.nearest("mcp", &path).as_deref(), Some("nearer"));
    assert_eq!(me.nearest("mcp", "a/b"), None);
    assert_eq!(BinLinks::none().nearest("mcp", &path), None);
}

#[test]
fn another_process_with_the_number_is_not_asked() {
    let project = Project::new();
    project.link(COMMAND, "../@acme/files/i.js");
    let me = snapshot(Pid(std::process::id())).unwrap();
    let other = ProcessSnapshot {
        start_time: me.start_time + 1,
        ..me
    };
    assert_eq!(BinLinks::of(&other).package(&project.text(COMMAND)), None);
}
