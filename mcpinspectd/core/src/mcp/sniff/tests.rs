use super::*;

const CLIENT: Evidence = Evidence::Mcp {
    role: Some(Direction::ClientToServer),
};
const SERVER: Evidence = Evidence::Mcp {
    role: Some(Direction::ServerToClient),
};
const EITHER: Evidence = Evidence::Mcp { role: None };
const LIKELY: Evidence = Evidence::Undecided {
    json_rpc_like: true,
};
const UNKNOWN: Evidence = Evidence::Undecided {
    json_rpc_like: false,
};

fn not_mcp(reason: NotMcpReason) -> Evidence {
    Evidence::NotMcp { reason }
}

#[track_caller]
fn says(expected: Evidence, texts: &[&str]) {
    for text in texts {
        assert_eq!(evidence(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn what_only_clients_send() {
    says(
        CLIENT,
        &[
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
            r#"{"method":"initialize","params":{"clientInfo":{},"protocolVersion":"2024-11-05"},"jsonrpc":"2.0","id":"a"}"#,
            "\n \r\n\t{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
            "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"id\":1}\r\n",
            // A Python client that was joined midway, after a `ping`.
            "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"id\":2}",
            // No `jsonrpc`, and nothing foreign.
            r#"{"id":1,"method":"tools/list","params":{}}"#,
            // Spelled with escapes.
            r#"{"jsonrpc":"\u0032.0","\u006dethod":"tools\/call","id":1}"#,
            r#"[{"jsonrpc":"2.0","method":"x","id":1},{"jsonrpc":"2.0","method":"tools/list","id":2}]"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"role":"assistant","content":{"type":"text","text":""},"model":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"model":"m","role":"assistant","content":[{"type":"text","text":""}]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{}}}"#,
        ],
    );
}

#[test]
fn what_only_servers_send() {
    says(
        SERVER,
        &[
            r#"{"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}},"jsonrpc":"2.0","id":0}"#,
            "Server running on stdio\n\n{\"result\":{\"tools\":[]},\"jsonrpc\":\"2.0\",\"id\":1}\n",
            r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"x"}]}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"]}}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}"#,
            r#"{"method":"notifications/message","params":{"level":"info","data":"x"},"jsonrpc":"2.0"}"#,
            // A stray log line before it does not hide the protocol.
            "{\"level\":\"info\",\"msg\":\"starting\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}",
        ],
    );
}

#[test]
fn mcp_of_either_side() {
    says(
        EITHER,
        &[
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
            r#"{"jsonrpc":"2.0","method":"tasks/get","id":1,"params":{"taskId":"t"}}"#,
            r#"{"jsonrpc":"2.0","method":"acme/anything","id":1,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        ],
    );
    // A later line, if there is one, tells the side.
    says(
        SERVER,
        &[
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n",
        ],
    );
}

#[test]
fn unfinished_lines_tell_as_soon_as_they_can() {
    says(
        CLIENT,
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"data":"AAAA"#,
            r#"{"method":"tools/call","params":{"name":"x","arguments":{"data":"AAAA"#,
            r#"[{"jsonrpc":"2.0","method":"tools/call","params":{"a"#,
        ],
    );
    says(
        SERVER,
        &[
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":"AAAA"#,
            r#"{"result":{"tools":[{"name":"x","description":"AAAA"#,
        ],
    );
    says(
        LIKELY,
        &[
            r#"{"jsonrpc":"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/ca"#,
            r#"{"id":17,"params":{"x":"AAAA"#,
            r#"{"result":{"structuredContent":{"x":"AAAA"#,
            r#"[{"jsonrpc":"2.0","#,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{"#,
        ],
    );
    says(
        UNKNOWN,
        &[
            "",
            "\n\n",
            " ",
            "{",
            "{\"",
            "{\"json",
            "[",
            "[{",
            "{\"id\":3,\"name\":\"AAA",
        ],
    );
}

#[test]
fn json_rpc_that_is_not_known_to_be_mcp() {
    says(
        LIKELY,
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
            r#"{"level":"info","method":"tools/list","msg":"a log line about MCP"}"#,
        ],
    );
}

#[test]
fn a_message_with_a_fault_is_no_reason_to_look_away() {
    says(
        LIKELY,
        &[
            "{\"a\":1}\n{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"id\":1,,",
            "{\"a\":1}\n{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"id\":1\n",
            "{\"a\":1}\n[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},x",
        ],
    );
}

#[test]
fn a_careless_introduction_proves_nothing() {
    says(
        Evidence::Undecided {
            json_rpc_like: true,
        },
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
        ],
    );
}

#[test]
fn other_protocols() {
    says(
        not_mcp(NotMcpReason::HeaderFraming),
        &[
            "Content-Length: 120\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"",
            "\r\ncontent-type: application/vscode-jsonrpc; charset=utf-8\r\n",
        ],
    );
    says(
        not_mcp(NotMcpReason::OtherInitialize),
        &[
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1,"rootUri":null,"capabilities":{}}}"#,
            r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"x"}}}"#,
        ],
    );
    says(
        not_mcp(NotMcpReason::JsonLines),
        &[
            "{\"level\":\"info\",\"msg\":\"x\"}\n",
            "{\"a\":1}\n{\"b\":[2]}\n",
            "{}\n",
            "banner\n{\"id\":1}\n",
        ],
    );
}

#[test]
fn plain_text_stays_undecided() {
    says(
        UNKNOWN,
        &[
            "Secure MCP Filesystem Server running on stdio\n",
            "[INFO] starting\n[WARN] slow\n",
            "{ this is no JSON }\n",
            "{\"jsonrpc\":\"2.0\"\n",
            "123\n\"text\"\ntrue\n",
            "[{\"a\":1},{\"a\":2}]\n",
            "Content-Length",
        ],
    );
    assert_eq!(
        evidence(&[0, 159, 146, 150, b'\n', 0xff, b'{', 0xfe]),
        UNKNOWN
    );
}

#[test]
fn no_cut_of_a_handshake_is_taken_for_something_else() {
    let handshake = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\"}}}\n";
    for cut in 0..=handshake.len() {
        let said = evidence(&handshake.as_bytes()[..cut]);
        assert!(
            matches!(said, CLIENT | LIKELY | UNKNOWN),
            "cut at {cut}: {said:?}"
        );
    }
    assert_eq!(evidence(handshake.as_bytes()), CLIENT);
}
