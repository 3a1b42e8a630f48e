//! The server's process: started as the client would have started it; the guard ends the way it does.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::Context as _;
use mcpinspect_core::text::escape::printable;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// A running server.
pub struct Server {
    child: Child,
    /// Its pid, zero once it was waited for.
    pid: Arc<AtomicI32>,
}

impl Server {
    /// Starts `command` with the guard's standard error, environment, directory and process group.
    pub fn start(command: &[String]) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("no command given")?;
        let pid = Arc::new(AtomicI32::new(0));
        // Before the server is started: no signal may be lost in between.
        forward_signals(Arc::clone(&pid)).context("cannot handle signals")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // SAFETY: the closure makes one system call, which is safe between fork and exec, and allocates
        // nothing.
        unsafe {
            // A client that kills the guard means the server.
            command.pre_exec(|| {
                let kill = Some(rustix::process::Signal::KILL);
                rustix::process::set_parent_process_death_signal(kill).map_err(io::Error::from)
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", printable(program, 200)))?;
        pid.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        Ok(Self { child, pid })
    }

    /// Its standard input and output.
    pub fn pipes(&mut self) -> (Option<File>, Option<File>) {
        let input = self.child.stdin.take().map(OwnedFd::from);
        let output = self.child.stdout.take().map(OwnedFd::from);
        (input.map(File::from), output.map(File::from))
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        self.pid.store(0, Ordering::SeqCst);
        status
    }
}

/// Passes signals on to the server while there is one.
fn forward_signals(pid: Arc<AtomicI32>) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    std::thread::spawn(move || {
        for number in signals.forever() {
            // A terminal sends these to the server too.
            if matches!(number, SIGINT | SIGQUIT) && is_in_foreground() {
                continue;
            }
            match (pid.load(Ordering::SeqCst), Signal::try_from(number)) {
                (0, _) => std::process::exit(128 + number),
                // Fails if it has just ended, which also ends the guard.
                (pid, Ok(signal)) => drop(kill(Pid::from_raw(pid), signal)),
                (_, Err(_)) => {}
            }
        }
    });
    Ok(())
}

/// Whether a terminal's keys reach this process group.
fn is_in_foreground() -> bool {
    File::open("/dev/tty")
        .ok()
        .and_then(|terminal| tcgetpgrp(terminal).ok())
        .is_some_and(|group| group == getpgrp())
}

/// Ends as the server did: with its exit status, or by the signal that ended it.
pub fn end_like(status: ExitStatus) -> ! {
    if let Some(number) = status.signal() {
        if let Ok(signal) = Signal::try_from(number) {
            // No second core dump: the server's shows all there is to see.
            let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
            // The default action of every signal that can end a process ends this one.
            let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
        std::process::exit(128 + number);
    }
    // Every process that ended has one or the other.
    std::process::exit(status.code().unwrap_or(1))
}
