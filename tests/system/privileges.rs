//! Which of root's privileges a running daemon keeps.

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::threads;

use crate::{await_tls, event, installed};

/// By `linux/capability.h`: what loading takes, and running does not.
const PERFMON: u64 = 1 << 38;
const SYS_ADMIN: u64 = 1 << 21;

#[test]
fn the_thread_that_drains_the_ring_has_priority() -> Result<()> {
    let container = installed("priorities")?;
    await_tls(&container)?;
    let pid = container.property("MainPID")?;
    let stats = container.shell(&format!("cat /proc/{pid}/task/*/stat"))?;
    let threads = threads::priorities(&stats)?;
    for (name, nice) in &threads {
        let expected = match name.as_str() {
            "drain" => -15,
            "messages" => -9,
            "detaching" | "memory" | "owners" | "programs" | "survey" => 0,
            _ => -10,
        };
        ensure!(*nice == expected, "{name}: {threads:?}");
    }
    for name in [
        "drain", "memory", "messages", "owners", "programs", "survey",
    ] {
        ensure!(threads.iter().any(|thread| thread.0 == name), "{threads:?}");
    }
    Ok(())
}

#[test]
fn every_thread_gives_up_what_loading_took() -> Result<()> {
    let mut container = installed("privileges")?;
    // What attaches probes to libraries loads them after the start.
    await_tls(&container)?;
    let pid = container.property("MainPID")?;
    let threads = container.shell(&format!("ls /proc/{pid}/task"))?;
    ensure!(threads.lines().count() > 1, "one thread: {threads}");
    for thread in threads.lines() {
        let status = container.shell(&format!("cat /proc/{pid}/task/{thread}/status"))?;
        let value = |name: &str| -> Result<&str> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.with_context(|| format!("no {name}"))?.trim())
        };
        for set in ["CapEff:", "CapPrm:"] {
            let bits = u64::from_str_radix(value(set)?, 16)?;
            ensure!(bits & (PERFMON | SYS_ADMIN) == 0, "{set} of {status}");
        }
        ensure!(value("CapInh:")? == "0000000000000000", "{status}");
        ensure!(value("NoNewPrivs:")? == "1", "{status}");
    }
    // It keeps watching, both servers that ran before and new ones.
    container.session("without", "Gives back the message.")?;
    event(&mut container, "mcp_tool_seen", "without")?;
    Ok(())
}
