//! Who a server is, according to what the kernel saw when it was started.

use mcpinspect_common::End;
use mcpinspect_core::model::{Party, SessionStart};

use super::fixture::Fixture;
use super::{CLIENT, INITIALIZE, INITIALIZED, SECOND, SERVER, pipe};
use crate::capture::KernelRecord;

const LINE: &str = "python server.py";
const ANCESTORS: [(u32, &str); 2] = [(CLIENT, "client"), (1, "init")];

fn lineage(pids: &[(u32, &'static str)]) -> Vec<(u32, &'static str)> {
    pids.iter().chain(&ANCESTORS).copied().collect()
}

fn exec(fixture: &mut Fixture, line: &str, pids: &[(u32, &'static str)]) {
    fixture.exec_line(line, &lineage(pids), [pipe(1), pipe(2)]);
}

/// One exchange between the client and this process, and how the session was announced.
fn talk(mut fixture: Fixture, server: u32) -> SessionStart {
    fixture.passes(pipe(1), CLIENT, server, INITIALIZE);
    fixture.passes(pipe(2), server, CLIENT, INITIALIZED);
    assert_eq!(fixture.collected.starts.len(), 1);
    fixture.collected.starts.remove(0)
}

fn command(party: Option<&Party>) -> String {
    party.map_or_else(String::new, |party| party.command.join(" "))
}

#[test]
fn a_server_and_a_client_that_are_gone_have_their_names() {
    let mut fixture = Fixture::new();
    exec(&mut fixture, LINE, &[(SERVER, "python")]);
    // Neither is left when the daemon comes to look.
    fixture.record(SERVER, KernelRecord::Exit);
    let start = talk(fixture, SERVER);
    assert_eq!(&*start.server.server_id.0, LINE);
    assert_eq!(command(start.server_party.as_ref()), LINE);
    assert_eq!(command(start.client_party.as_ref()), "client");
    let client = start.client_party.map(|client| (client.pid.0, client.uid));
    assert_eq!(client, Some((CLIENT, super::USER)));
}

#[test]
fn a_server_that_executes_itself_anew_is_who_it_was() {
    let mut fixture = Fixture::new();
    exec(&mut fixture, "npx -y @a/x", &[(SERVER, "npx")]);
    exec(&mut fixture, LINE, &[(SERVER, "python")]);
    for random in ["4711", "1147"] {
        let line = format!("{LINE} {random}");
        exec(&mut fixture, &line, &[(SERVER, "python")]);
    }
    let start = talk(fixture, SERVER);
    assert_eq!(&*start.server.server_id.0, LINE);
    assert_eq!(
        command(start.server_party.as_ref()),
        "python server.py 1147"
    );
}

#[test]
fn a_child_that_serves_is_what_was_launched() {
    for (lineage, started) in [
        (&[(300, "python"), (SERVER, "python")][..], true),
        // Its parent has exited.
        (&[(300, "python"), (1, "init")][..], true),
        // Forked, and never seen to start anything.
        (&[(300, "python"), (SERVER, "python")][..], false),
    ] {
        let mut fixture = Fixture::new();
        exec(&mut fixture, LINE, &[(SERVER, "python")]);
        if started {
            fixture.exec_line("python worker.py 4711", lineage, [pipe(1), pipe(2)]);
        }
        let start = talk(fixture, 300);
        assert_eq!(&*start.server.server_id.0, LINE, "{lineage:?} {started}");
        assert!(start.server_party.is_some());
    }
}

#[test]
fn a_client_that_was_not_seen_is_who_started_the_first_program() {
    let mut fixture = Fixture::new();
    exec(&mut fixture, "npx -y @a/x", &[(150, "npx")]);
    exec(&mut fixture, LINE, &[(SERVER, "python"), (150, "npx")]);
    fixture.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    assert_eq!(fixture.collected.starts, []);
    fixture.wait(SECOND);
    let start = fixture.collected.starts.remove(0);
    assert_eq!(command(start.client_party.as_ref()), "client");
    assert_eq!(fixture.collected.client, Some(CLIENT));
}
