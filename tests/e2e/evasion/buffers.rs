//! Servers whose bytes are in unusual memory, are asked for in unusual ways, or are moved by somebody else.

use anyhow::Result;

use super::server::Wire;
use super::{Evasion, Family, each_is_reported, fully_reported, loss_reported, on_both};

fn evasions() -> Vec<Evasion> {
    let mut all = on_both(&[
        "polled-out",
        "queued-out",
        "served-out",
        "many-vectors",
        "impatient",
        "interrupted",
        "twins",
        "table-of-its-own",
    ]);
    all.extend(["resizing", "gifts"].map(|how| fully_reported(how, Wire::Pipes)));
    all.extend(["flags", "many-messages"].map(|how| fully_reported(how, Wire::Socket)));
    if cfg!(target_arch = "x86_64") {
        all.extend(on_both(&["fabricated"]));
    }
    for wire in [Wire::Pipes, Wire::Socket] {
        // As with other queues, the requests around the first one are missing.
        all.push(loss_reported("polled-in", wire, &["io_uring"]));
        all.push(loss_reported("queued-in", wire, &["io_submit"]));
        // Nearly always seen in full: the client's end has the bytes, too. It may come too late.
        all.push(loss_reported("dropped-in", wire, &["page_not_resident"]));
    }
    all
}

fn hold(busy: usize) -> Result<()> {
    let family = Family::new("buffers.py")?;
    each_is_reported(&evasions(), &|evasion| family.start(evasion), busy)
}

#[test]
fn bytes_that_are_hard_to_find() -> Result<()> {
    hold(0)
}

#[test]
fn bytes_that_are_hard_to_find_beside_busy_loops() -> Result<()> {
    hold(6)
}
