use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcpinspect_core::model::SessionId;
use mcpinspect_judge::registry::vendor;
use serde_json::json;

use super::super::info::start_time;
use super::background::Background;
use super::*;

/// A process that waits until it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id())
    }

    /// The program, once the process runs what it was started for.
    fn program(&self, file: &str) -> Value {
        let begin = Instant::now();
        loop {
            // The kernel sets the arguments a little later than the executable.
            let runs =
                |process: ProcessSnapshot| process.exe.contains(file) && !process.argv.is_empty();
            if snapshot(self.pid()).is_some_and(runs) {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
        let started = start_time(self.pid()).unwrap();
        let program = Programs::default().of(self.pid(), started).unwrap();
        serde_json::from_str(program.definition().get()).unwrap()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

#[test]
fn a_process_that_has_exited_runs_no_program() {
    let mut child = Command::new("/bin/true").spawn().unwrap();
    let pid = Pid(child.id());
    let begin = Instant::now();
    // Not waited for, it keeps its number.
    while snapshot(pid).is_some_and(|process| !process.exe.is_empty()) {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    let started = start_time(pid).unwrap();
    assert!(Programs::default().of(pid, started).is_none());
    child.wait().unwrap();
}

#[test]
fn an_executable_is_known_by_its_contents() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my-server");
    std::fs::copy("/bin/cat", &path).unwrap();
    let first = Waiting::start(&mut Command::new(&path)).program("my-server");
    let mut contents = std::fs::read(&path).unwrap();
    contents.push(0);
    // Another file at the same path, as after an update.
    std::fs::write(dir.path().join("new"), &contents).unwrap();
    std::fs::set_permissions(
        dir.path().join("new"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    std::fs::rename(dir.path().join("new"), &path).unwrap();
    let second = Waiting::start(&mut Command::new(&path)).program("my-server");
    assert_eq!(first["executable"], second["executable"]);
    assert_eq!(first["executable_sha256"].as_str().unwrap().len(), 64);
    assert_ne!(first["executable_sha256"], second["executable_sha256"]);
    assert_eq!(vendor(&raw(&first)), vendor(&raw(&second)));
}

#[test]
fn a_script_is_known_by_package_and_contents() {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("node_modules/@acme/files");
    std::fs::create_dir_all(package.join("dist")).unwrap();
    std::fs::create_dir_all(dir.path().join("node_modules/.bin")).unwrap();
    let wait = "process.stdin.resume()";
    std::fs::write(package.join("dist/index.js"), wait).unwrap();
    std::fs::write(
        package.join("package.json"),
        r#"{"name":"ignored","version":"1.2.3"}"#,
    )
    .unwrap();
    let link = dir.path().join("node_modules/.bin/files");
    symlink("../@acme/files/dist/index.js", &link).unwrap();
    let run = || {
        let mut command = Command::new("node");
        command.arg("--no-warnings").arg("node_modules/.bin/files");
        Waiting::start(command.current_dir(dir.path())).program("node")
    };
    let first = run();
    assert_eq!(
        (&first["package"], &first["version"], &first["script"]),
        (&json!("npm:@acme/files"), &json!("1.2.3"), &Value::Null)
    );
    std::fs::write(package.join("dist/index.js"), format!("{wait};x=1")).unwrap();
    let second = run();
    assert_ne!(first["script_sha256"], second["script_sha256"]);
    assert_eq!(vendor(&raw(&second)).unwrap(), "npm:@acme/files");
    assert_eq!(second["executable_sha256"], Value::Null, "root's node");
}

#[test]
fn a_python_command_is_known_by_its_distribution() {
    let dir = tempfile::tempdir().unwrap();
    let site = dir.path().join("lib/python3.11/site-packages");
    let info = site.join("my_server-4.5.dist-info");
    std::fs::create_dir_all(&info).unwrap();
    std::fs::create_dir_all(dir.path().join("bin")).unwrap();
    std::fs::write(info.join("RECORD"), "my_server/__init__.py,sha256=x,1\n").unwrap();
    let script = dir.path().join("bin/my-server");
    std::fs::write(&script, "import sys; sys.stdin.read()").unwrap();
    let process = Waiting::start(Command::new("python3").arg(&script));
    let begin = Instant::now();
    let mut program = process.program("python");
    // If `python3` is a shim, the process may not have become the last of its programs yet.
    while program["package"].is_null() && begin.elapsed() < Duration::from_secs(10) {
        program = process.program("python");
    }
    assert_eq!(
        (&program["package"], &program["version"]),
        (&json!("pypi:my-server"), &json!("4.5"))
    );
    assert_eq!(program["contents_sha256"].as_str().unwrap().len(), 64);
    assert_eq!(program["script_sha256"], Value::Null);
}

#[test]
fn no_path_makes_the_reader_block_or_reveal_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    open_to_everyone(dir.path());
    let me = Pid(std::process::id());
    let path = |name: &str| dir.path().join(name);
    let pipe = path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", path("zero")).unwrap();
    symlink("loop", path("loop")).unwrap();
    symlink("/proc/self/fd/0", path("magic")).unwrap();
    std::fs::write(path("secret"), "4711").unwrap();
    std::fs::set_permissions(path("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let sparse = std::fs::File::create(path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let stranger = Root::of(me, 12_345).unwrap();
    for name in ["pipe", "zero", "loop", "magic", "secret", "nothing", "."] {
        assert!(stranger.open(&path(name)).is_none(), "{name}");
    }
    let found = stranger.open(&path("sparse")).unwrap();
    let told = FileHashes::default().hash(&found).unwrap();
    assert_eq!(told, format!("not hashed: {} bytes", 1u64 << 40));
    assert!(stranger.read(&path("sparse"), 1000).is_none());
    assert!(stranger.open(Path::new("/proc/self/environ")).is_none());
}

fn open_to_everyone(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn nothing_is_told_of_another_users_private_directory() {
    // Only root can look at a location on behalf of another user.
    if !nix::unistd::getuid().is_root() {
        return;
    }
    const STRANGER: u32 = 12_345;
    let dir = tempfile::tempdir().unwrap();
    open_to_everyone(dir.path());
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(path("private/lib/python3.11")).unwrap();
    std::fs::write(path("private/server.js"), "hers").unwrap();
    symlink("private/server.js", path("link.js")).unwrap();
    symlink("private", path("folder")).unwrap();
    let root = Root::of(Pid(std::process::id()), STRANGER).unwrap();
    let seen = || {
        let files = ["private/server.js", "link.js", "folder/server.js"];
        let files = files.map(|name| root.open(&path(name)).is_some());
        let names = root.names(&path("private/lib"));
        let names = names.iter().filter(|name| name.starts_with("python"));
        (files, names.count())
    };
    assert_eq!(seen(), ([true; 3], 1));
    // Everyone may read the file and what is below; the directory decides.
    let mode = |name: &str, mode| {
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("private", 0o700);
    assert_eq!(seen(), ([false; 3], 0));
    // Its own user sees it.
    nix::unistd::chown(&path("private"), Some(STRANGER.into()), None).unwrap();
    assert_eq!(seen(), ([true; 3], 1));
    nix::unistd::chown(&path("private"), Some(0.into()), None).unwrap();
    // A directory that may be searched but not read lists nothing.
    mode("private", 0o755);
    mode("private/lib", 0o711);
    assert_eq!(seen(), ([true; 3], 0));
    // Nor does the way through another process' directories reveal anything.
    let through = format!("/proc/{}/cwd", std::process::id());
    let roundabout = Path::new(&through).join("Cargo.toml");
    assert!(root.open(&roundabout).is_none());
}

#[test]
fn paths_are_made_absolute_and_plain() {
    let plain = |path: &str| absolute(path, Some("/home/x")).unwrap();
    assert_eq!(plain("a/./b"), Path::new("/home/x/a/b"));
    assert_eq!(plain("../../../../etc"), Path::new("/etc"));
    assert_eq!(plain("/a/../b"), Path::new("/b"));
    assert_eq!(absolute("a", None), None);
    for (exe, expected) in [
        ("/usr/bin/python3.11", true),
        ("/usr/bin/node", true),
        ("/opt/nodes/server", false),
        ("/usr/bin/node-server", false),
    ] {
        assert_eq!(is_interpreter(exe), expected, "{exe}");
    }
}

#[test]
fn a_program_is_returned_with_its_session() {
    let background = Background::start().unwrap();
    let session = SessionId("s".into());
    let child = Waiting::start(&mut Command::new("cat"));
    background.look_at(&session, child.pid(), None);
    // A process of that number started at another time.
    background.look_at(&SessionId("other".into()), child.pid(), Some(1));
    let begin = Instant::now();
    let mut found: Vec<_> = Vec::new();
    while begin.elapsed() < Duration::from_secs(10) && found.is_empty() {
        found.extend(background.found());
    }
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, session);
}
