//! Servers that speak like clients, and clients that were started by their servers.

use mcpinspect_core::model::Direction;

use super::fixture::Fixture;
use super::{CLIENT, INITIALIZE, INITIALIZED, SERVER, pipe};

const LIST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}\n";

fn started() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture
}

#[test]
fn a_server_that_speaks_like_a_client_first_stays_the_server() {
    let mut fixture = started();
    fixture.passes(pipe(2), SERVER, CLIENT, LIST);
    assert_eq!(fixture.collected.lines, [""; 0], "neither is believed yet");
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
    let sent = [LIST, INITIALIZED].concat();
    assert_eq!(fixture.sent(Direction::ServerToClient), sent);
}

#[test]
fn a_server_that_repeats_what_it_is_asked_stays_the_server() {
    let mut fixture = started();
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
    let sent = [INITIALIZE, INITIALIZED].concat();
    assert_eq!(fixture.sent(Direction::ServerToClient), sent);
}

#[test]
fn a_server_that_speaks_like_a_client_at_length_is_not_believed_either() {
    let mut fixture = started();
    let mut said = Vec::new();
    while said.len() < 3000 {
        fixture.passes(pipe(2), SERVER, CLIENT, LIST);
        said.extend_from_slice(LIST);
    }
    assert_eq!(fixture.sent(Direction::ServerToClient), said);
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_client_may_be_started_by_its_server() {
    let mut fixture = Fixture::new();
    // What the client writes as its standard output, the server reads.
    fixture.exec(CLIENT, pipe(2), pipe(1));
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    fixture.passes(pipe(1), CLIENT, SERVER, LIST);
    assert_eq!(fixture.collected.lines, ["started"]);
    let sent = [INITIALIZE, LIST].concat();
    assert_eq!(fixture.sent(Direction::ClientToServer), sent);
    assert_eq!(fixture.sent(Direction::ServerToClient), INITIALIZED);
}
