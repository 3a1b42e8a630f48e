//! Starts peers in a directory of their own, waits for them, and reads what they logged.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::places;
use crate::wirelog::{self, Frame, PeerLog, Way};

/// A session in progress.
pub struct Talk {
    child: Child,
    what: String,
    directory: TempDir,
}

/// What really went over the wire of one session, by the peers' own account.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The process that wrote and read on the client's side, if it kept a log.
    pub client_pid: Option<u32>,
    /// The process that read and wrote on the server's side, if it kept a log.
    pub server_pid: Option<u32>,
    /// Frames to the server in order.
    pub to_server: Vec<Frame>,
    /// Frames to the client in order.
    pub to_client: Vec<Frame>,
}

impl Talk {
    /// Starts `command`, the client's side, which starts the server itself.
    pub fn start(mut command: Command) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("talk-").tempdir()?;
        // The peers may be another user's.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777))?;
        let errors = std::fs::File::create(directory.path().join("stderr"))?;
        let what = format!("{command:?}");
        let child = command
            .env(wirelog::DIRECTORY, directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("starting {what}"))?;
        Ok(Self {
            child,
            what,
            directory,
        })
    }

    /// The pid of the started command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A path in the session's directory, for the plan's `wait` and `mark`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Waits until `what` exists.
    pub fn wait_for(&mut self, what: &Path, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !what.exists() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}{}", self.what, self.errors());
            }
            ensure!(
                Instant::now() < deadline,
                "{} did not come within {limit:?}{}",
                what.display(),
                self.errors()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Kills the client's side.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for the end, which must be a success, and reads what was logged.
    pub fn finish(mut self, limit: Duration) -> Result<Truth> {
        self.end(limit)?;
        self.truth()
    }

    /// Waits for the end, which must be a success.
    pub fn end(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                self.kill()?;
                bail!("{} took longer than {limit:?}{}", self.what, self.errors());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        ensure!(
            status.success(),
            "{} ended with {status}{}",
            self.what,
            self.errors()
        );
        Ok(())
    }

    /// What the peers have logged so far.
    pub fn truth(&self) -> Result<Truth> {
        Truth::of(&PeerLog::read_all(self.directory.path())?)
            .with_context(|| format!("{}{}", self.what, self.errors()))
    }

    fn errors(&self) -> String {
        let text = std::fs::read(self.path("stderr")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n    ");
        match tail.is_empty() {
            true => String::new(),
            false => format!("; it said:\n    {tail}"),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // A failed test leaves nothing running; after `finish` this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Truth {
    fn of(logs: &[PeerLog]) -> Result<Self> {
        let one = |role: &str| -> Result<Option<&PeerLog>> {
            let mut found = logs.iter().filter(|log| log.role == role);
            let first = found.next();
            ensure!(found.next().is_none(), "more than one {role} logged frames");
            Ok(first)
        };
        let (client, server) = (one("client")?, one("server")?);
        ensure!(client.or(server).is_some(), "no peer logged a frame");
        let direction = |sender: Option<&PeerLog>, receiver: Option<&PeerLog>| {
            let sent = sender.map(|log| log.frames(Way::Sent));
            let received = receiver.map(|log| log.frames(Way::Received));
            match (sent, received) {
                (Some(sent), Some(received)) => {
                    // What arrived is what was sent, or its beginning if the reader left early.
                    let arrived = received
                        .iter()
                        .zip(&sent)
                        .filter(|(a, b)| a.sha256 == b.sha256)
                        .count();
                    ensure!(
                        arrived == received.len(),
                        "the peers disagree on what was sent at frame {arrived}"
                    );
                    Ok(sent)
                }
                (Some(frames), None) | (None, Some(frames)) => Ok(frames),
                (None, None) => bail!("nobody logged this direction"),
            }
        };
        Ok(Self {
            client_pid: client.map(|log| log.pid),
            server_pid: server.map(|log| log.pid),
            to_server: direction(client, server)?,
            to_client: direction(server, client)?,
        })
    }
}

/// `oddpeer client CLIENT… --plan PLAN -- oddpeer server SERVER…`
pub fn oddpeers(client: &[&str], plan: &str, server: &[&str]) -> Result<Command> {
    let oddpeer = places::program("oddpeer")?;
    let mut server_command = vec![oddpeer.as_os_str().to_owned(), "server".into()];
    server_command.extend(server.iter().map(Into::into));
    oddclient(client, plan, &server_command)
}

/// `oddpeer client CLIENT… --plan PLAN -- SERVER…`, for any server command.
pub fn oddclient(client: &[&str], plan: &str, server: &[impl AsRef<OsStr>]) -> Result<Command> {
    let mut command = Command::new(places::program("oddpeer")?);
    command.arg("client").args(client).args(["--plan", plan]);
    command.arg("--").args(server);
    Ok(command)
}
