//! Any collection, read in any order, in pieces and in next to no memory, yields the same answers as the
//! simplest program.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::collect::Options;
use super::model::{Answers, answers};
use super::{FullReport, read_with, trusted};

/// An entry of a made-up collection.
fn entry() -> impl Strategy<Value = Map<String, Value>> {
    let place = (0_u8..5, 0_u64..4_000, 0_u8..8);
    let what = (0_usize..3, 0_usize..3, 0_u8..4, prop::bool::weighted(0.9));
    (place, what).prop_map(|((host, second, kind), (server, tool, hash, by_root))| {
        let mut entry = Map::new();
        trusted(&mut entry, host, second);
        let mut set = |name: &str, value: String| entry.insert(name.to_owned(), json!(value));
        set("_UID", if by_root { "0" } else { "1000" }.to_owned());
        set("MESSAGE", "x=y\"\\ü".to_owned());
        let event = match kind {
            0..=2 => "mcp_tool_seen",
            3 => "mcp_tool_changed",
            4 => "mcp_policy",
            5 => "mcp_detection",
            6 => "mcp_capture_gap",
            _ => return entry,
        };
        set("MCPINSPECT_EVENT", event.to_owned());
        set(
            "MCPINSPECT_SERVER",
            ["notes", "note", "ü s"][server].to_owned(),
        );
        set("MCPINSPECT_TOOL", ["", "read", "write"][tool].to_owned());
        if hash > 0 {
            set("MCPINSPECT_HASH", format!("{hash:02x}").repeat(32));
        }
        match kind {
            0 => {
                let text = json!({ "description": format!("as of {}", second % 7) });
                set("MCPINSPECT_JSON", text.to_string());
            }
            4 => {
                let decision = ["approve", "reject", "unpin"][tool];
                set("MCPINSPECT_DECISION", decision.to_owned());
            }
            5 => {
                set(
                    "MCPINSPECT_SEVERITY",
                    ["low", "high", "critical"][tool].to_owned(),
                );
            }
            6 => {
                set("MCPINSPECT_BYTES_LOST", second.to_string());
            }
            _ => {}
        }
        entry
    })
}

/// Lines, some of which are damaged.
fn collection() -> impl Strategy<Value = Vec<String>> {
    let line = (entry(), 0_u8..20).prop_map(|(entry, damage)| {
        let line = Value::Object(entry).to_string();
        match damage {
            0 => line.get(..line.len() / 3).unwrap_or("{").to_owned(),
            1 => "{}".to_owned(),
            _ => line,
        }
    });
    prop::collection::vec(line, 1..120)
}

fn as_export(lines: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        let Ok(Value::Object(entry)) = serde_json::from_str(line) else {
            out.extend_from_slice(b"_MACHINE_ID=damaged\n\n");
            continue;
        };
        for (index, (name, value)) in entry.iter().enumerate() {
            let value = value.as_str().unwrap();
            if index % 3 == 1 {
                out.extend_from_slice(format!("{name}\n").as_bytes());
                out.extend_from_slice(&(value.len() as u64).to_le_bytes());
                out.extend_from_slice(value.as_bytes());
            } else {
                out.extend_from_slice(format!("{name}={value}").as_bytes());
            }
            out.push(b'\n');
        }
        if entry.is_empty() {
            out.extend_from_slice(b"_MACHINE_ID=damaged\n");
        }
        out.push(b'\n');
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_answers_are_those_of_the_simplest_program(
        lines in collection(), cut in 0_usize..120, memory in 1_usize..20_000, threads in 1_usize..4
    ) {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let (one, other) = lines.split_at(cut.min(lines.len()));
        std::fs::write(file("one"), one.join("\n")).unwrap();
        let packed = zstd::encode_all(&*as_export(other), 1).unwrap();
        std::fs::write(file("other"), packed).unwrap();
        let mut reversed = lines.clone();
        reversed.reverse();
        std::fs::write(file("reversed"), reversed.join("\n")).unwrap();
        let expected = answers(&lines);
        let options = Options {
            memory,
            threads,
            temporary: directory.path().to_owned(),
            ..Options::default()
        };
        let full_report = |paths: &[&Path], state: Option<&Path>| {
            FullReport::of(&read_with(paths, state, &options).unwrap())
        };
        let pieces = full_report(&[&file("one"), &file("other")], None);
        prop_assert_eq!(&Answers::from(&pieces), &expected);
        let reversed = full_report(&[&file("reversed")], None);
        prop_assert_eq!(&reversed, &pieces);
        // The same over several runs, one of which finds nothing new.
        let state = file("state");
        full_report(&[&file("one")], Some(&state));
        full_report(&[&file("one")], Some(&state));
        let resumed = full_report(&[&file("one"), &file("other")], Some(&state));
        // An unfinished last line may still be written to, so it is not counted yet.
        let mut counted = resumed.clone();
        counted.summary.left_out.unreadable = pieces.summary.left_out.unreadable;
        prop_assert_eq!(&counted, &pieces);
        prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4);
    }
}
