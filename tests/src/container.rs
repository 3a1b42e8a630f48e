//! A clean Debian with a real systemd, journal and system bus, for tests that install the package.
//!
//! `cargo xtask setup` unpacks it once; each test boots it with an overlay that is gone afterwards,
//! in about a second. A container has its own process numbers and the probes see the machine's, so
//! the service gets the machine's `/proc`, as a container that runs a monitor always does.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::places;

/// How long booting may take, and anything else to wait for.
const LIMIT: Duration = Duration::from_secs(40);
/// Seconds that one command may take in the container.
const COMMAND_LIMIT: &str = "60";
/// Where the container sees what cargo built.
const BUILD: &str = "/opt/build";
/// Makes the service see the processes that its probes see.
const WHOLE_MACHINE: &str = "[Service]\nBindReadOnlyPaths=/run/host/proc:/proc\n";

/// A running container.
pub struct Container {
    nspawn: Child,
    leader: Pid,
    directory: TempDir,
}

impl Container {
    /// Boots one with its own network, which it shares with no one.
    pub fn boot(name: &str) -> Result<Self> {
        Self::start(name, "--private-network".to_owned())
    }

    /// Boots one that shares the network of another.
    pub fn boot_beside(name: &str, other: &Self) -> Result<Self> {
        let network = format!("--network-namespace-path=/proc/{}/ns/net", other.leader);
        Self::start(name, network)
    }

    fn start(name: &str, network: String) -> Result<Self> {
        ensure!(
            nix::unistd::geteuid().is_root(),
            "booting a container needs root: run `cargo xtask test`"
        );
        let root = places::container()?;
        let directory = tempfile::Builder::new().prefix("container-").tempdir()?;
        let console = File::create(directory.path().join("console"))?;
        let built = places::built()?;
        // It ends along with the process that started it.
        let nspawn = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "systemd-nspawn", "--boot", "--quiet"])
            .args(["--register=no", "--keep-unit", "--volatile=overlay"])
            .args(["--console=pipe", "--capability=all"])
            .arg("--system-call-filter=bpf perf_event_open")
            .arg("--bind=/sys/kernel/tracing")
            .arg("--bind-ro=/proc:/run/host/proc")
            .arg(format!("--bind-ro={}:{BUILD}", built.display()))
            .arg(format!("--machine={name}"))
            .arg(format!("--hostname={name}"))
            .arg(format!("--uuid={}", identity(name)))
            .arg(network)
            // As on every current system, whatever this machine has: the unified hierarchy alone.
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .arg("--directory")
            .arg(root)
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            .spawn()
            .context("systemd-nspawn")?;
        let mut container = Self {
            nspawn,
            leader: Pid::from_raw(0),
            directory,
        };
        container.leader = container.find_leader()?;
        container.wait("the container to be up", |container| {
            let state = container
                .command("systemctl")
                .arg("is-system-running")
                .output()?;
            let state = String::from_utf8_lossy(&state.stdout).into_owned();
            Ok(["running", "degraded"]
                .contains(&state.trim())
                .then_some(()))
        })?;
        container.write(
            "/etc/systemd/system/mcpinspectd.service.d/whole-machine.conf",
            WHOLE_MACHINE,
        )?;
        Ok(container)
    }

    /// The container's first process, once it is systemd.
    fn find_leader(&mut self) -> Result<Pid> {
        let pid = self.nspawn.id();
        self.wait("systemd to start", |_| {
            let children = format!("/proc/{pid}/task/{pid}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            for child in children.split_whitespace() {
                let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
                if name == "systemd\n" {
                    return Ok(Some(Pid::from_raw(child.parse()?)));
                }
            }
            Ok(None)
        })
    }

    /// Waits until `done` returns something.
    pub fn wait<T>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = done(self)? {
                return Ok(found);
            }
            if let Some(status) = self.nspawn.try_wait()? {
                bail!("the container ended with {status}:\n{}", self.console());
            }
            ensure!(
                Instant::now() < deadline,
                "waited {LIMIT:?} for {what}\n{}\n{}",
                self.console(),
                self.log().unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn console(&self) -> String {
        fs::read_to_string(self.directory.path().join("console")).unwrap_or_default()
    }

    /// A command that runs in the container, as root.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", COMMAND_LIMIT, "nsenter", "--target"])
            .arg(self.leader.to_string())
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"])
            .arg("--")
            .arg(program)
            .env_clear()
            .envs([
                (
                    "PATH",
                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                ),
                ("LC_ALL", "C.UTF-8"),
                ("DEBIAN_FRONTEND", "noninteractive"),
                ("HOME", "/root"),
            ])
            .stdin(Stdio::null());
        command
    }

    /// A program of this machine, run in the container's network.
    pub fn command_beside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "nsenter", "--target"])
            .arg(self.leader.to_string())
            .args(["--net", "--"])
            .arg(program);
        command
    }

    /// The output of a shell command, which must succeed.
    pub fn shell(&self, line: &str) -> Result<String> {
        let (success, out, error) = self.try_shell(line)?;
        ensure!(success, "{line}\n{out}\n{error}");
        Ok(out)
    }

    /// Whether a shell command succeeds, its output and its errors.
    pub fn try_shell(&self, line: &str) -> Result<(bool, String, String)> {
        let output = self.command("sh").args(["-c", line]).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        ))
    }

    /// The same as a user, with no groups but their own.
    pub fn try_shell_as(&self, user: &str, line: &str) -> Result<(bool, String, String)> {
        self.try_shell(&format!(
            "setpriv --reuid={user} --regid={user} --init-groups sh -c {}",
            quoted(line)
        ))
    }

    /// Writes a file and makes the directories above it.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let parent = Path::new(path).parent().unwrap_or(Path::new("/"));
        self.shell(&format!(
            "mkdir -p {} && printf %s {} > {}",
            quoted(&parent.to_string_lossy()),
            quoted(text),
            quoted(path)
        ))?;
        Ok(())
    }

    /// Installs the package of a revision, as `cargo xtask package` made it; `apt` or `dpkg` do that.
    pub fn install(&self, revision: u32) -> Result<String> {
        let package = places::package(&format!("-{revision}_"), "deb")?;
        self.shell(&format!("dpkg --install {} 2>&1", seen(&package)?))
    }

    /// Runs a session of the Rust SDK's client with its server, which has this name and describes
    /// its tool like this. It lasts as long as a busy daemon takes to find out who it is.
    pub fn session(&self, name: &str, description: &str) -> Result<()> {
        let client = seen(&places::example("rmcp_client")?)?;
        let server = seen(&places::example("rmcp_server")?)?;
        self.shell(&format!(
            "echo '[[\"echo\", {{\"message\": \"hello\"}}]]' > /tmp/calls.json && \
             cp --update {server} /usr/local/bin/{name}-server && \
             KEEP_OPEN_MS=1500 ECHO_DESCRIPTION={} {client} /tmp/calls.json /usr/local/bin/{name}-server",
            quoted(description)
        ))?;
        Ok(())
    }

    /// Journal entries that match, as systemd returns them.
    pub fn journal(&self, matches: &[&str]) -> Result<Vec<Value>> {
        let output = self
            .command("journalctl")
            .args(["--output=json", "--quiet", "--no-pager", "--all"])
            .args(matches)
            .output()?;
        ensure!(
            output.status.success(),
            "journalctl: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout)?
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
            .collect()
    }

    /// The service's log.
    pub fn log(&self) -> Result<String> {
        let (_, out, _) =
            self.try_shell("journalctl --no-pager -o short-precise -u mcpinspectd | tail -n 60")?;
        Ok(out)
    }

    /// A property of the service.
    pub fn property(&self, name: &str) -> Result<String> {
        let value = self.shell(&format!(
            "systemctl show --property={name} --value mcpinspectd"
        ))?;
        Ok(value.trim().to_owned())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Nothing is worth saving: the overlay is discarded anyway.
        if self.leader.as_raw() > 1 {
            let _ = kill(self.leader, Signal::SIGKILL);
        } else {
            let _ = self.nspawn.kill();
        }
        let _ = self.nspawn.wait();
    }
}

/// A machine id that is unique to the container, and the same each time.
fn identity(name: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(name);
    hash.iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A text as one word of a shell's command line.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Where the container sees something below cargo's target directory.
pub fn seen(path: &Path) -> Result<String> {
    let below: PathBuf = path
        .strip_prefix(places::built()?)
        .with_context(|| path.display().to_string())?
        .to_owned();
    Ok(Path::new(BUILD).join(below).display().to_string())
}
