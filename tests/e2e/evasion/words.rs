//! Servers whose words are made to be misread: what a client reads is reported as it is, and as a session.

use anyhow::Result;

use super::server::Wire;
use super::{Evasion, Family, each_is_reported, loss_reported, on_both};

fn evasions() -> Vec<Evasion> {
    let mut all = on_both(&[
        "banner",
        "headers",
        "lying-headers",
        "http",
        "windows",
        "mark",
        "utf16",
        "blanks",
        "empty-lines",
        "zeros",
        "torn",
        "late-half",
        "carriage-return",
        "escaped",
        "doubled",
        "deep",
        "trailing",
        "batches",
        "unasked",
        "mirrored",
        "separators",
        "not-unicode",
        "lines-of-logs",
        "huge-number",
        "reordered",
        "posing",
        "slow",
        "half-line",
    ]);
    // So much noise may fall out of the ring on a machine that is busy with other work.
    all.extend(
        [Wire::Pipes, Wire::Socket].map(|wire| loss_reported("binary", wire, &["ring_full"])),
    );
    all
}

fn hold(busy: usize) -> Result<()> {
    let family = Family::new("words.py")?;
    each_is_reported(&evasions(), &|evasion| family.start(evasion), busy)
}

#[test]
fn words_that_are_made_to_be_misread() -> Result<()> {
    hold(0)
}

#[test]
fn words_that_are_made_to_be_misread_beside_busy_loops() -> Result<()> {
    hold(6)
}
