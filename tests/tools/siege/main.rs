//! `cargo xtask siege`: all attacks at once on one daemon, for as long as wanted.
//!
//! The attackers are the end-to-end tests of hostile peers, in several loops side by side. Each of them starts a
//! daemon of its own and judges that one; here one more watches all of them, set up as by the package, beside long
//! sessions of honest peers. It has to live to the end in one process, within its memory, and never silent towards
//! the service manager's watchdog for too long.

mod attackers;
mod watch;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use mcpinspect_tests::daemon::{Daemon, State};

use attackers::Attackers;
use watch::Manager;

/// As the unit's `WatchdogSec` says.
const WATCHDOG: Duration = Duration::from_secs(30);
/// Peak resident memory that the daemon may have, in kB.
const MEMORY: u64 = 192 << 10;

#[derive(Parser)]
struct Options {
    /// The daemon under siege
    #[arg(long)]
    daemon: PathBuf,
    /// The program with the end-to-end tests
    #[arg(long)]
    attacks: PathBuf,
    /// How long to go on
    #[arg(long, default_value_t = 60)]
    minutes: u64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let state = State::new()?.with_tls()?;
    let mut manager = Manager::bind(&state.configuration().with_file_name("notify"))?;
    let timeout = WATCHDOG.as_micros().to_string();
    let variables = [
        ("NOTIFY_SOCKET", manager.address().as_os_str()),
        ("WATCHDOG_USEC", OsStr::new(&timeout)),
    ];
    let mut daemon = Daemon::start_program(&state, &options.daemon, &variables)?;
    let end = Instant::now() + Duration::from_secs(options.minutes * 60);
    let attackers = Attackers::start(&options.attacks);
    let seen = watch::until(end, &mut daemon, &mut manager, &attackers);
    let failed = attackers.stop();
    let seen = seen?;
    println!("{seen}");
    let ended = daemon.stop()?;
    println!("ended {} ms after being asked to", ended.as_millis());
    for name in failed {
        // They judge daemons of their own, which share two processors with everything else here.
        println!("an attack that did not come to its end as it does alone: {name}");
    }
    ensure!(
        seen.silence < WATCHDOG,
        "the watchdog would have ended it: silent for {:?}",
        seen.silence
    );
    ensure!(
        seen.peak <= MEMORY,
        "its peak is above {} MiB",
        MEMORY >> 10
    );
    Ok(())
}
