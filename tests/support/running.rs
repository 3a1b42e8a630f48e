//! A server that runs while a test asks it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A server at a URL.
pub struct RunningServer {
    child: Child,
    /// Its first line: a port, or a URL.
    pub first_line: String,
}

impl RunningServer {
    /// Starts `command`, and waits until it says where it listens.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut first_line).unwrap();
        let first_line = first_line.trim().to_owned();
        assert!(!first_line.is_empty(), "the server did not start");
        Self { child, first_line }
    }
}

impl RunningServer {
    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
        kilobytes.parse::<usize>().unwrap() << 10
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The interpreter that has the Python SDK.
pub fn python() -> String {
    let python = mcpinspect_tests::places::python().unwrap();
    python.to_str().unwrap().to_owned()
}
