//! Room that users share: sessions, streams, and how users who take too much are reported.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{Direction, InodeKey, Segment};
use mcpinspect_process::fds::Access;

use super::fixture::{Fixture, SETTINGS, USER};
use super::{CLIENT, INITIALIZE, INITIALIZED, SECOND, pipe};
use crate::capture::KernelRecord;
use crate::discover::Settings;

const OTHER: u32 = 2000;

/// A user's server on the pipes `2 * number` and the next one, which answers its client.
fn serve(fixture: &mut Fixture, user: u32, number: u64) {
    let (input, output) = (pipe(2 * number), pipe(2 * number + 1));
    let server = 1000 + number as u32;
    for (key, reader, writer) in [(input, server, CLIENT), (output, CLIENT, server)] {
        fixture.hold(key, reader, Access::Read);
        fixture.hold(key, writer, Access::Write);
    }
    fixture.exec_as(user, server, input, output);
    fixture.passes(input, CLIENT, server, INITIALIZE);
    fixture.passes(output, server, CLIENT, INITIALIZED);
}

/// Ends the server with this number.
fn end(fixture: &mut Fixture, number: u64) {
    fixture.record(1000 + number as u32, KernelRecord::Exit);
    for ino in [2 * number, 2 * number + 1] {
        let inode = InodeKey { dev: 15, ino };
        fixture.world.borrow_mut().holders.remove(&inode);
    }
    fixture.wait(SECOND);
    fixture.wait(SECOND);
}

#[test]
fn a_session_above_the_limit_is_told_and_followed_when_there_is_room() {
    let mut fixture = Fixture::new();
    for number in 1..=6 {
        serve(&mut fixture, USER, number);
    }
    fixture.wait(SECOND / 10);
    assert_eq!(
        (fixture.tracker.sessions(), fixture.tracker.refused()),
        (4, 2)
    );
    assert_eq!(
        fixture.collected.lines[4..],
        ["blind session_budget of 1000"],
        "once"
    );
    assert_eq!(fixture.limit(pipe(10)), [0, 0]);
    assert_eq!(fixture.limit(pipe(11)), [0, 0]);

    fixture.collected = super::fixture::Collected::default();
    end(&mut fixture, 1);
    assert_eq!(fixture.tracker.sessions(), 4, "the first that was refused");
    assert_eq!(fixture.limit(pipe(10))[0], u64::MAX);
    fixture.passes(pipe(10), CLIENT, 1005, b"{\"id\":7}\n");
    fixture.wait(SECOND);
    let gaps = [
        format!("gap client_to_server 0+{}", INITIALIZE.len()),
        format!("gap server_to_client 0+{}", INITIALIZED.len()),
    ];
    for gap in gaps {
        assert!(
            fixture.collected.lines.contains(&gap),
            "{:?}",
            fixture.collected.lines
        );
    }
    assert_eq!(fixture.sent(Direction::ClientToServer), b"{\"id\":7}\n");
}

#[test]
fn a_user_with_many_sessions_makes_way_for_another() {
    let mut fixture = Fixture::new();
    for number in 1..=4 {
        serve(&mut fixture, USER, number);
        fixture.wait(SECOND / 10);
    }
    fixture.passes(pipe(2), CLIENT, 1001, b"{}\n");
    fixture.collected = super::fixture::Collected::default();
    serve(&mut fixture, OTHER, 5);
    fixture.wait(SECOND / 10);
    assert_eq!(
        fixture.collected.lines,
        [
            "blind session_budget of 1000",
            "ended session_budget",
            "started"
        ]
    );
    assert_eq!(
        fixture.sent(Direction::ClientToServer),
        INITIALIZE,
        "complete"
    );
    assert_eq!(fixture.sent(Direction::ServerToClient), INITIALIZED);
    assert_eq!(fixture.limit(pipe(4)), [0, 0], "the quietest");
    assert_eq!(fixture.limit(pipe(2)), [u64::MAX, 0], "not the first");

    // What made way is followed again, with a gap, once there is room.
    fixture.passes(pipe(4), CLIENT, 1002, b"unseen");
    end(&mut fixture, 3);
    assert_eq!(fixture.limit(pipe(4))[0], u64::MAX);
    assert_eq!(fixture.tracker.sessions(), 4);
}

#[test]
fn one_users_streams_do_not_take_the_room_of_anothers() {
    let mut fixture = Fixture::with(Settings {
        max_streams: 40,
        max_streams_per_user: 20,
        ..SETTINGS
    });
    serve(&mut fixture, OTHER, 1);
    for number in 10..60 {
        fixture.exec(1000, pipe(2 * number), pipe(2 * number + 1));
    }
    serve(&mut fixture, OTHER, 2);
    serve(&mut fixture, USER, 3);
    assert_eq!(
        fixture.collected.lines,
        [
            "started",
            "blind endpoint_budget of 1000",
            "started",
            "started"
        ]
    );
    assert_eq!(fixture.limit(pipe(2)), [u64::MAX, 0]);
    let known = |ino| fixture.world.borrow().forgotten.contains(&pipe(ino));
    assert!(known(20) && known(21), "the oldest are given up");
    assert!(!known(118) && !known(2) && !known(4));
}

/// What arrives at an end after `missing` bytes that have not arrived yet.
fn arrives_after(
    fixture: &mut Fixture,
    pid: u32,
    key: EndpointKey,
    end: End,
    missing: usize,
    bytes: &[u8],
) {
    fixture.count(pid, key, end, missing);
    fixture.moves(pid, key, end, bytes);
}

#[test]
fn who_has_most_waiting_in_sessions_lets_go() {
    const MOST: usize = 256 << 10;
    let mut fixture = Fixture::with(Settings {
        max_backlog: MOST,
        compare_ends: true,
        ..SETTINGS
    });
    for (user, number) in [(USER, 1), (USER, 2), (OTHER, 3)] {
        serve(&mut fixture, user, number);
    }
    fixture.wait(SECOND);
    fixture.collected = super::fixture::Collected::default();
    // Another user's answer of which the beginning is still on its way.
    let (answer, late) = (b"{\"id\":9}\n", 4);
    let position = fixture.count(CLIENT, pipe(7), End::Reader, late);
    fixture.moves(CLIENT, pipe(7), End::Reader, &answer[late..]);
    let piece = vec![b' '; 10_000];
    for _ in 0..40 {
        // Read, but not seen to be written; read after something else; and held back by that.
        arrives_after(&mut fixture, CLIENT, pipe(3), End::Reader, 0, &piece);
        arrives_after(&mut fixture, 1002, pipe(4), End::Reader, 1, &piece);
        arrives_after(&mut fixture, CLIENT, pipe(5), End::Reader, 0, &piece);
        assert!(
            fixture.tracker.backlog() <= MOST,
            "{}",
            fixture.tracker.backlog()
        );
    }
    let told = format!("blind session_budget of {USER}");
    let lines = &fixture.collected.lines;
    assert_eq!(
        lines.iter().filter(|line| **line == told).count(),
        1,
        "{lines:?}"
    );
    let blind = |line: &&String| line.starts_with("blind");
    assert_eq!(lines.iter().filter(blind).count(), 1, "{lines:?}");
    let gap = |line: &&String| line.starts_with("gap client_to_server");
    assert!(lines.iter().any(|line| gap(&line)), "{lines:?}");
    assert!(
        !lines
            .iter()
            .any(|line| line.starts_with("gap server_to_client"))
    );
    let sent = fixture.sent(Direction::ServerToClient).len();
    fixture.record(
        CLIENT,
        KernelRecord::Segment {
            key: pipe(7),
            end: End::Reader,
            segment: Segment::new(position, &answer[..late]),
        },
    );
    assert!(fixture.sent(Direction::ServerToClient)[sent..].ends_with(answer));
    fixture.wait(SECOND);
    fixture.wait(SECOND);
    assert!(
        fixture.tracker.backlog() < 4096,
        "{}",
        fixture.tracker.backlog()
    );
}

/// A program of a user who holds its streams, with a command line of this many bytes.
fn hold(fixture: &mut Fixture, pid: u32, length: usize) {
    let number = u64::from(pid);
    let line = format!("{pid} {}", "x".repeat(length));
    let streams = [pipe(2 * number), pipe(2 * number + 1)];
    fixture.exec_line(&line, &[(pid, "true"), (9, "holder")], streams);
}

#[test]
fn long_command_lines_have_a_share_per_user() {
    let mut fixture = Fixture::with(Settings {
        max_programs_per_user: 256 << 10,
        ..SETTINGS
    });
    serve(&mut fixture, OTHER, 1);
    for number in 1000..1060 {
        hold(&mut fixture, number, 1000);
    }
    assert_eq!(fixture.collected.lines, ["started"], "all fit");
    for number in 1060..1080 {
        hold(&mut fixture, number, 15_000);
    }
    serve(&mut fixture, OTHER, 2);
    assert_eq!(
        fixture.collected.lines,
        ["started", "blind endpoint_budget of 1000", "started"]
    );
    let is_forgotten = |ino| fixture.world.borrow().forgotten.contains(&pipe(ino));
    assert!(is_forgotten(2000) && is_forgotten(2001), "the oldest go");
    assert!(!is_forgotten(2158) && !is_forgotten(2) && !is_forgotten(4));
}

#[test]
fn a_server_whose_command_line_has_no_room_is_followed_all_the_same() {
    let mut fixture = Fixture::with(Settings {
        max_programs_per_user: 0,
        ..SETTINGS
    });
    serve(&mut fixture, USER, 1);
    hold(&mut fixture, 1000, 1000);
    serve(&mut fixture, USER, 2);
    let started = |line: &&String| *line == "started";
    assert_eq!(fixture.collected.lines.iter().filter(started).count(), 2);
}

#[test]
fn a_socket_that_nothing_is_read_at_is_forgotten_with_its_peer() {
    use mcpinspect_common::{EndpointKey, EndpointKind, EndpointReport};
    let socket = |ino| EndpointKey {
        ino,
        dev: 8,
        kind: EndpointKind::UnixSocket as u32,
    };
    let mut fixture = Fixture::new();
    // A service whose standard output goes to the journal.
    let output = EndpointReport {
        key: socket(1),
        peer_ino: 2,
        fd: 1,
        fresh: 1,
    };
    let record = KernelRecord::Exec {
        input: EndpointReport::default(),
        output,
        uid: USER,
        executed: None,
    };
    fixture.record(1001, record);
    for _ in 0..4 {
        fixture.wait(3 * SECOND);
    }
    let forgotten = &fixture.world.borrow().forgotten;
    assert!(forgotten.contains(&socket(1)) && forgotten.contains(&socket(2)));
}
