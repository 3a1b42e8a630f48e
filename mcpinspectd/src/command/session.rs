//! What `run` and `tap` share: checks, the monitor, the engine, and signals that end them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use mcpinspectd::capture::Options;
use mcpinspectd::discover::{Feed, Policy};
use mcpinspectd::engine::{Engine, Input, Output};
use mcpinspectd::model::Pid;
use mcpinspectd::monitor::{Machine, Monitor, MonitorOptions};
use mcpinspectd::preflight::{self, Requirements};
use mcpinspectd::process::ServerIdentity;
use mcpinspectd::process::identity::{NameBook, clients::ClientConfigs};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Bytes of the ring, where nothing else is asked for.
pub const RING_SIZE: u32 = 16 << 20;

/// Refuses where the probes cannot run, with what to do about it.
pub fn preflight(requirements: &Requirements) -> anyhow::Result<()> {
    let checks = preflight::run(requirements);
    if let Some(check) = preflight::first_failure(&checks) {
        bail!(
            "{}: {}. To fix it: {}.",
            check.name,
            check.found,
            check.advice
        );
    }
    Ok(())
}

/// Loads the probes and finds what runs already.
pub fn start(options: Options, max_message: u64) -> anyhow::Result<Monitor> {
    let options = MonitorOptions {
        probes: options,
        max_message,
    };
    let mut names = NameBook::default();
    let configs = ClientConfigs::default();
    Monitor::start(&options, |probes| {
        Machine::new(
            probes,
            Box::new(|_| Policy::Sniff),
            Box::new(move |server, client| {
                names.settle(ServerIdentity::of_process(
                    server,
                    client.map(Pid),
                    &configs,
                ))
            }),
        )
    })
    .map_err(|error| {
        let advice = error.advice();
        anyhow::Error::new(error).context(format!("the probes do not run; {advice}"))
    })
}

/// A flag that SIGINT and SIGTERM set. A second signal ends the program at once.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}

/// Takes discovery's findings through the engine to an output.
pub struct Pipeline<O> {
    /// The engine.
    pub engine: Engine,
    /// Where its messages and events go.
    pub output: O,
}

/// An output that may hold lines back until there is nothing else to do.
pub trait Flush {
    /// Lets what was held back go out.
    fn flush(&mut self);
}

impl<O: Output + Flush> Feed for Pipeline<O> {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.output);
    }

    fn idle(&mut self) {
        self.output.flush();
    }
}
