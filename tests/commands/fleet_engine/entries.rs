//! Collections of journal entries as many hosts send them, some of them forged or damaged.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::START;

/// Numbers that are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// A line of a collection, forged or damaged in some cases.
fn line(n: &mut Numbers) -> String {
    let mut entry = Map::new();
    let mut set = |name: &str, value: String| {
        entry.insert(name.to_owned(), Value::String(value));
    };
    let (host, second) = (n.below(6), n.below(9_000));
    set("_HOSTNAME", format!("host{}", host.min(4)));
    set("_MACHINE_ID", format!("{host:02x}{}", "0".repeat(30)));
    set(
        "__REALTIME_TIMESTAMP",
        (START + second * 1_000_000 + n.below(3)).to_string(),
    );
    set(
        "_UID",
        if n.below(10) == 0 { "1000" } else { "0" }.to_owned(),
    );
    let kind = n.one(&[
        "mcp_tool_seen",
        "mcp_tool_seen",
        "mcp_tool_seen",
        "mcp_tool_changed",
        "mcp_policy",
        "mcp_detection",
        "mcp_capture_gap",
        "mcp_blind_spot",
        "mcp_session_started",
        "mcp_session_identified",
        "mcp_events_dropped",
        "",
        "systemd",
    ]);
    match kind {
        "" => {}
        "systemd" => {
            set("_PID", "1".to_owned());
            set("UNIT", "mcpinspectd.service".to_owned());
            let ids = [
                "39f53479d3a045ac8e11786248231fbf",
                "9d1aaa27d60140bd96365438aad20286",
                "be02cf6855d2428ba40df7e9d022f03d",
            ];
            set("MESSAGE_ID", n.one(&ids).to_owned());
        }
        event => {
            set("MCPINSPECT_EVENT", event.to_owned());
            set(
                "MCPINSPECT_SERVER",
                n.one(&["notes", "note", "ü s", "a\u{1}b\nc'\\"]).to_owned(),
            );
            if n.below(5) > 0 {
                set(
                    "MCPINSPECT_TOOL",
                    n.one(&["", "read", "write", "\u{202e}x"]).to_owned(),
                );
            }
            let hash = n.below(5);
            if hash > 0 {
                set(
                    "MCPINSPECT_HASH",
                    format!("{hash:02x}").repeat(if hash == 4 { 3 } else { 32 }),
                );
            }
            if n.below(2) == 0 {
                set(
                    "MCPINSPECT_PREVIOUS_HASH",
                    format!("{:02x}", n.below(3)).repeat(32),
                );
            }
            set("MCPINSPECT_FINGERPRINT", n.one(&["f1", "f2"]).to_owned());
            set(
                "MCPINSPECT_DECISION",
                n.one(&["approve", "approve", "reject", "revoke"])
                    .to_owned(),
            );
            set(
                "MCPINSPECT_DECIDED_BY",
                n.one(&["person", "list"]).to_owned(),
            );
            set(
                "MCPINSPECT_REASON",
                n.one(&["", "read it", "tab\there"]).to_owned(),
            );
            set("MCPINSPECT_BYTES_LOST", n.below(1_000).to_string());
            set("MCPINSPECT_DROPPED", n.below(50).to_string());
            if matches!(
                event,
                "mcp_detection" | "mcp_capture_gap" | "mcp_tool_changed"
            ) {
                set(
                    "MCPINSPECT_SEVERITY",
                    n.one(&["low", "medium", "high", "critical"]).to_owned(),
                );
                set(
                    "MCPINSPECT_CATEGORY",
                    n.one(&["exfiltration", "secret_exposure"]).to_owned(),
                );
            }
            let text = json!({
                "description": format!("as of {}", n.below(7)),
                "changes": [{"field": n.one(&["title", "description"])}],
                "server_info": {"version": n.one(&["1.0", "2.0"])},
            });
            set("MCPINSPECT_JSON", text.to_string());
        }
    }
    let line = Value::Object(entry).to_string();
    match n.below(25) {
        0 => line.get(..line.len() / 3).unwrap_or("{").to_owned(),
        1 => "{}".to_owned(),
        _ => line,
    }
}

pub fn collection(path: &Path, seed: u64, lines: u64) {
    let mut n = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut text = String::new();
    for _ in 0..lines {
        text.push_str(&line(&mut n));
        text.push('\n');
    }
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
