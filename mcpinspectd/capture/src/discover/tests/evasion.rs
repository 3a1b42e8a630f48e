//! Streams that look like something else, and exclusions that come late.

use mcpinspect_common::End;
use mcpinspect_core::model::Direction;

use super::fixture::Fixture;
use super::{CLIENT, INITIALIZE, INITIALIZED, SECOND, SERVER, exchange, pipe};
use crate::discover::WatchPolicy;

const NOISE: &[u8] = b"Content-Length: 1";
const CALL: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}\n";

#[test]
fn what_a_server_writes_to_its_own_input_is_not_its_clients_word() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), SERVER, SERVER, NOISE);
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    let gap = format!("gap client_to_server 0+{}", NOISE.len());
    assert_eq!(
        fixture.collected.lines,
        ["started", "blind written_by_reader", &gap]
    );
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
    assert_eq!(fixture.sent(Direction::ServerToClient), INITIALIZED);
}

#[test]
fn a_stream_that_was_something_else_is_followed_from_the_next_message() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), 77, SERVER, NOISE);
    fixture.passes(pipe(2), SERVER, CLIENT, b"{\"level\":\"info\"}\n");
    fixture.passes(pipe(1), CLIENT, SERVER, CALL);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    let told = "blind judged_not_mcp".to_owned();
    assert!(
        fixture.collected.lines.contains(&told),
        "{:?}",
        fixture.collected.lines
    );
    assert_eq!(fixture.sent(Direction::ClientToServer), CALL);
    assert!(
        fixture
            .sent(Direction::ServerToClient)
            .ends_with(INITIALIZED)
    );
}

#[test]
fn a_language_server_stays_one() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    let body = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"rootUri\":\"x\",\"capabilities\":{}}}\n";
    let hover = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"contents\":[\"text\"]}}\n";
    for _ in 0..3 {
        fixture.passes(pipe(1), CLIENT, SERVER, b"Content-Length: 90\r\n\r\n");
        fixture.passes(pipe(1), CLIENT, SERVER, body);
        fixture.passes(pipe(2), SERVER, CLIENT, b"Content-Length: 60\r\n\r\n");
        fixture.passes(pipe(2), SERVER, CLIENT, hover);
    }
    fixture.wait(SECOND);
    assert_eq!(fixture.collected.lines, [""; 0]);
}

#[test]
fn a_server_that_writes_to_its_input_later_is_told() {
    let mut fixture = exchange();
    fixture.moves(SERVER, pipe(1), End::Writer, CALL);
    assert_eq!(
        fixture.collected.lines,
        ["started", "blind written_by_reader"]
    );
}

#[test]
fn an_excluded_name_that_comes_late_changes_nothing() {
    let mut fixture = exchange();
    fixture.world.borrow_mut().policy = WatchPolicy::Exclude;
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, CALL);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert!(fixture.sent(Direction::ClientToServer).ends_with(CALL));
}

#[test]
fn an_excluded_program_is_left_alone_until_another_takes_its_place() {
    let mut fixture = Fixture::new();
    fixture.world.borrow_mut().policy = WatchPolicy::Exclude;
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    assert_eq!(fixture.limit(pipe(1)), [0, 0]);
    fixture.world.borrow_mut().policy = WatchPolicy::Sniff;
    // A program that it starts for itself has at most one of its streams.
    fixture.exec(300, pipe(1), pipe(9));
    assert_eq!(fixture.limit(pipe(1)), [0, 0]);
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, CALL);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    assert_eq!(fixture.sent(Direction::ClientToServer), CALL);
    let gap = format!("gap client_to_server 0+{}", INITIALIZE.len());
    let lines = &fixture.collected.lines;
    assert!(lines.contains(&gap), "{lines:?}");
    assert!(lines.contains(&"blind excluded".to_owned()), "{lines:?}");
}
