//! A target as a program: `TARGET [SECONDS [SEED]]`, or `TARGET FILE…` to run it on saved inputs.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::inputs::Inputs;

/// Runs `target` as the command line asks. An input on which it panics is saved beside the program.
pub fn run(target: impl Fn(&[u8])) -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let seconds = arguments.peek().map_or(Some(3), |first| first.parse().ok());
    let Some(seconds) = seconds else {
        return replay(arguments, target);
    };
    let seed = arguments.nth(1).and_then(|seed| seed.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut inputs = Inputs::new(seed.unwrap_or(0));
    let mut runs = 0_u64;
    while Instant::now() < end {
        let input = inputs.next();
        if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
            match save(input) {
                Ok(place) => eprintln!("saved the input as {}", place.display()),
                Err(error) => eprintln!("cannot save the input ({error}): {input:?}"),
            }
            return ExitCode::FAILURE;
        }
        runs += 1;
    }
    println!("{runs} inputs passed");
    ExitCode::SUCCESS
}

fn replay(files: impl Iterator<Item = String>, target: impl Fn(&[u8])) -> ExitCode {
    for file in files {
        match fs::read(&file) {
            Ok(input) => target(&input),
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn save(input: &[u8]) -> std::io::Result<PathBuf> {
    let place = std::env::current_exe()?.with_extension("failed");
    fs::write(&place, input)?;
    Ok(place)
}
