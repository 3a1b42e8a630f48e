//! The same inputs lead to the same outputs, however the bytes are cut.

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use proptest::prelude::*;
use serde_json::json;

use super::fixture::{Wire, tool};

/// A conversation with a bit of everything, as bytes of both directions.
fn conversation() -> [Vec<u8>; 2] {
    let mut up = String::new();
    let mut down = String::from("Starting up\n\n");
    for (id, method, result) in [
        (
            0,
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "é😀"}}),
        ),
        (
            1,
            "tools/list",
            json!({"tools": [tool("a", "x"), tool("b", &"long ".repeat(100))]}),
        ),
        (2, "tools/list", json!({"tools": [tool("a", "y")]})),
        (
            3,
            "tools/call",
            json!({"content": [{"type": "text", "text": "done"}]}),
        ),
    ] {
        up += &format!(
            "{}\r\n",
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": "a"}})
        );
        down += &format!(
            "{}\n",
            json!({"result": result, "jsonrpc": "2.0", "id": id})
        );
    }
    down += "[{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}]\n{\"torn\":";
    [up.into_bytes(), down.into_bytes()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn chunks_make_no_difference(cuts in proptest::collection::vec((0_usize..3, 1_usize..60), 0..60)) {
        let run = |pieces: &dyn Fn(&[u8]) -> Vec<usize>| {
            let mut wire = Wire::new();
            for (direction, bytes) in [Up, Down].into_iter().zip(conversation()) {
                let mut rest = &bytes[..];
                for size in pieces(&bytes) {
                    let (piece, after) = rest.split_at(size.min(rest.len()));
                    wire.bytes(direction, piece);
                    rest = after;
                }
                wire.bytes(direction, rest);
            }
            wire.end();
            wire.log.all
        };
        let whole = run(&|_| Vec::new());
        let pieces = run(&|_| cuts.iter().map(|(_, size)| *size).collect());
        prop_assert_eq!(&pieces, &whole);
        let bytewise = run(&|bytes| vec![1; bytes.len()]);
        prop_assert_eq!(&bytewise, &whole);
    }

    #[test]
    fn nothing_panics_and_every_byte_is_counted(
        inputs in proptest::collection::vec((any::<bool>(), 0_u64..3, proptest::collection::vec(any::<u8>(), 0..50)), 0..40),
        midstream in any::<bool>(),
    ) {
        let mut wire = Wire::new();
        wire.start("random", midstream);
        let (mut bytes, mut lost) = (0, 0);
        for (up, gap, piece) in &inputs {
            let direction = if *up { Up } else { Down };
            if *gap > 0 {
                wire.gap(direction, *gap);
                lost += gap;
            }
            wire.bytes(direction, piece);
            bytes += piece.len() as u64;
        }
        wire.end();
        let ended = &wire.log.take("mcp_session_ended")[0];
        prop_assert_eq!(&ended["bytes"], bytes);
        prop_assert_eq!(&ended["bytes_lost"], lost);
    }
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let run = || {
        let mut wire = Wire::new();
        for round in 0..3 {
            wire.start(&format!("s{round}"), false);
            for (direction, bytes) in [Up, Down].into_iter().zip(conversation()) {
                wire.bytes(direction, &bytes);
            }
            wire.list(&[]);
            wire.end();
        }
        wire.log.all
    };
    let first = run();
    assert!(first.len() > 30);
    assert_eq!(first, run());
}
