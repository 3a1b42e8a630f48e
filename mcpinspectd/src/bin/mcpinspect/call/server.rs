//! The server that is asked, and why it could not be reached.

use std::io;

use anyhow::{Context as _, bail};
use mcpinspectd::client::failure::{Category, Failure};
use mcpinspectd::client::peer::Peer;
use mcpinspectd::process::identity::configured::{self, Place, Way};
use serde_json::json;

use crate::server_process::{ServerProcess, Start};

/// A server that was reached.
pub struct Server {
    process: ServerProcess,
}

impl Server {
    /// Starts it.
    pub fn start(how: &Start) -> Result<Self, Failure> {
        match ServerProcess::start(how) {
            Ok(process) => Ok(Self { process }),
            Err(error) => {
                let kind = error.root_cause().downcast_ref().map(io::Error::kind);
                let code = match kind {
                    Some(io::ErrorKind::NotFound) => "not_found",
                    Some(io::ErrorKind::PermissionDenied) => "not_permitted",
                    _ => "not_started",
                };
                Err(
                    Failure::new(Category::Transport, code, format!("{error:#}"))
                        .with(json!({ "command": how.command.first() })),
                )
            }
        }
    }

    /// The way to it.
    pub fn peer(&mut self) -> &mut dyn Peer {
        &mut self.process
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Lines of its standard error since the last time.
    pub fn said(&mut self) -> Vec<String> {
        self.process.said()
    }
}

/// How to start the server with this command, or the one that a client's configuration calls by this name.
///
/// # Errors
/// In words: there is no such server, or it is not started by a command.
pub fn chosen(
    name: Option<&str>,
    command: &[String],
    environment: &[(String, String)],
) -> anyhow::Result<Start> {
    let mut start = match name {
        None if command.is_empty() => {
            bail!("the server is missing: its name in a client's configuration, or `-- COMMAND`")
        }
        None => Start {
            command: command.to_vec(),
            ..Start::default()
        },
        Some(name) => {
            let directory = std::env::current_dir().context("no working directory")?;
            let home = std::env::var("HOME").ok();
            let place = Place {
                directory: &directory,
                home: home.as_deref(),
            };
            match configured::find(name, place, |variable| std::env::var(variable).ok())? {
                Way::Process {
                    command,
                    directory,
                    environment,
                } => Start {
                    command,
                    environment,
                    directory,
                },
                Way::Url { url, .. } => {
                    bail!("`{name}` is at {url}: only servers that are started can be asked")
                }
            }
        }
    };
    start.environment.extend_from_slice(environment);
    Ok(start)
}
