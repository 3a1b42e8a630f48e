//! MCP over HTTPS between programs in Go, whose TLS is no library.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, Truth};
use mcpinspect_tests::tap::Tap;
use serde_json::Value;

use crate::http::{Server, await_all, complete, in_order, one_after_another};
use crate::tls::{Certificate, by_process, links, machine_wide};
use crate::{BEHIND, SESSION, verdict};

/// Links to a program in Go: the ends of reads, the ends of writes, and beginnings.
const LINKS: usize = 3;

/// The peer, on two threads at a time.
fn peer(certificate: &Certificate, is_stripped: bool) -> Result<Command> {
    let mut command = Command::new(places::go_peer(is_stripped)?);
    command.env("GOMAXPROCS", "2");
    certificate.give(&mut command);
    Ok(command)
}

fn server(certificate: &Certificate, is_stripped: bool, words: &[&str]) -> Result<Server> {
    Server::start(|port| {
        let mut command = peer(certificate, is_stripped)?;
        command.arg("server").arg(port.to_string()).args(words);
        Ok(command)
    })
}

fn client(
    certificate: &Certificate,
    is_stripped: bool,
    server: &Server,
    sizes: &[usize],
    words: &[&str],
) -> Result<Command> {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let mut command = peer(certificate, is_stripped)?;
    command
        .arg("client")
        .arg(server.secure_url("/mcp"))
        .arg(sizes.join(","))
        .args(words);
    Ok(command)
}

/// Waits until the tap has all its probes in a process.
fn await_probes(tap: &Tap, pid: u32) -> Result<()> {
    let until = Instant::now() + BEHIND;
    while links(tap, pid)? < LINKS {
        ensure!(Instant::now() < until, "no probes in process {pid}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Starts clients that wait for their probes, and lets them go together.
fn start_together(tap: &Tap, clients: Vec<Command>) -> Result<Vec<Talk>> {
    let talks: Vec<Talk> = clients
        .into_iter()
        .map(Talk::start)
        .collect::<Result<_>>()?;
    for talk in &talks {
        await_probes(tap, talk.pid())?;
    }
    for talk in &talks {
        std::fs::write(talk.path("go"), "")?;
    }
    Ok(talks)
}

/// Clients one after another, each in order.
fn each_in_order(mut tap: Tap, server: &Server, clients: Vec<Command>) -> Result<()> {
    await_probes(&tap, server.pid())?;
    let mut truths = Vec::new();
    for client in clients {
        for talk in start_together(&tap, vec![client])? {
            truths.push(talk.finish(SESSION)?);
        }
        await_all(&mut tap, &truths);
    }
    let capture = tap.finish()?.capture;
    verdict(
        truths.len(),
        truths
            .iter()
            .filter_map(|truth| Some(format!("{:#}", in_order(truth, server, &capture).err()?))),
    )
}

fn on_both_sides(is_stripped: bool) -> Result<()> {
    let certificate = Certificate::new()?;
    let sizes = [&[5][..], &[5, 300_000, 5], &[3 << 20, 5, 2 << 20]];
    let server = server(&certificate, is_stripped, &[])?;
    let clients = sizes
        .map(|sizes| client(&certificate, is_stripped, &server, sizes, &["await"]))
        .into_iter()
        .collect::<Result<_>>()?;
    each_in_order(by_process()?, &server, clients)
}

#[test]
fn with_symbols() -> Result<()> {
    on_both_sides(false)
}

#[test]
fn stripped() -> Result<()> {
    on_both_sides(true)
}

#[test]
fn streams_of_events() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = server(&certificate, true, &["events"])?;
    let client = client(&certificate, true, &server, &[5, 300_000, 5], &["await"])?;
    each_in_order(by_process()?, &server, vec![client])
}

/// What Go's client and server agree on unless they are told otherwise.
#[test]
fn over_http_2() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = server(&certificate, true, &["two"])?;
    let sizes = [5, 300_000, 2 << 20, 5];
    let client = client(&certificate, true, &server, &sizes, &["await", "two"])?;
    each_in_order(by_process()?, &server, vec![client])
}

/// So many clients at once, each with calls at once, beside so many programs that only compute.
fn crowd(clients: usize, busy: usize, words: &[&str]) -> Result<()> {
    let certificate = Certificate::new()?;
    let server = server(&certificate, true, words)?;
    let mut tap = by_process()?;
    await_probes(&tap, server.pid())?;
    let _busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let sizes: Vec<usize> = (0..20).map(|call| 10 + call * 3000).collect();
    let words: Vec<&str> = words.iter().copied().chain(["await", "together"]).collect();
    let commands = (0..clients)
        .map(|_| client(&certificate, true, &server, &sizes, &words))
        .collect::<Result<_>>()?;
    let truths: Vec<Truth> = start_together(&tap, commands)?
        .into_iter()
        .map(|talk| talk.finish(SESSION))
        .collect::<Result<_>>()?;
    await_all(&mut tap, &truths);
    let capture = tap.finish()?.capture;
    let faults = truths
        .iter()
        .filter_map(|truth| Some(format!("{:#}", complete(truth, &server, &capture).err()?)));
    // Over HTTP/2, all calls of a client crowd at the beginning of one connection, of which little is taken until
    // it is known. What is lost there is reported, and is no fault of how goroutines are told apart.
    let (lost, wrong): (Vec<String>, Vec<String>) =
        faults.partition(|fault| words.contains(&"two") && fault.starts_with("losses: "));
    ensure!(3 * lost.len() <= clients, "{lost:?}");
    verdict(clients, wrong.into_iter())
}

#[test]
fn many_goroutines_over_many_connections() -> Result<()> {
    crowd(6, 0, &[])
}

#[test]
fn on_a_busy_machine() -> Result<()> {
    crowd(3, 6, &[])
}

#[test]
fn many_goroutines_over_http_2() -> Result<()> {
    crowd(3, 0, &["two"])
}

#[test]
fn with_peers_in_other_languages() -> Result<()> {
    let certificate = Certificate::new()?;
    let go = server(&certificate, true, &[])?;
    let python = certificate.client(&go, &[5, 300_000, 5], &[])?;
    one_after_another(by_process()?, &go, vec![python])?;
    let python = certificate.python(&["json", "stateless"])?;
    let client = client(&certificate, true, &python, &[5, 300_000, 5], &["await"])?;
    let mut tap = by_process()?;
    let talk = start_together(&tap, vec![client])?.pop();
    let truth = talk.context("one was started")?.finish(SESSION)?;
    await_all(&mut tap, std::slice::from_ref(&truth));
    in_order(&truth, &python, &tap.finish()?.capture)
}

#[test]
fn every_process() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = server(&certificate, true, &[])?;
    let client = client(&certificate, true, &server, &[5, 300_000, 5], &[])?;
    one_after_another(machine_wide()?, &server, vec![client])
}

#[test]
fn it_is_said_beforehand_that_they_are_looked_into() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = server(&certificate, true, &[])?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "[capture]\ntls = true\n")?;
    let said = Command::new(places::daemon()?)
        .args(["check", "--json", "--config"])
        .arg(&config)
        .output()?;
    let report: Value = serde_json::from_slice(&said.stdout).context("the report of the check")?;
    let checks = report["checks"].as_array().context("no checks")?;
    let user = format!("process {}", server.pid());
    let found = checks.iter().find(|check| {
        let found = check["found"].as_str().unwrap_or_default();
        check["name"] == "TLS library" && found.contains("/peer-stripped") && found.contains(&user)
    });
    let found = found.with_context(|| format!("it is not named: {checks:#?}"))?;
    ensure!(found["verdict"] == "ok", "{found}");
    Ok(())
}
