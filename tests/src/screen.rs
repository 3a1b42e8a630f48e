//! A program on its own terminal: keys go in, and what its screen shows comes out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;

/// How long the program may take to show or do something.
const LIMIT: Duration = Duration::from_secs(20);

nix::ioctl_write_ptr_bad!(
    /// Makes a terminal this large.
    set_size,
    nix::libc::TIOCSWINSZ,
    Winsize
);

/// The terminal and its program.
pub struct Screen {
    child: Child,
    keys: File,
    /// The program's end, kept open to see what happened to it.
    terminal: OwnedFd,
    parser: Arc<Mutex<vt100::Parser>>,
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn cells(count: u16) -> Result<NonZeroU16> {
    NonZeroU16::new(count).context("a terminal without cells")
}

impl Screen {
    /// Starts a program on a terminal of this size, which it controls. Its environment is that of
    /// `command`.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Result<Self> {
        let pty = openpty(Some(&size(columns, rows)), None)?;
        let end = || -> Result<Stdio> { Ok(Stdio::from(pty.slave.try_clone()?)) };
        let mut on_terminal = Command::new("setsid");
        on_terminal
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args())
            .env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on_terminal.env(name, value),
                None => on_terminal.env_remove(name),
            };
        }
        let child = on_terminal
            .stdin(end()?)
            .stdout(end()?)
            .stderr(end()?)
            .spawn()
            .context("setsid")?;
        let parser = vt100::Parser::new(cells(rows)?, cells(columns)?, 0);
        let parser = Arc::new(Mutex::new(parser));
        let mut output = File::from(pty.master.try_clone()?);
        std::thread::spawn({
            let parser = Arc::clone(&parser);
            move || {
                let mut chunk = [0; 65_536];
                // The terminal returns an error when the last process has closed it.
                while let Ok(count @ 1..) = output.read(&mut chunk) {
                    let bytes = &chunk[..count];
                    let mut parser = parser.lock().unwrap_or_else(PoisonError::into_inner);
                    parser.process(bytes);
                }
            }
        });
        Ok(Self {
            child,
            keys: File::from(pty.master),
            terminal: pty.slave,
            parser,
        })
    }

    /// What it shows.
    pub fn text(&self) -> String {
        let parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        parser.screen().contents()
    }

    /// Waits until it shows all of these words, and returns what it shows.
    pub fn wait_for(&mut self, words: &[&str]) -> Result<String> {
        self.wait(&format!("{words:?}"), |text| {
            words.iter().all(|word| text.contains(word))
        })
    }

    /// Waits until what it shows is as wanted, and returns it.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = self.text();
            if wanted(&text) {
                return Ok(text);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("waiting for {what}, but the program ended with {status}:\n{text}");
            }
            ensure!(
                Instant::now() < deadline,
                "waited {LIMIT:?} for {what}:\n{text}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.keys.write_all(keys.as_bytes())?)
    }

    /// Makes the terminal this large.
    pub fn resize(&mut self, columns: u16, rows: u16) -> Result<()> {
        let mut parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        parser.set_size(cells(rows)?, cells(columns)?);
        // SAFETY: the descriptor is that of a terminal that lives as long as `self`, and the size is a
        // value of the type that the request takes.
        unsafe { set_size(self.keys.as_raw_fd(), &size(columns, rows)) }?;
        Ok(())
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(
            Pid::from_raw(i32::try_from(self.child.id())?),
            signal,
        )?)
    }

    /// Waits until the program has ended, and checks that the terminal was restored.
    pub fn end(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(
                Instant::now() < deadline,
                "it does not end:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        let flags = tcgetattr(&self.terminal)?.local_flags;
        ensure!(
            flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG),
            "the terminal is still raw: {flags:?}"
        );
        // The last output may still be on its way.
        let is_back = || {
            let parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        };
        while !is_back() {
            ensure!(
                Instant::now() < deadline,
                "the screen was not given back:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(status)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
