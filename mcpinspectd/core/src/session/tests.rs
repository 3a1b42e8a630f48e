#![expect(clippy::panic, reason = "a failed assumption fails the test")]
use super::*;
use crate::mcp::{Payload, parse};

use Direction::{ClientToServer as Up, ServerToClient as Down};

/// Feeds one message and hands what it meant to `check`.
fn tell<'a, T>(
    session: &mut Session,
    direction: Direction,
    time: u64,
    text: &'a str,
    check: impl FnOnce(Observed<'a>) -> T,
) -> T {
    let Ok(Payload::Single(parsed)) = parse(text.as_bytes()) else {
        panic!("{text}")
    };
    check(session.observe(direction, &parsed.message, Timestamp(time)))
}

fn session() -> Session {
    Session::new(100, false)
}

#[test]
fn answers_carry_what_was_asked() {
    let mut session = session();
    tell(
        &mut session,
        Up,
        10,
        r#"{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"t"}}"#,
        |observed| {
            assert_eq!(observed.exchange.tool.as_deref(), Some("t"));
        },
    );
    tell(
        &mut session,
        Down,
        25,
        r#"{"jsonrpc":"2.0","result":{"content":[],"isError":true},"id":0}"#,
        |observed| {
            assert_eq!(observed.exchange.tool.as_deref(), Some("t"));
            assert_eq!(observed.exchange.reply_to(), Some("tools/call"));
            assert_eq!(observed.exchange.latency_ns, Some(15));
            assert!(observed.exchange.is_error);
        },
    );
    tell(
        &mut session,
        Down,
        26,
        r#"{"jsonrpc":"2.0","result":{},"id":0}"#,
        |observed| {
            assert!(observed.exchange.answers.is_none() && observed.exchange.latency_ns.is_none());
        },
    );
}

#[test]
fn both_sides_may_use_the_same_id() {
    let mut session = session();
    tell(
        &mut session,
        Up,
        1,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        drop,
    );
    tell(
        &mut session,
        Down,
        2,
        r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
        drop,
    );
    tell(
        &mut session,
        Up,
        3,
        r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#,
        |observed| {
            assert_eq!(observed.exchange.reply_to(), Some("roots/list"));
        },
    );
    tell(
        &mut session,
        Down,
        4,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
        |observed| {
            assert_eq!(observed.exchange.reply_to(), Some("tools/call"));
            assert!(observed.exchange.is_error);
        },
    );
    assert_eq!(session.unanswered(), 0);
}

#[test]
fn an_answer_is_never_too_late() {
    let mut session = session();
    let day = 86_400_000_000_000;
    tell(
        &mut session,
        Up,
        0,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#,
        drop,
    );
    tell(
        &mut session,
        Up,
        1,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}"#,
        drop,
    );
    assert_eq!(session.unanswered(), 0);
    tell(
        &mut session,
        Down,
        day,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        |observed| {
            assert_eq!(observed.exchange.latency_ns, Some(day));
            assert_eq!(observed.exchange.correlation, Some(Correlation::Cancelled));
        },
    );
}

#[test]
fn initialize_identifies_once() {
    let mut session = session();
    tell(
        &mut session,
        Up,
        0,
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c"}}}"#,
        |observed| {
            assert!(!observed.identified);
        },
    );
    let result = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s"},"instructions":"i"}}"#;
    tell(&mut session, Down, 1, result, |observed| {
        assert!(observed.identified);
        assert_eq!(
            observed.result.unwrap().instructions.unwrap().get(),
            "\"i\""
        );
    });
    let identity = session.identity();
    assert_eq!(identity.protocol_version.as_deref(), Some("2025-06-18"));
    assert_eq!(identity.client_info.as_ref().unwrap()["name"], "c");
    assert_eq!(identity.server_info.as_ref().unwrap()["name"], "s");
    // There was no further request.
    tell(&mut session, Down, 2, result, |observed| {
        assert!(!observed.identified && observed.result.is_none())
    });
    tell(
        &mut session,
        Up,
        3,
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
        drop,
    );
    tell(
        &mut session,
        Down,
        4,
        r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
        |observed| assert!(!observed.identified),
    );
}

const STATELESS: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"}}"#;

#[test]
fn stateless_parties_identify_with_the_first_exchange() {
    let mut session = session();
    tell(
        &mut session,
        Up,
        0,
        &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{STATELESS}}}}}"#),
        drop,
    );
    tell(
        &mut session,
        Down,
        1,
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}"#,
        |observed| {
            assert!(observed.identified);
            assert_eq!(observed.page, Some(Page::First));
        },
    );
    let identity = session.identity();
    assert!(identity.stateless);
    assert_eq!(identity.protocol_version.as_deref(), Some("2026-07-28"));
    assert_eq!(identity.server_info.as_ref().unwrap()["name"], "s");
}

#[test]
fn a_client_of_both_eras_falls_back() {
    let mut session = session();
    tell(
        &mut session,
        Up,
        0,
        &format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{{{STATELESS}}}}}"#
        ),
        drop,
    );
    tell(
        &mut session,
        Down,
        1,
        r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}"#,
        |observed| assert!(!observed.identified),
    );
    tell(
        &mut session,
        Up,
        2,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        drop,
    );
    tell(
        &mut session,
        Down,
        3,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s"}}}"#,
        |observed| assert!(observed.identified),
    );
    assert!(!session.identity().stateless);
    assert_eq!(
        session.identity().protocol_version.as_deref(),
        Some("2025-11-25")
    );
}

#[test]
fn retries_with_input_are_one_chain() {
    let mut session = session();
    for (id, retries) in [(1, 0), (2, 1), (3, 2)] {
        let state = if retries == 0 {
            String::new()
        } else {
            format!(r#","requestState":"s{retries}""#)
        };
        tell(
            &mut session,
            Up,
            0,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"{state}}}}}"#
            ),
            drop,
        );
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"s{}"}}}}"#,
            retries + 1
        );
        tell(&mut session, Down, 0, &result, |observed| {
            assert_eq!(observed.exchange.call.is_some(), retries > 0)
        });
    }
}

#[test]
fn pages_are_told_by_their_request() {
    let mut session = session();
    tell(
        &mut session,
        Up,
        0,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c2"}}"#,
        drop,
    );
    tell(
        &mut session,
        Down,
        0,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#,
        |observed| {
            assert_eq!(observed.page, Some(Page::at("c2")));
        },
    );
    // A tool's result that happens to have such a member is not a list.
    tell(
        &mut session,
        Up,
        0,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#,
        drop,
    );
    tell(
        &mut session,
        Down,
        0,
        r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#,
        |observed| assert_eq!(observed.page, None),
    );
}

#[test]
fn lists_without_a_request_count_only_where_requests_may_be_missing() {
    let list = r#"{"jsonrpc":"2.0","id":9,"result":{"tools":[]}}"#;
    let mut whole = session();
    tell(&mut whole, Down, 0, list, |observed| {
        assert_eq!(observed.page, None)
    });
    whole.gap();
    tell(&mut whole, Down, 0, list, |observed| {
        assert_eq!(observed.page, Some(Page::Unknown))
    });
    tell(&mut Session::new(10, true), Down, 0, list, |observed| {
        assert_eq!(observed.page, Some(Page::Unknown))
    });
}

#[test]
fn ten_thousand_requests_under_way_are_answered_in_any_order() {
    let mut session = Session::new(DEFAULT_MAX_IN_FLIGHT, false);
    for id in 0..10_000 {
        tell(
            &mut session,
            Up,
            id,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#
            ),
            drop,
        );
    }
    assert_eq!(session.in_flight(), 10_000);
    for id in (0..10_000).rev() {
        tell(
            &mut session,
            Down,
            10_000,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
            |observed| {
                assert_eq!(observed.exchange.latency_ns, Some(10_000 - id));
            },
        );
    }
    assert_eq!(session.unanswered(), 0);
}
