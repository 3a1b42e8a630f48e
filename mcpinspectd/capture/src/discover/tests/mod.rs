//! Discovery without a kernel: records in, sessions out.

pub(super) mod connections;
mod evasion;
mod fixture;
mod launch;
mod order;
mod roles;
mod room;

use std::time::Duration;

use mcpinspect_common::{End, EndpointKey, EndpointKind, EndpointReport, SHIP_REGARDLESS};
use mcpinspect_core::model::{BlindMechanism, Direction, StreamLedger};
use mcpinspect_process::fds::Access;

use self::fixture::{Fixture, SETTINGS, USER};
use super::Settings;
use crate::capture::KernelRecord;

const CLIENT: u32 = 100;
const SERVER: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);
const INITIALIZE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n";
const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}\n";

fn pipe(ino: u64) -> EndpointKey {
    EndpointKey {
        ino,
        dev: 15,
        kind: EndpointKind::Pipe as u32,
    }
}

/// A session on pipes 1 (to the server) and 2, after the first exchange.
fn exchange() -> Fixture {
    exchanged(Fixture::new())
}

/// The same, with both ends compared.
fn compared() -> Fixture {
    exchanged(Fixture::with(Settings {
        compare_ends: true,
        ..SETTINGS
    }))
}

fn exchanged(mut fixture: Fixture) -> Fixture {
    for (key, reader, writer) in [(pipe(1), SERVER, CLIENT), (pipe(2), CLIENT, SERVER)] {
        fixture.hold(key, reader, Access::Read);
        fixture.hold(key, writer, Access::Write);
    }
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    fixture
}

#[test]
fn the_first_message_is_not_lost_in_sniffing() {
    let fixture = exchange();
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
    assert_eq!(fixture.sent(Direction::ServerToClient), INITIALIZED);
    assert_eq!(fixture.limit(pipe(1)), [u64::MAX, 0]);
    assert_eq!(fixture.limit(pipe(2)), [u64::MAX, 0]);
}

#[test]
fn a_message_in_single_bytes_is_recognised() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    for byte in INITIALIZE {
        fixture.passes(pipe(1), CLIENT, SERVER, &[*byte]);
    }
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_stream_that_is_not_mcp_is_not_shipped() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, b"Content-Length: 120\r\n\r\n{");
    assert_eq!(fixture.collected.lines, [""; 0]);
    let shipped = fixture.limit(pipe(1)).map(|limit| limit & !SHIP_REGARDLESS);
    assert!(
        shipped.into_iter().all(|limit| limit <= 8192),
        "a sample: {shipped:?}"
    );
    fixture.passes(pipe(1), CLIENT, SERVER, &[b'x'; 5000]);
    assert_eq!(fixture.collected.lines, [""; 0]);
}

#[test]
fn text_is_given_up_at_the_budget() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, &[b'x'; 1023]);
    assert_eq!(fixture.limit(pipe(1)), [7; 2], "still open");
    fixture.passes(pipe(1), CLIENT, SERVER, b"yyyyy\n");
    let [shipped, _] = fixture.limit(pipe(1));
    assert!(shipped & !SHIP_REGARDLESS <= 1029 + 4096, "a sample");
    assert_eq!(fixture.tracker.buffered(), 0);
}

#[test]
fn a_long_first_message_gets_more_than_the_budget() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    let start = b"{\"params\":{\"x\":\"";
    fixture.passes(pipe(1), CLIENT, SERVER, start);
    fixture.passes(pipe(1), CLIENT, SERVER, &[b'a'; 900]);
    assert_eq!(fixture.limit(pipe(1)), [1 << 20; 2]);
    fixture.passes(pipe(1), CLIENT, SERVER, &[b'a'; 4000]);
    let end = b"\"},\"method\":\"tools/list\",\"jsonrpc\":\"2.0\",\"id\":0}\n";
    fixture.passes(pipe(1), CLIENT, SERVER, end);
    assert_eq!(
        fixture.sent(Direction::ClientToServer).len(),
        start.len() + 4900 + end.len()
    );
}

#[test]
fn a_banner_on_standard_output_does_not_hide_a_server() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(
        pipe(2),
        SERVER,
        CLIENT,
        b"{\"level\":\"info\",\"msg\":\"ready\"}\n",
    );
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    let sent = fixture.sent(Direction::ServerToClient);
    assert!(sent.starts_with(b"{\"level\"") && sent.ends_with(INITIALIZED));
}

#[test]
fn a_filter_in_a_pipeline_is_not_a_second_session() {
    let mut fixture = Fixture::new();
    // sh -c 'server | tee log' between pipes 1 and 2; the server writes pipe 3.
    fixture.exec(150, pipe(1), pipe(2));
    fixture.exec(SERVER, pipe(1), pipe(3));
    fixture.exec(300, pipe(3), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    fixture.passes(pipe(3), SERVER, 300, INITIALIZED);
    fixture.passes(pipe(2), 300, CLIENT, INITIALIZED);
    fixture.wait(SECOND);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.sent(Direction::ServerToClient), INITIALIZED);
}

#[test]
fn bytes_that_the_ring_lost_become_a_gap() {
    let mut fixture = exchange();
    fixture.count(SERVER, pipe(1), End::Reader, 500);
    fixture.moves(SERVER, pipe(1), End::Reader, b"{}\n");
    fixture.wait(SECOND / 2);
    let gap = format!("gap client_to_server {}+500", INITIALIZE.len());
    assert_eq!(fixture.collected.lines, ["started".to_owned(), gap]);
    assert!(fixture.sent(Direction::ClientToServer).ends_with(b"{}\n"));
}

#[test]
fn a_loss_at_the_end_of_a_stream_is_found_by_the_counters() {
    let mut fixture = exchange();
    fixture.count(CLIENT, pipe(1), End::Writer, 500);
    fixture.count(SERVER, pipe(1), End::Reader, 500);
    fixture.wait(SECOND / 10);
    fixture.wait(2 * SECOND);
    let gap = format!("gap client_to_server {}+500", INITIALIZE.len());
    assert_eq!(fixture.collected.lines, ["started".to_owned(), gap]);
}

#[test]
fn a_reader_that_is_not_seen_is_replaced_by_the_writer() {
    let mut fixture = Fixture::new();
    fixture.hold(pipe(1), SERVER, Access::Read);
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.moves(CLIENT, pipe(1), End::Writer, INITIALIZE);
    fixture.wait(SECOND / 10);
    assert_eq!(
        fixture.collected.lines, [""; 0],
        "it may be about to be read"
    );
    // The pipe is empty, and the probes saw no process read it: the next survey tells.
    fixture.wait(2 * SECOND);
    fixture.wait(SECOND / 10);
    assert_eq!(fixture.collected.lines, ["started"], "nothing is lost");
    assert_eq!(fixture.tracker.covered_blind_spots(), 1);
    fixture.moves(CLIENT, pipe(1), End::Writer, b"{}\n");
    assert!(fixture.sent(Direction::ClientToServer).ends_with(b"{}\n"));
}

#[test]
fn a_slow_reader_is_awaited() {
    let mut fixture = Fixture::new();
    fixture.hold(pipe(1), SERVER, Access::Read);
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.moves(CLIENT, pipe(1), End::Writer, INITIALIZE);
    fixture.world.borrow_mut().unread = INITIALIZE.len() as u64;
    fixture.wait(SECOND / 10);
    fixture.wait(20 * SECOND);
    fixture.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_session_ends_when_its_server_is_gone_and_all_is_read() {
    let mut fixture = exchange();
    fixture.moves(SERVER, pipe(2), End::Writer, b"{\"jsonrpc\":\"2.0\"}\n");
    fixture.record(SERVER, KernelRecord::Exit);
    fixture.world.borrow_mut().holders.clear();
    fixture.hold(pipe(2), CLIENT, Access::Read);
    fixture.wait(SECOND / 5);
    assert_eq!(
        fixture.collected.lines,
        ["started"],
        "the client has yet to read"
    );
    fixture.moves(CLIENT, pipe(2), End::Reader, b"{\"jsonrpc\":\"2.0\"}\n");
    fixture.wait(SECOND / 5);
    assert_eq!(
        fixture.collected.lines.last().map(String::as_str),
        Some("ended server_exited")
    );
    let [to_server, to_client] = fixture.tracker.ledger() else {
        panic!("two directions")
    };
    for StreamLedger {
        bytes_written,
        bytes_read,
        bytes_captured,
        bytes_lost,
        ..
    } in [to_server, to_client]
    {
        assert_eq!((bytes_written, bytes_captured), (bytes_read, bytes_read));
        assert_eq!(*bytes_lost, 0);
    }
}

#[test]
fn a_server_that_is_replaced_on_the_same_pipes_keeps_its_session() {
    let mut fixture = exchange();
    fixture.record(SERVER, KernelRecord::Exit);
    fixture.world.borrow_mut().holders.clear();
    for key in [pipe(1), pipe(2)] {
        fixture.hold(key, 201, Access::Both);
        fixture.hold(key, CLIENT, Access::Both);
    }
    fixture.exec(201, pipe(1), pipe(2));
    fixture.wait(SECOND);
    fixture.passes(pipe(1), CLIENT, 201, b"{}\n");
    fixture.wait(SECOND);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.tracker.sessions(), 1);
}

#[test]
fn splices_are_reported_for_their_session() {
    let mut fixture = exchange();
    let blind = |key| KernelRecord::BlindSpot {
        stream: Some((key, End::Writer)),
        bytes: 10,
        mechanism: BlindMechanism::Splice,
    };
    fixture.record(SERVER, blind(pipe(2)));
    assert_eq!(
        fixture.collected.lines,
        ["started"],
        "the reader has it all"
    );
    assert_eq!(fixture.tracker.covered_blind_spots(), 1);
    fixture.count(SERVER, pipe(2), End::Writer, 10);
    fixture.record(SERVER, blind(pipe(2)));
    fixture.record(SERVER, blind(pipe(9)));
    assert_eq!(fixture.collected.lines, ["started", "blind splice"]);
    assert_eq!(fixture.tracker.covered_blind_spots(), 1);
}

#[test]
fn sniff_buffers_are_bounded() {
    let mut fixture = Fixture::with(Settings {
        max_buffered: 4096,
        sniff_budget: 1 << 20,
        ..SETTINGS
    });
    for ino in 0..64 {
        fixture.exec(1000, pipe(ino * 2 + 1), pipe(ino * 2 + 2));
        fixture.passes(pipe(ino * 2 + 1), CLIENT, 1000, &[b'{'; 300]);
        assert!(fixture.tracker.buffered() <= 4096);
    }
}

#[test]
fn bytes_written_before_the_peer_is_known_are_kept() {
    let socket = |ino| EndpointKey {
        ino,
        dev: 8,
        kind: EndpointKind::UnixSocket as u32,
    };
    let (server_side, client_side) = (socket(1), socket(2));
    let mut fixture = Fixture::new();
    fixture.moves(CLIENT, client_side, End::Writer, INITIALIZE);
    let report = |fd| EndpointReport {
        key: server_side,
        peer_ino: 2,
        fd,
        fresh: 1,
    };
    fixture.record(
        SERVER,
        KernelRecord::Exec {
            input: report(0),
            output: report(1),
            uid: USER,
            executed: None,
        },
    );
    // Recognised by what the client wrote, though the server has not read it yet.
    assert_eq!(fixture.limit(server_side)[0], u64::MAX);
    fixture.moves(SERVER, server_side, End::Reader, INITIALIZE);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_client_that_wrote_before_it_was_known_is_awaited() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    assert_eq!(
        fixture.collected.lines, [""; 0],
        "announced without its client"
    );
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    assert_eq!(fixture.collected.lines, ["started"]);
    assert_eq!(fixture.collected.client, Some(CLIENT));
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
    assert_eq!(fixture.sent(Direction::ServerToClient), INITIALIZED);
}

#[test]
fn a_client_that_never_shows_is_awaited_only_briefly() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    fixture.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    fixture.wait(SECOND / 5);
    assert_eq!(
        fixture.collected.lines[..2],
        ["started", "end client_to_server"]
    );
    assert_eq!(fixture.collected.client, None);
    assert_eq!(fixture.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_write_under_way_at_registration_is_counted_once() {
    let length = INITIALIZE.len();
    let mut fixture = exchange();
    {
        let mut world = fixture.world.borrow_mut();
        let counters = world.counters.entry(pipe(1)).or_default();
        counters.unread = length as u64;
        counters.first_write = length as u64;
        counters.position[End::Writer as usize] += length as u64;
        world.holders.clear();
    }
    fixture.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    fixture.wait(SECOND);
    let account = &fixture.tracker.ledger()[0];
    assert_eq!(account.bytes_written, length as u64);
    assert_eq!((account.bytes_read, account.bytes_lost), (length as u64, 0));
}

#[test]
fn unread_bytes_are_not_taken_for_counted_twice() {
    let mut fixture = exchange();
    fixture.count(CLIENT, pipe(1), End::Writer, 7);
    fixture.world.borrow_mut().holders.clear();
    fixture.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    fixture.wait(SECOND);
    let account = &fixture.tracker.ledger()[0];
    assert_eq!(account.bytes_written, INITIALIZE.len() as u64 + 7);
    assert_eq!(account.bytes_lost, 7);
}

#[test]
fn both_ends_are_compared_if_configured() {
    let mut fixture = compared();
    assert_eq!(fixture.limit(pipe(1)), [u64::MAX; 2]);
    assert_eq!(fixture.limit(pipe(2)), [u64::MAX; 2]);
    fixture.passes(pipe(1), CLIENT, SERVER, b"{\"a\":1}\n");
    fixture.moves(SERVER, pipe(2), End::Writer, b"{\"a\":\"harmless\"}\n");
    fixture.moves(CLIENT, pipe(2), End::Reader, b"{\"a\":\"poisoned\"}\n");
    fixture.wait(SECOND);
    assert_eq!(
        fixture.collected.lines,
        [
            "started",
            &format!("differs server_to_client {}+11", INITIALIZED.len() + 6)
        ]
    );
    assert!(
        fixture
            .sent(Direction::ServerToClient)
            .ends_with(b"{\"a\":\"poisoned\"}\n")
    );
}

#[test]
fn the_clients_bytes_count_where_the_server_rewrites_them() {
    let mut fixture = compared();
    fixture.moves(
        CLIENT,
        pipe(1),
        End::Writer,
        b"{\"path\":\"/etc/shadow\"}\n",
    );
    fixture.moves(
        SERVER,
        pipe(1),
        End::Reader,
        b"{\"path\":\"/tmp/unseen\"}\n",
    );
    fixture.moves(SERVER, pipe(1), End::Reader, b"");
    fixture.wait(SECOND);
    let sent = fixture.sent(Direction::ClientToServer);
    assert!(
        sent.ends_with(b"{\"path\":\"/etc/shadow\"}\n"),
        "{}",
        String::from_utf8_lossy(sent)
    );
    assert_eq!(fixture.collected.lines.len(), 2);
}

#[test]
fn bytes_that_only_the_server_was_seen_reading_are_passed_on() {
    let mut fixture = compared();
    fixture.moves(SERVER, pipe(1), End::Reader, b"{\"b\":2}\n");
    assert!(
        fixture
            .sent(Direction::ClientToServer)
            .ends_with(b"{\"b\":2}\n")
    );
    fixture.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    assert_eq!(fixture.collected.lines, ["started", "end client_to_server"]);
}
