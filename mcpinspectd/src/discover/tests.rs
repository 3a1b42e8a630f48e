//! Discovery without a kernel: records in, sessions out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointKind, EndpointReport, EndpointWatch, Operation,
};

use super::{Environment, Policy, Settings, Tracker};
use crate::capture::{BootClock, KernelRecord, Origin};
use crate::model::InputSink;
use crate::model::{Direction, Input, Pid, ServerId, ServerIdentity, StreamLedger};
use crate::process::ProcessInfo;
use crate::process::fds::{Access, Holder, Holders, InodeKey, StreamKind};

const CLIENT: u32 = 100;
const SERVER: u32 = 200;
const SECOND: u64 = 1_000_000_000;
const INITIALIZE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n";
const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}\n";

/// What the fake kernel knows, shared with the test.
#[derive(Default)]
struct World {
    watches: HashMap<EndpointKey, EndpointWatch>,
    counters: HashMap<EndpointKey, EndpointCounters>,
    holders: Holders,
    unread: u64,
}

struct Fake(Rc<RefCell<World>>);

impl Environment for Fake {
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        self.0.borrow_mut().watches.insert(key, watch);
    }
    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        self.0.borrow().counters.get(&key).copied()
    }
    fn forget(&mut self, key: EndpointKey) {
        self.0.borrow_mut().watches.remove(&key);
    }
    fn holders(&mut self) -> Holders {
        self.0.borrow().holders.clone()
    }
    fn holds(&self, _pid: u32, _endpoint: EndpointKey, _end: End) -> bool {
        false
    }
    fn unread(&mut self, _holder: &Holder) -> Option<u64> {
        Some(self.0.borrow().unread)
    }
    fn mark(&mut self, _pid: u32) {}
    fn unmark_idle(&mut self) {}
    fn describe(&mut self, _pid: u32) -> Option<Arc<ProcessInfo>> {
        None
    }
    fn policy(&mut self, _process: &ProcessInfo) -> Policy {
        Policy::Sniff
    }
    fn identify(&mut self, _server: Option<&ProcessInfo>, _client: Option<u32>) -> ServerIdentity {
        ServerIdentity {
            server_id: ServerId("fake".into()),
            fingerprint: String::new(),
            name_source: String::new(),
        }
    }
}

/// What came out, in words.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    client: Option<u32>,
    bytes: HashMap<Direction, Vec<u8>>,
}

impl InputSink for Told {
    fn input(&mut self, input: Input<'_>) {
        match input {
            Input::SessionStarted(_) => self.lines.push("started".into()),
            Input::Bytes {
                direction, bytes, ..
            } => self.bytes.entry(direction).or_default().extend(bytes),
            Input::Gap {
                direction,
                position,
                bytes_lost,
                ..
            } => self.lines.push(format!(
                "gap {} {position}+{bytes_lost}",
                direction.as_str()
            )),
            Input::EndsDisagree {
                direction,
                position,
                bytes,
                ..
            } => self
                .lines
                .push(format!("differs {} {position}+{bytes}", direction.as_str())),
            Input::BlindSpot { mechanism, .. } => self.lines.push(format!("blind {mechanism}")),
            Input::EndOfStream { direction, .. } => {
                self.lines.push(format!("end {}", direction.as_str()));
            }
            Input::SessionEnded { reason, .. } => self.lines.push(format!("ended {reason}")),
            Input::PartiesChanged { client_pid, .. } => {
                self.client = client_pid.map(|pid| pid.0);
            }
            Input::Program { .. } => {}
        }
    }
}

/// A machine with a tracker on it.
struct Bench {
    world: Rc<RefCell<World>>,
    tracker: Tracker<Fake>,
    told: Told,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let world = Rc::new(RefCell::new(World::default()));
        let settings = Settings {
            sniff_budget: 1024,
            max_message: 1 << 20,
            compare_ends: false,
            beginnings_max: 1 << 20,
            max_sessions: 4,
            max_accounts: 64,
        };
        let clock = BootClock::at_epoch();
        Self {
            tracker: Tracker::new(Fake(Rc::clone(&world)), settings, clock, 0),
            world,
            told: Told::default(),
            now: SECOND,
        }
    }

    fn record(&mut self, tgid: u32, record: KernelRecord<'_>) {
        let origin = Origin {
            tgid,
            time: self.now,
        };
        self.tracker.record(origin, record, &mut self.told);
    }

    fn exec(&mut self, pid: u32, input: EndpointKey, output: EndpointKey) {
        let report = |key, fd| EndpointReport {
            key,
            peer_ino: 0,
            fd,
            fresh: 1,
        };
        self.record(
            pid,
            KernelRecord::Exec {
                input: report(input, 0),
                output: report(output, 1),
            },
        );
    }

    /// Moves bytes through an end, as the kernel would count and ship them.
    fn moves(&mut self, tgid: u32, key: EndpointKey, end: End, bytes: &[u8]) {
        let position = self.count(tgid, key, end, bytes.len());
        self.record(
            tgid,
            KernelRecord::Data {
                key,
                end,
                position,
                bytes,
            },
        );
    }

    /// Moves bytes that are counted and not shipped.
    fn count(&mut self, tgid: u32, key: EndpointKey, end: End, bytes: usize) -> u64 {
        let mut world = self.world.borrow_mut();
        let counters = world.counters.entry(key).or_default();
        counters.last_tgid[end as usize] = tgid;
        let position = counters.position[end as usize];
        counters.position[end as usize] += bytes as u64;
        position
    }

    fn passes(&mut self, key: EndpointKey, writer: u32, reader: u32, bytes: &[u8]) {
        self.moves(writer, key, End::Writer, bytes);
        self.moves(reader, key, End::Reader, bytes);
    }

    fn hold(&mut self, key: EndpointKey, pid: u32, access: Access) {
        let inode = InodeKey {
            dev: u64::from(key.dev),
            ino: key.ino,
        };
        let holder = Holder {
            pid: Pid(pid),
            fd: 0,
            access,
            kind: StreamKind::Pipe,
        };
        self.world
            .borrow_mut()
            .holders
            .entry(inode)
            .or_default()
            .push(holder);
    }

    fn wait(&mut self, nanos: u64) {
        self.now += nanos;
        self.tracker.tick(self.now, &mut self.told);
    }

    fn sent(&self, direction: Direction) -> &[u8] {
        self.told.bytes.get(&direction).map_or(&[], Vec::as_slice)
    }

    fn limit(&self, key: EndpointKey) -> [u64; 2] {
        self.world
            .borrow()
            .watches
            .get(&key)
            .map_or([7; 2], |watch| watch.ship_limit)
    }
}

fn pipe(ino: u64) -> EndpointKey {
    EndpointKey {
        ino,
        dev: 15,
        kind: EndpointKind::Pipe as u32,
    }
}

/// A session on pipes 1 (to the server) and 2, the first exchange done.
fn exchange() -> Bench {
    exchanged(Bench::new())
}

/// The same, both ends compared.
fn compared() -> Bench {
    let mut bench = Bench::new();
    bench.tracker.settings.compare_ends = true;
    exchanged(bench)
}

fn exchanged(mut bench: Bench) -> Bench {
    for (key, reader, writer) in [(pipe(1), SERVER, CLIENT), (pipe(2), CLIENT, SERVER)] {
        bench.hold(key, reader, Access::Read);
        bench.hold(key, writer, Access::Write);
    }
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    bench.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    bench
}

#[test]
fn the_first_message_is_not_lost_in_sniffing() {
    let bench = exchange();
    assert_eq!(bench.told.lines, ["started"]);
    assert_eq!(bench.sent(Direction::ClientToServer), INITIALIZE);
    assert_eq!(bench.sent(Direction::ServerToClient), INITIALIZED);
    assert_eq!(bench.limit(pipe(1)), [u64::MAX, 0]);
    assert_eq!(bench.limit(pipe(2)), [u64::MAX, 0]);
}

#[test]
fn a_message_in_single_bytes_is_recognised() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    for byte in INITIALIZE {
        bench.passes(pipe(1), CLIENT, SERVER, &[*byte]);
    }
    assert_eq!(bench.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn what_is_not_mcp_is_not_watched() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.passes(pipe(1), CLIENT, SERVER, b"Content-Length: 120\r\n\r\n{");
    assert_eq!(bench.told.lines, [""; 0]);
    assert_eq!(bench.limit(pipe(1)), [0, 0]);
}

#[test]
fn text_is_given_up_at_the_budget() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.passes(pipe(1), CLIENT, SERVER, &[b'x'; 1023]);
    assert_eq!(bench.limit(pipe(1)), [7; 2], "still open");
    bench.passes(pipe(1), CLIENT, SERVER, b"yyyyy\n");
    assert_eq!(bench.limit(pipe(1)), [0, 0]);
}

#[test]
fn a_long_first_message_gets_more_than_the_budget() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    let start = b"{\"params\":{\"x\":\"";
    bench.passes(pipe(1), CLIENT, SERVER, start);
    bench.passes(pipe(1), CLIENT, SERVER, &[b'a'; 900]);
    assert_eq!(bench.limit(pipe(1)), [1 << 20; 2]);
    bench.passes(pipe(1), CLIENT, SERVER, &[b'a'; 4000]);
    let end = b"\"},\"method\":\"tools/list\",\"jsonrpc\":\"2.0\",\"id\":0}\n";
    bench.passes(pipe(1), CLIENT, SERVER, end);
    assert_eq!(
        bench.sent(Direction::ClientToServer).len(),
        start.len() + 4900 + end.len()
    );
}

#[test]
fn a_banner_on_standard_output_does_not_hide_a_server() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.passes(
        pipe(2),
        SERVER,
        CLIENT,
        b"{\"level\":\"info\",\"msg\":\"ready\"}\n",
    );
    bench.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    bench.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    let sent = bench.sent(Direction::ServerToClient);
    assert!(sent.starts_with(b"{\"level\"") && sent.ends_with(INITIALIZED));
}

#[test]
fn a_filter_in_the_pipeline_is_no_second_session() {
    let mut bench = Bench::new();
    // sh -c 'server | tee log' between pipes 1 and 2; the server writes pipe 3.
    bench.exec(150, pipe(1), pipe(2));
    bench.exec(SERVER, pipe(1), pipe(3));
    bench.exec(300, pipe(3), pipe(2));
    bench.passes(pipe(1), CLIENT, SERVER, INITIALIZE);
    bench.passes(pipe(3), SERVER, 300, INITIALIZED);
    bench.passes(pipe(2), 300, CLIENT, INITIALIZED);
    bench.wait(SECOND);
    assert_eq!(bench.told.lines, ["started"]);
    assert_eq!(bench.sent(Direction::ServerToClient), INITIALIZED);
}

#[test]
fn what_the_ring_lost_is_a_gap_and_the_stream_goes_on() {
    let mut bench = exchange();
    bench.count(SERVER, pipe(1), End::Reader, 500);
    bench.moves(SERVER, pipe(1), End::Reader, b"{}\n");
    bench.wait(SECOND / 2);
    let gap = format!("gap client_to_server {}+500", INITIALIZE.len());
    assert_eq!(bench.told.lines, ["started".to_owned(), gap]);
    assert!(bench.sent(Direction::ClientToServer).ends_with(b"{}\n"));
}

#[test]
fn a_loss_at_the_end_of_what_was_sent_is_found_by_the_counters() {
    let mut bench = exchange();
    bench.count(CLIENT, pipe(1), End::Writer, 500);
    bench.count(SERVER, pipe(1), End::Reader, 500);
    bench.wait(SECOND / 10);
    bench.wait(2 * SECOND);
    let gap = format!("gap client_to_server {}+500", INITIALIZE.len());
    assert_eq!(bench.told.lines, ["started".to_owned(), gap]);
}

#[test]
fn a_reader_that_is_not_seen_is_replaced_by_the_writer() {
    let mut bench = Bench::new();
    bench.hold(pipe(1), SERVER, Access::Read);
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.moves(CLIENT, pipe(1), End::Writer, INITIALIZE);
    bench.wait(SECOND / 10);
    assert_eq!(bench.told.lines, [""; 0], "it may be about to be read");
    // The pipe is empty, and the probes saw nobody read.
    bench.wait(2 * SECOND);
    assert_eq!(bench.told.lines, ["started", "blind unseen_reader"]);
    bench.moves(CLIENT, pipe(1), End::Writer, b"{}\n");
    assert!(bench.sent(Direction::ClientToServer).ends_with(b"{}\n"));
}

#[test]
fn a_slow_reader_is_waited_for() {
    let mut bench = Bench::new();
    bench.hold(pipe(1), SERVER, Access::Read);
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.moves(CLIENT, pipe(1), End::Writer, INITIALIZE);
    bench.world.borrow_mut().unread = INITIALIZE.len() as u64;
    bench.wait(SECOND / 10);
    bench.wait(20 * SECOND);
    bench.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    assert_eq!(bench.told.lines, ["started"]);
    assert_eq!(bench.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_session_ends_when_its_server_is_gone_and_all_is_read() {
    let mut bench = exchange();
    bench.moves(SERVER, pipe(2), End::Writer, b"{\"jsonrpc\":\"2.0\"}\n");
    bench.record(SERVER, KernelRecord::Exit);
    bench.world.borrow_mut().holders.clear();
    bench.hold(pipe(2), CLIENT, Access::Read);
    bench.wait(SECOND / 5);
    assert_eq!(bench.told.lines, ["started"], "the client has yet to read");
    bench.moves(CLIENT, pipe(2), End::Reader, b"{\"jsonrpc\":\"2.0\"}\n");
    bench.wait(SECOND / 5);
    assert_eq!(
        bench.told.lines.last().map(String::as_str),
        Some("ended server_exited")
    );
    let [to_server, to_client] = bench.tracker.ledger() else {
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
    let mut bench = exchange();
    bench.record(SERVER, KernelRecord::Exit);
    bench.world.borrow_mut().holders.clear();
    for key in [pipe(1), pipe(2)] {
        bench.hold(key, 201, Access::Both);
        bench.hold(key, CLIENT, Access::Both);
    }
    bench.exec(201, pipe(1), pipe(2));
    bench.wait(SECOND);
    bench.passes(pipe(1), CLIENT, 201, b"{}\n");
    bench.wait(SECOND);
    assert_eq!(bench.told.lines, ["started"]);
    assert_eq!(bench.tracker.sessions(), 1);
}

#[test]
fn splices_are_told_for_the_session_they_concern() {
    let mut bench = exchange();
    let blind = |key| KernelRecord::BlindSpot {
        stream: Some((key, End::Writer)),
        bytes: 10,
        operation: Operation::Splice,
    };
    bench.record(SERVER, blind(pipe(2)));
    bench.record(SERVER, blind(pipe(9)));
    assert_eq!(bench.told.lines, ["started", "blind splice"]);
}

#[test]
fn beginnings_are_kept_within_bounds() {
    let mut bench = Bench::new();
    bench.tracker.settings.beginnings_max = 4096;
    bench.tracker.settings.sniff_budget = 1 << 20;
    for ino in 0..64 {
        bench.exec(1000, pipe(ino * 2 + 1), pipe(ino * 2 + 2));
        bench.passes(pipe(ino * 2 + 1), CLIENT, 1000, &[b'{'; 300]);
        assert!(bench.tracker.beginnings <= 4096);
    }
}

/// A server on the pipes `2 * number` and the next one, that answers its client.
fn serve(bench: &mut Bench, number: u64) {
    let (input, output) = (pipe(2 * number), pipe(2 * number + 1));
    let server = 1000 + number as u32;
    for (key, reader, writer) in [(input, server, CLIENT), (output, CLIENT, server)] {
        bench.hold(key, reader, Access::Read);
        bench.hold(key, writer, Access::Write);
    }
    bench.exec(server, input, output);
    bench.passes(input, CLIENT, server, INITIALIZE);
    bench.passes(output, server, CLIENT, INITIALIZED);
}

#[test]
fn sessions_above_the_limit_are_counted_and_left_alone() {
    let mut bench = Bench::new();
    for number in 1..=4 {
        serve(&mut bench, number);
    }
    assert_eq!((bench.tracker.sessions(), bench.tracker.refused()), (4, 0));
    serve(&mut bench, 5);
    serve(&mut bench, 6);
    assert_eq!((bench.tracker.sessions(), bench.tracker.refused()), (4, 2));
    assert_eq!(bench.told.lines, ["started"; 4]);
    assert_eq!(bench.limit(pipe(10)), [0, 0]);
    assert_eq!(bench.limit(pipe(11)), [0, 0]);

    // One that ends makes room for one.
    bench.record(1001, KernelRecord::Exit);
    let closed = |ino: u64| InodeKey { dev: 15, ino };
    for ino in [2, 3] {
        bench.world.borrow_mut().holders.remove(&closed(ino));
    }
    bench.wait(SECOND);
    bench.wait(SECOND);
    assert_eq!(bench.tracker.sessions(), 3, "{:?}", bench.told.lines);
    serve(&mut bench, 7);
    serve(&mut bench, 8);
    assert_eq!((bench.tracker.sessions(), bench.tracker.refused()), (4, 3));
}

#[test]
fn what_is_written_before_the_peer_is_known_is_kept() {
    let socket = |ino| EndpointKey {
        ino,
        dev: 8,
        kind: EndpointKind::UnixSocket as u32,
    };
    let (server_side, client_side) = (socket(1), socket(2));
    let mut bench = Bench::new();
    bench.moves(CLIENT, client_side, End::Writer, INITIALIZE);
    let report = |fd| EndpointReport {
        key: server_side,
        peer_ino: 2,
        fd,
        fresh: 1,
    };
    bench.record(
        SERVER,
        KernelRecord::Exec {
            input: report(0),
            output: report(1),
        },
    );
    // Recognised by what the client wrote, though the server has not read it yet.
    assert_eq!(bench.limit(server_side)[0], u64::MAX);
    bench.moves(SERVER, server_side, End::Reader, INITIALIZE);
    assert_eq!(bench.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_client_that_wrote_before_it_was_known_is_waited_for() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    assert_eq!(bench.told.lines, [""; 0], "told without its client");
    bench.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    assert_eq!(bench.told.lines, ["started"]);
    assert_eq!(bench.told.client, Some(CLIENT));
    assert_eq!(bench.sent(Direction::ClientToServer), INITIALIZE);
    assert_eq!(bench.sent(Direction::ServerToClient), INITIALIZED);
}

#[test]
fn a_client_that_never_shows_is_not_waited_for_for_long() {
    let mut bench = Bench::new();
    bench.exec(SERVER, pipe(1), pipe(2));
    bench.moves(SERVER, pipe(1), End::Reader, INITIALIZE);
    bench.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    bench.wait(SECOND / 5);
    assert_eq!(bench.told.lines[..2], ["started", "end client_to_server"]);
    assert_eq!(bench.told.client, None);
    assert_eq!(bench.sent(Direction::ClientToServer), INITIALIZE);
}

#[test]
fn a_write_under_way_at_registration_is_counted_once() {
    let length = INITIALIZE.len();
    let mut bench = exchange();
    {
        let mut world = bench.world.borrow_mut();
        let counters = world.counters.entry(pipe(1)).or_default();
        counters.unread = length as u64;
        counters.first_write = length as u64;
        counters.position[End::Writer as usize] += length as u64;
        world.holders.clear();
    }
    bench.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    bench.wait(SECOND);
    let account = &bench.tracker.ledger()[0];
    assert_eq!(account.bytes_written, length as u64);
    assert_eq!((account.bytes_read, account.bytes_lost), (length as u64, 0));
}

#[test]
fn bytes_that_nobody_read_are_not_taken_for_counted_twice() {
    let mut bench = exchange();
    bench.count(CLIENT, pipe(1), End::Writer, 7);
    bench.world.borrow_mut().holders.clear();
    bench.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    bench.wait(SECOND);
    let account = &bench.tracker.ledger()[0];
    assert_eq!(account.bytes_written, INITIALIZE.len() as u64 + 7);
    assert_eq!(account.bytes_lost, 7);
}

#[test]
fn both_ends_are_compared_where_that_is_asked_for() {
    let mut bench = compared();
    assert_eq!(bench.limit(pipe(1)), [u64::MAX; 2]);
    assert_eq!(bench.limit(pipe(2)), [u64::MAX; 2]);
    bench.passes(pipe(1), CLIENT, SERVER, b"{\"a\":1}\n");
    bench.moves(SERVER, pipe(2), End::Writer, b"{\"a\":\"harmless\"}\n");
    bench.moves(CLIENT, pipe(2), End::Reader, b"{\"a\":\"poisoned\"}\n");
    bench.wait(SECOND);
    assert_eq!(
        bench.told.lines,
        [
            "started",
            &format!("differs server_to_client {}+11", INITIALIZED.len() + 6)
        ]
    );
    assert!(
        bench
            .sent(Direction::ServerToClient)
            .ends_with(b"{\"a\":\"poisoned\"}\n")
    );
}

#[test]
fn the_clients_words_count_where_the_server_rewrites_them() {
    let mut bench = compared();
    bench.moves(
        CLIENT,
        pipe(1),
        End::Writer,
        b"{\"path\":\"/etc/shadow\"}\n",
    );
    bench.moves(
        SERVER,
        pipe(1),
        End::Reader,
        b"{\"path\":\"/tmp/unseen\"}\n",
    );
    bench.moves(SERVER, pipe(1), End::Reader, b"");
    bench.wait(SECOND);
    let sent = bench.sent(Direction::ClientToServer);
    assert!(
        sent.ends_with(b"{\"path\":\"/etc/shadow\"}\n"),
        "{}",
        String::from_utf8_lossy(sent)
    );
    assert_eq!(bench.told.lines.len(), 2);
}

#[test]
fn what_only_the_server_was_seen_reading_comes_as_well() {
    let mut bench = compared();
    bench.moves(SERVER, pipe(1), End::Reader, b"{\"b\":2}\n");
    assert!(
        bench
            .sent(Direction::ClientToServer)
            .ends_with(b"{\"b\":2}\n")
    );
    bench.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    assert_eq!(bench.told.lines, ["started", "end client_to_server"]);
}
