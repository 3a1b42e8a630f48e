//! Losses: nothing panics, nothing is closed up, nothing goes to the wrong exchange.

use proptest::prelude::*;

use super::conversation::*;
use super::two::{h2_session, plain};
use super::*;

/// Runs a connection with `lost` missing in one direction.
fn run_without(
    mut connection: Connection,
    turns: &[(Direction, Vec<u8>)],
    way: Direction,
    lost: std::ops::Range<usize>,
    is_known: bool,
) -> Vec<String> {
    let mut log = Log::default();
    let mut positions = [0_usize; 2];
    let mut missing = 0;
    for (direction, bytes) in turns {
        let index = usize::from(*direction == ServerToClient);
        let start = positions[index];
        positions[index] += bytes.len();
        let skip = if *direction == way {
            lost.clone()
        } else {
            0..0
        };
        let before = skip.start.clamp(start, positions[index]) - start;
        let after = skip.end.clamp(start, positions[index]) - start;
        // With gaps of unknown size, positions count only what was seen.
        let shift = if is_known { 0 } else { missing };
        let mut push = |at: usize, bytes: &[u8]| {
            if !bytes.is_empty() {
                let shift = if *direction == way { shift } else { 0 };
                connection.push(*direction, (at - shift) as u64, bytes, &mut |event| {
                    log.take(&event)
                });
            }
        };
        push(start, &bytes[..before]);
        if after > before {
            if !is_known {
                connection.gap(*direction, None, &mut |event| log.take(&event));
            }
            missing += after - before;
            let shift = if is_known { 0 } else { missing };
            connection.push(
                *direction,
                (start + after - shift) as u64,
                &bytes[after..],
                &mut |event| {
                    log.take(&event);
                },
            );
        } else {
            push(start + before, &bytes[before..]);
        }
    }
    connection.finish(&mut |event| log.take(&event));
    log.lines
}

/// Every line that carries a message, without its position.
fn messages(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().filter(|line| line.contains("\"jsonrpc\""));
    let word = |line: &String| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.remove(2);
        words.join(" ")
    };
    lines.map(word).collect()
}

/// Requests and responses that share a number share one in `whole` too.
fn is_paired_as_in(lines: &[String], whole: &[String]) {
    let split = |line: &String| {
        let (number, rest) = line.split_once(' ').unwrap_or_default();
        (number.to_owned(), rest.to_owned())
    };
    let number_of = |rest: &str| {
        let mut all = whole.iter().map(split);
        all.find(|(_, said)| said == rest).map(|(number, _)| number)
    };
    for (number, rest) in lines.iter().map(split).filter(|(number, _)| number != "?") {
        for (other, request) in lines.iter().map(split) {
            if other == number {
                assert_eq!(number_of(&rest), number_of(&request), "{lines:#?}");
            }
        }
    }
}

#[test]
fn a_hole_costs_its_message_alone() {
    let turns = session();
    // Within the first request's body.
    let lines = run_without(
        Connection::new(Limits::default()),
        &turns,
        ClientToServer,
        200..210,
        true,
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("1 > ") && line.ends_with("Some(10) gap")),
        "{lines:#?}"
    );
    let whole = messages(&run(&turns, usize::MAX));
    assert_eq!(messages(&lines), whole[1..]);
}

#[test]
fn a_lost_head_costs_the_attribution() {
    let turns = session();
    let first = turns[0].1.len();
    // All of the second request: the third is read, and no answer is attributed.
    let second = turns[2].1.len();
    let connection = Connection::new(Limits::default());
    let lines = run_without(
        connection,
        &turns,
        ClientToServer,
        first..first + second,
        true,
    );
    let seen = messages(&lines);
    assert!(seen.contains(&format!("2 > {LIST}")), "{lines:#?}");
    assert!(seen.contains(&format!("? < id=2 {TOOLS}")), "{lines:#?}");
}

#[test]
fn a_torn_body_is_not_taken_for_a_head() {
    let forged = format!(
        "x\r\n\r\n{}",
        String::from_utf8_lossy(&post("Mcp-Session-Id: s\r\n", LIST).1)
    );
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"text":"{forged}"}}}}"#
    );
    let turns = [post("", &body), json("", TOOLS)];
    let at = turns[0]
        .1
        .windows(4)
        .position(|bytes| bytes == b"text")
        .unwrap_or(0);
    for end in at..at + 40 {
        let lines = run_without(
            Connection::new(Limits::default()),
            &turns,
            ClientToServer,
            at..end,
            true,
        );
        assert!(!lines.iter().any(|line| line.ends_with(LIST)), "{lines:#?}");
    }
}

proptest! {
    #[test]
    fn what_comes_out_was_said(
        from in 0_usize..1700,
        length in 1_usize..400,
        is_up in any::<bool>(),
        is_known in any::<bool>(),
        is_two in any::<bool>(),
    ) {
        let turns = if is_two { h2_session() } else { session() };
        let way = if is_up { ClientToServer } else { ServerToClient };
        let whole = messages(&run(&turns, usize::MAX));
        let lines = run_without(Connection::new(Limits::default()), &turns, way, from..from + length, is_known);
        if is_two {
            is_paired_as_in(&messages(&lines), &whole);
        }
        for message in messages(&lines) {
            let rest = message.split_once(' ').map_or("", |(_, rest)| rest);
            let is_true = whole.contains(&message) || whole.iter().any(|said| {
                message.starts_with('?') && said.ends_with(rest)
            });
            // After a lost request, the ones that follow have lower numbers; their text is the same.
            let is_renumbered = whole.iter().any(|said| said.ends_with(rest)) && (is_two || message.contains(" > "));
            prop_assert!(is_true || is_renumbered, "{} {:#?}", message, lines);
        }
    }

    #[test]
    fn a_connection_joined_midway_says_only_what_was_said(from in 0_usize..1700, other in 0_usize..900, is_two in any::<bool>()) {
        let turns = if is_two { plain() } else { session() };
        let all = if is_two { h2_session() } else { session() };
        let whole = messages(&run(&all, usize::MAX));
        let mut connection = Connection::joined(Limits::default());
        let mut log = Log::default();
        let mut positions = [0_usize; 2];
        for (direction, bytes) in &turns {
            let (index, skip) = match direction {
                ClientToServer => (0, from),
                ServerToClient => (1, other),
            };
            let start = positions[index];
            positions[index] += bytes.len();
            let skipped = skip.clamp(start, positions[index]) - start;
            if skipped < bytes.len() {
                let at = (start + skipped) as u64;
                connection.push(*direction, at, &bytes[skipped..], &mut |event| log.take(&event));
            }
        }
        connection.finish(&mut |event| log.take(&event));
        for message in messages(&log.lines) {
            let rest = message.split_once(' ').map_or("", |(_, rest)| rest);
            prop_assert!(whole.iter().any(|said| said.ends_with(rest)), "{}", message);
        }
    }
}
