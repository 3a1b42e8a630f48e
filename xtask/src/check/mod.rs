//! `cargo xtask check`: everything about the sources that needs no test.
//!
//! Format, lints and boundaries are quick, and checked while one works. The rest takes minutes
//! and is checked before a change lands. Checks that cannot run on this machine are named at the
//! end, and count as failures in the public CI, which has whatever a check needs.

mod boundaries;
mod builds;
mod outcome;
mod sources;
mod tools;

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::setup;
use crate::shell::say;
use outcome::{Outcome, in_public_ci};

/// The command line of `cargo xtask check`.
#[derive(clap::Args)]
pub struct Options {
    /// Checks to run; default: the quick ones (format, lints, probes, boundaries)
    #[arg(value_parser = CHECKS.map(|check| check.name))]
    checks: Vec<String>,
    /// Run every check
    #[arg(long, conflicts_with = "checks")]
    all: bool,
    /// How long each fuzz target runs, in seconds
    #[arg(long, default_value_t = 3)]
    fuzz_seconds: u64,
}

struct Check {
    name: &'static str,
    quick: bool,
    run: fn(&Options) -> Result<Outcome>,
}

const CHECKS: [Check; 11] = [
    Check {
        name: "format",
        quick: true,
        run: |_| sources::format(),
    },
    Check {
        name: "lints",
        quick: true,
        run: |_| sources::lints(),
    },
    Check {
        name: "probes",
        quick: true,
        run: |_| sources::probes("x86_64"),
    },
    Check {
        name: "boundaries",
        quick: true,
        run: |_| boundaries::keep(),
    },
    Check {
        name: "documentation",
        quick: false,
        run: |_| sources::documentation(),
    },
    Check {
        name: "dependencies",
        quick: false,
        run: |_| tools::dependencies(),
    },
    Check {
        name: "workflows",
        quick: false,
        run: |_| tools::workflows(),
    },
    Check {
        name: "recipes",
        quick: false,
        run: |_| tools::recipes(),
    },
    Check {
        name: "aarch64",
        quick: false,
        run: |_| builds::aarch64(),
    },
    Check {
        name: "without-probes",
        quick: false,
        run: |_| builds::without_probes(),
    },
    Check {
        name: "fuzz",
        quick: false,
        run: |options| builds::fuzz(options.fuzz_seconds),
    },
];

/// Runs the checks.
pub fn run(options: &Options) -> Result<()> {
    setup::toolchain()?;
    let mut unchecked = Vec::new();
    let chosen = |check: &&Check| match options.checks.as_slice() {
        [] => options.all || check.quick,
        names => names.iter().any(|name| name == check.name),
    };
    for check in CHECKS.iter().filter(chosen) {
        say(&format!("checking: {}", check.name));
        let begun = Instant::now();
        match (check.run)(options) {
            Ok(Outcome::Passed) => {
                say(&format!(
                    "{}: ok ({} s)",
                    check.name,
                    begun.elapsed().as_secs()
                ));
            }
            Ok(Outcome::Unchecked(reason)) => unchecked.push(format!("{}: {reason}", check.name)),
            Err(error) => bail!("{}: {error:#}", check.name),
        }
    }
    for what in &unchecked {
        say(&format!("NOT CHECKED: {what}"));
    }
    ensure!(
        unchecked.is_empty() || !in_public_ci(),
        "this CI checks everything"
    );
    Ok(())
}
