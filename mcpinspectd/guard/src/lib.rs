//! `mcpinspect guard`: a server behind a policy, on standard input and output or on HTTP.
//!
//! On standard input and output, the guard starts the server and stands between it and the client. Apart from
//! what the policy keeps back or changes, neither notices: the same bytes, the same exit status, signals,
//! standard error, environment and half-closed pipes. Two threads copy, one per direction; nothing waits for
//! anything but the pipes themselves.
//!
//! - `child`: the server's process, its signals and its end
//! - `lines`: lines of bounded length
//! - `pump`: one direction
//! - `sink`: where both threads may write
//! - `judge`: the policy, shared by both directions
//! - `approvals`, `daemon`: which tools were approved
//! - `on_failure`: what to do with what cannot be judged
//! - `person`: asks a person whether a message may pass
//! - `effects`: what decisions cause besides the wire: `log`, `copies`, `webhooks`; `ending`: waits for them
//! - `gateway`: the same in front of a server on HTTP
//! - `install`: makes clients start their servers through the guard

mod approvals;
mod child;
mod copies;
mod daemon;
mod effects;
mod ending;
mod gateway;
mod install;
mod judge;
mod lines;
mod log;
mod on_failure;
mod person;
pub mod policy;
mod pump;
mod sink;
mod webhooks;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use mcpinspect_cli::terminal;
use mcpinspect_core::model::{Direction, Pid};
use mcpinspect_judge::policy::situation::Parties;
use mcpinspect_judge::policy::{DIRECTORY, Policy};
use mcpinspect_process::ProcessSnapshot;
use mcpinspect_process::identity::{Launch, of_launch};
use nix::unistd::{Uid, User, dup2_stdin, dup2_stdout};

use self::child::Server;
use self::judge::{Judge, SharedPolicy};
use self::log::Log;
use self::on_failure::OnFailure;
use self::pump::{Activity, Pump};
use self::sink::Sink;
use crate::policy::{load, zone};

/// Put a policy in front of a server
///
/// Starts the command as an MCP server and passes messages between it and the client that started
/// the guard, as the policy says: requests may be answered in the server's place, parameters and
/// results changed, tools hidden. Messages that match no rule pass unchanged, byte for byte.
/// `mcpinspect guard install CLIENT` puts the guard before the servers' commands in the client's
/// configuration.
///
/// To guard a server on HTTP, use `--listen` and `--upstream`: clients then use the guard's address
/// instead of the server's.
///
/// Every decision is a line of JSON on standard error, or in a file. The exit status is the
/// server's.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Guard {
    #[command(subcommand)]
    setup: Option<Setup>,
    /// Policy files, or directories with *.toml files.
    #[arg(long, value_name = "PATH", default_value = DIRECTORY)]
    policy: Vec<PathBuf>,
    /// What to do if the policy has a mistake, or a message cannot be checked because it is larger
    /// than 64 MiB.
    #[arg(long, value_enum, value_name = "HOW", default_value = "closed")]
    on_failure: OnFailure,
    /// Append decisions to this file instead of writing them to standard error.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The server's name, for rules with `server`. Default: the name of its package or script.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    #[command(flatten)]
    gateway: gateway::Options,
    /// The server's command.
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present = "listen"
    )]
    command: Vec<String>,
}

#[derive(clap::Subcommand)]
enum Setup {
    Install(install::Install),
    Uninstall(install::Uninstall),
}

impl Guard {
    /// Runs the command. Returns the exit code of the program.
    ///
    /// # Errors
    /// What kept it from its work, for people.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.setup {
            Some(Setup::Install(command)) => return command.run(),
            Some(Setup::Uninstall(command)) => return command.run(),
            None => {}
        }
        let policy = self.policy()?;
        let log = Log::open(self.log.as_deref())?;
        let server = self.server.clone().unwrap_or_else(|| self.name());
        let shared_policy = Arc::new(SharedPolicy::start(policy, self.on_failure, log, &server)?);
        if let Some(listen) = self.gateway.listen {
            let served = self
                .gateway
                .run(listen, Arc::clone(&shared_policy), &server);
            shared_policy.effects.finish();
            return served;
        }
        let parties = Parties {
            user: user(),
            zone: zone(),
            ..Parties::of(&server)
        };
        let judge = Arc::new(Judge::new(Arc::clone(&shared_policy), parties));
        // Copies of their own, so that each pipe can be closed when its other side is: descriptors 0 and 1
        // would keep it open.
        let (input, output) = own_pipes().context("cannot take over standard input and output")?;
        let mut server = Server::start(&self.command)?;
        let (to_server, from_server) = server.pipes();
        let (to_server, to_client) = (
            Arc::new(Sink::new(to_server)),
            Arc::new(Sink::new(Some(output))),
        );
        let activity = Arc::new(Activity::default());
        let requests = Pump {
            direction: Direction::ClientToServer,
            from: Some(input),
            to: Arc::clone(&to_server),
            back: Arc::clone(&to_client),
            judge: Arc::clone(&judge),
            activity: Arc::default(),
        };
        let answers = Pump {
            direction: Direction::ServerToClient,
            from: from_server,
            to: to_client,
            back: to_server,
            judge,
            activity: Arc::clone(&activity),
        };
        std::thread::spawn(move || requests.run());
        std::thread::spawn(move || answers.run());
        let status = server.wait()?;
        // The server's last output is still on its way.
        activity.wait_for_silence();
        shared_policy.effects.finish();
        child::end_like(status)
    }

    /// The policy. With `--on-failure open`, one with a mistake counts as none.
    fn policy(&self) -> anyhow::Result<Policy> {
        let default = PathBuf::from(DIRECTORY);
        if self.policy == [default.clone()] && !default.exists() {
            bail!("no policy found: give one with --policy, or put files into {DIRECTORY}");
        }
        match (load(&self.policy), self.on_failure) {
            (Some(policy), _) => Ok(policy),
            (None, OnFailure::Closed) => {
                bail!("the policy has mistakes, so the server is not started")
            }
            (None, OnFailure::Open) => {
                terminal::complain(format_args!(
                    "mcpinspect: the policy has mistakes; messages pass without one"
                ));
                Ok(Policy::default())
            }
        }
    }

    /// The server's name if none is given.
    fn name(&self) -> String {
        if let Some(host) = self.gateway.host() {
            return host;
        }
        name(&self.command)
    }
}

/// Standard input and output, as descriptors without other copies.
fn own_pipes() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok((input.into(), output.into()))
}

/// The name that the daemon would give a server with this command.
fn name(command: &[String]) -> String {
    let process = ProcessSnapshot {
        pid: Pid(0),
        start_time: 0,
        parent: Pid(0),
        name: String::new(),
        exe: String::new(),
        exe_deleted: false,
        argv: command.to_vec(),
        cwd: None,
        uid: Uid::current().as_raw(),
        cgroup: String::new(),
    };
    let launch = Launch {
        chain: vec![process],
        ..Launch::default()
    };
    of_launch(&launch).server_id.0.to_string()
}

/// The user, by number and by name.
fn user() -> Vec<String> {
    let uid = Uid::current();
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    [Some(uid.to_string()), name]
        .into_iter()
        .flatten()
        .collect()
}
