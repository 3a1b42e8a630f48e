//! Runs `mcpinspectd run` with its own state and reads its events.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::bus::{self, Bus};
use crate::{places, schema};

/// How long the daemon may take for anything, on an emulated machine too.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a daemon keeps what it knows; several runs may share it, one after another.
pub struct State {
    directory: TempDir,
    /// The address of the bus that it is on.
    bus: Option<String>,
}

impl State {
    /// An empty one, on no bus.
    pub fn new() -> Result<Self> {
        Self::with(None)
    }

    /// An empty one, on this bus.
    pub fn on(bus: &Bus) -> Result<Self> {
        Self::with(Some(bus.address()))
    }

    fn with(bus: Option<String>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("daemon-").tempdir()?;
        let state = Self { directory, bus };
        let configuration = format!(
            "[capture]\ntls = false\n\n[events]\njournal = false\ndbus = {}\njsonl = {:?}\n\n[registry]\npath = {:?}\n",
            state.bus.is_some(),
            state.events_file(),
            state.registry()
        );
        std::fs::write(state.configuration(), configuration)?;
        Ok(state)
    }

    /// The same, but with TLS examined by the daemon, as it is by default.
    pub fn with_tls(self) -> Result<Self> {
        let file = self.configuration();
        let text = std::fs::read_to_string(&file)?;
        std::fs::write(file, text.replace("tls = false", "tls = true"))?;
        Ok(self)
    }

    /// Its configuration file.
    pub fn configuration(&self) -> PathBuf {
        self.directory.path().join("config.toml")
    }

    /// Where it records which sessions are open.
    pub fn sessions(&self) -> PathBuf {
        self.directory.path().join("sessions.jsonl")
    }

    /// Its registry of tools.
    pub fn registry(&self) -> PathBuf {
        self.directory.path().join("registry.db")
    }

    fn events_file(&self) -> PathBuf {
        self.directory.path().join("events.jsonl")
    }

    /// How often `text` occurs in the events so far: a quick check.
    pub fn mentions(&self, text: &str) -> Result<usize> {
        let path = self.events_file();
        if !path.exists() {
            return Ok(0);
        }
        Ok(std::fs::read_to_string(path)?.matches(text).count())
    }

    /// All events so far, of all runs.
    pub fn events(&self) -> Result<Vec<Value>> {
        let path = self.events_file();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = std::fs::read_to_string(path)?;
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| {
                let event = serde_json::from_str(line).with_context(|| line.to_owned())?;
                schema::event(&event).map_err(Error::msg)?;
                Ok(event)
            })
            .collect()
    }
}

/// A running `mcpinspectd run`.
pub struct Daemon<'a> {
    child: Child,
    state: &'a State,
    log: Arc<Mutex<String>>,
}

impl<'a> Daemon<'a> {
    /// Starts it and waits until it watches.
    pub fn start(state: &'a State) -> Result<Self> {
        Self::start_program(state, &places::daemon()?, &[])
    }

    /// Starts this program as the daemon, with these variables, and waits until it watches.
    pub fn start_program(
        state: &'a State,
        program: &Path,
        variables: &[(&str, &OsStr)],
    ) -> Result<Self> {
        ensure!(
            nix::unistd::geteuid().is_root(),
            "watching the kernel needs root: run `cargo xtask test`"
        );
        let mut command = Command::new(program);
        command.envs(variables.iter().copied());
        if let Some(address) = &state.bus {
            command.env(bus::VARIABLE, address);
        }
        let mut child = command
            .args(["run", "--log", "info", "--config"])
            .arg(state.configuration())
            .env("NO_COLOR", "1")
            // As the service manager does.
            .env("RUNTIME_DIRECTORY", state.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().context("its log")?;
        let log = Arc::<Mutex<String>>::default();
        std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push_str(&line);
                    log.push('\n');
                }
            }
        });
        let mut daemon = Self { child, state, log };
        daemon.wait("to watch", |daemon| Ok(daemon.log().contains("watching")))?;
        Ok(daemon)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails if it has ended.
    pub fn lives(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("mcpinspectd ended with {status}:\n{}", self.log()),
            None => Ok(()),
        }
    }

    /// Waits until one of the events matches `wanted`, and returns it.
    pub fn event(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut found = None;
        self.wait(what, |daemon| {
            found = daemon
                .state
                .events()?
                .into_iter()
                .find(|event| wanted(event));
            Ok(found.is_some())
        })?;
        found.context("the event just found")
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !done(self)? {
            self.lives().with_context(|| format!("waiting {what}"))?;
            ensure!(
                Instant::now() < deadline,
                "waited {LIMIT:?} {what}; events: {:#?}\nlog:\n{}",
                self.state.events()?,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends it as a service manager does; returns how long that took.
    pub fn stop(mut self) -> Result<Duration> {
        let begun = Instant::now();
        kill(
            Pid::from_raw(i32::try_from(self.child.id())?),
            Signal::SIGTERM,
        )?;
        while begun.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                ensure!(
                    status.success(),
                    "mcpinspectd ended with {status}:\n{}",
                    self.log()
                );
                return Ok(begun.elapsed());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("mcpinspectd does not end:\n{}", self.log())
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // A failed test leaves nothing running; after `stop` this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a second daemon on the same state, which must refuse; returns what it said.
pub fn refused(configuration: &Path) -> Result<String> {
    let output = Command::new(places::daemon()?)
        .args(["run", "--config"])
        .arg(configuration)
        .stdin(Stdio::null())
        .output()?;
    ensure!(!output.status.success(), "a second daemon started");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}
