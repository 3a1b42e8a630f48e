//! The server to ask: a command to start, a URL, or a name in a client's configuration.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use mcpinspect_process::identity::configured;
use mcpinspect_process::identity::configured::{ConfigScope, ServerAccess};
use serde_json::json;

use crate::failure::{Category, Failure};
use crate::peer::Peer;

use crate::http_server::{Endpoint, HttpServer};
use crate::server_process::{ServerProcess, Start};

/// What a person said about the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetOptions<'a> {
    /// Its name in a client's configuration.
    pub name: Option<&'a str>,
    /// Its command.
    pub command: &'a [String],
    /// Its URL.
    pub url: Option<&'a str>,
    /// Variables for its environment.
    pub environment: &'a [(String, String)],
    /// Headers of each request to it; variables in them are filled in.
    pub headers: &'a [(String, String)],
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub enum Target {
    /// It is started.
    Process(Start),
    /// It is already running.
    Url(Endpoint),
}

impl TargetOptions<'_> {
    /// How to reach it.
    ///
    /// # Errors
    /// In words: none is named or more than one, there is none with this name, or something about it is wrong.
    pub fn target(self) -> anyhow::Result<Target> {
        let given = usize::from(self.name.is_some())
            + usize::from(!self.command.is_empty())
            + usize::from(self.url.is_some());
        ensure!(
            given > 0,
            "no server given: name one of a client's configuration, or use `--url URL` or `-- COMMAND`"
        );
        ensure!(
            given == 1,
            "give only one of the server's name, `--url` and a command"
        );
        let variable = |name: &str| std::env::var(name).ok();
        let directory =
            std::env::current_dir().context("cannot determine the working directory")?;
        let home = std::env::var("HOME").ok();
        let scope = ConfigScope {
            directory: &directory,
            home: home.as_deref(),
        };
        let way = match (self.name, self.url) {
            (Some(name), _) => configured::find(name, scope, variable)?,
            (None, Some(url)) => ServerAccess::Url {
                url: url.to_owned(),
                headers: Vec::new(),
            },
            (None, None) => ServerAccess::Process {
                command: self.command.to_vec(),
                directory: None,
                environment: Vec::new(),
            },
        };
        match way {
            ServerAccess::Process {
                command,
                directory,
                mut environment,
            } => {
                ensure!(
                    self.headers.is_empty(),
                    "`--header` is only for servers at a URL"
                );
                environment.extend_from_slice(self.environment);
                Ok(Target::Process(Start {
                    command,
                    environment,
                    directory,
                }))
            }
            ServerAccess::Url { url, mut headers } => {
                if !self.environment.is_empty() {
                    bail!("`--env` is only for servers that are started by a command");
                }
                for (name, value) in self.headers {
                    let value = configured::filled(value, scope, &variable);
                    let value = value.map_err(|variable| {
                        anyhow::anyhow!("the header `{name}` uses `{variable}`, which is not set in the environment")
                    })?;
                    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
                    headers.push((name.clone(), value));
                }
                Ok(Target::Url(Endpoint::new(&url, &headers)?))
            }
        }
    }
}

/// `NAME: VALUE`, as in HTTP.
///
/// # Errors
/// In words: it has another form.
pub fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected `NAME: VALUE`".to_owned()),
    }
}

/// A server that was reached, or can be tried.
pub enum Server {
    /// It was started.
    Process(ServerProcess),
    /// It runs by itself.
    Http(HttpServer),
}

impl Server {
    /// Starts it, or prepares to talk to it. Making a connection may take `connect`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(how: &Target, connect: Duration) -> Result<Self, Failure> {
        let failed = |code, error: &anyhow::Error, details| {
            Failure::new(Category::Transport, code, format!("{error:#}")).with(details)
        };
        match how {
            Target::Process(start) => {
                ServerProcess::start(start)
                    .map(Self::Process)
                    .map_err(|error| {
                        let kind = error.root_cause().downcast_ref().map(io::Error::kind);
                        let code = match kind {
                            Some(io::ErrorKind::NotFound) => "not_found",
                            Some(io::ErrorKind::PermissionDenied) => "not_permitted",
                            _ => "not_started",
                        };
                        failed(code, &error, json!({ "command": start.command.first() }))
                    })
            }
            Target::Url(endpoint) => HttpServer::new(endpoint.clone(), connect)
                .map(Self::Http)
                .map_err(|error| failed("not_started", &error, json!(null))),
        }
    }

    /// The way to it.
    pub fn peer(&mut self) -> &mut dyn Peer {
        match self {
            Self::Process(process) => process,
            Self::Http(server) => server,
        }
    }

    /// Ends it, or the session with it.
    pub fn stop(&mut self) {
        match self {
            Self::Process(process) => process.stop(),
            Self::Http(server) => server.stop(),
        }
    }

    /// Lines of its standard error since the last call; those of a server at a URL are out of reach.
    pub fn stderr(&mut self) -> Vec<String> {
        match self {
            Self::Process(process) => process.stderr(),
            Self::Http(_) => Vec::new(),
        }
    }
}
