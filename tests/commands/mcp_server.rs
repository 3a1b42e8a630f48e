//! `mcpinspect mcp`, asked by a client on the real Python SDK and examined by our own detection.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::built;
use crate::support::recorded::{CALLS, Recorded};
use crate::support::running::python;

/// Calls tools one after the other: arguments are the server's command, and a list of names and arguments
/// as JSON. Prints what the server is and offers, and each result.
const CLIENT: &str = r#"
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    command, calls = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    server = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(server) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            hello = await session.initialize()
            tools = await session.list_tools()
            said = {"hello": hello.model_dump(mode="json", by_alias=True),
                    "tools": [tool.model_dump(mode="json", by_alias=True) for tool in tools.tools],
                    "results": []}
            for name, arguments in calls:
                try:
                    result = await session.call_tool(name, arguments)
                    said["results"].append(result.model_dump(mode="json", by_alias=True))
                except Exception as error:
                    said["results"].append({"refused": str(error)})
            print(json.dumps(said))

asyncio.run(main())
"#;

fn server(recorded: &Recorded) -> Vec<String> {
    let (messages, registry) = (recorded.messages(), recorded.registry());
    let program = built("mcpinspect");
    let command = [
        program.as_str(),
        "mcp",
        "--store",
        messages.to_str().unwrap(),
        "--registry",
        registry.to_str().unwrap(),
    ];
    command.map(str::to_owned).to_vec()
}

fn ask(recorded: &Recorded, calls: &Value) -> Value {
    let output = Command::new(python())
        .args(["-c", CLIENT])
        .arg(json!(server(recorded)).to_string())
        .arg(calls.to_string())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_real_client_gets_answers() {
    let recorded = Recorded::new();
    let calls = json!([
        ["inspect_state", {"query": "SELECT count(*) AS n FROM messages WHERE server = 'files'"}],
        ["inspect_state", {"query": "DROP TABLE messages"}],
        ["inspect_state", {"query": "SELEC"}],
        ["list_servers", {}],
        ["list_tools", {"server": "files"}],
        ["list_tools", {"server": "x' OR 1 = 1 --"}],
        ["recent_findings", {"limit": 5}],
        ["explain_finding", {"category": "hidden_instructions"}],
        ["diff_tool", {"server": "files", "tool": "read"}],
        ["diff_tool", {"server": "files", "tool": "none"}],
        ["search_messages", {"text": "invoice", "server": "files", "limit": 3}],
        ["search_messages", {"since": "whenever"}],
        ["inspect_state", {"sql": "SELECT 1"}],
        ["no_such_tool", {}],
        ["list_views", {}],
    ]);
    let said = ask(&recorded, &calls);
    assert_eq!(said["hello"]["serverInfo"]["name"], "mcpinspect");
    let names: Vec<&str> = said["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "inspect_state",
            "list_views",
            "list_servers",
            "list_tools",
            "recent_findings",
            "explain_finding",
            "diff_tool",
            "search_messages"
        ]
    );
    let result = |number: usize| &said["results"][number];
    let content = |number: usize| &result(number)["structuredContent"];
    assert_eq!(content(0)["rows"], json!([{"n": 2 * CALLS}]));
    assert_eq!(content(0)["rowCount"], 1);
    assert_eq!(content(0)["truncated"], false);
    assert_eq!(content(1)["error"]["code"], "MUTATING_QUERY_FORBIDDEN");
    assert_eq!(result(1)["isError"], true);
    assert_eq!(content(2)["error"]["code"], "INVALID_QUERY");
    assert_eq!(content(3)["rowCount"], 2, "{}", content(3));
    assert_eq!(content(4)["rows"][0]["status"], "changed", "{}", content(4));
    assert_eq!(content(5)["rowCount"], 0, "{}", content(5));
    assert!(content(6)["rows"].is_array(), "{}", content(6));
    assert!(content(7)["explanation"].as_str().unwrap().len() > 100);
    assert_eq!(
        content(8)["changes"][0]["field"],
        "description",
        "{}",
        content(8)
    );
    assert_eq!(result(9)["isError"], true);
    assert_eq!(content(10)["messages"].as_array().unwrap().len(), 3);
    assert!(
        content(11)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("invalid time")
    );
    for number in [12, 13] {
        assert!(result(number)["refused"].is_string(), "{}", result(number));
    }
    let views = content(14)["views"].as_array().unwrap();
    assert_eq!(views[0]["name"], "servers");
    assert!(views.iter().all(|view| view["columns"][0][0].is_string()));
    // What was recorded from others says so, and what is ours does not.
    for number in [0, 3, 4, 6, 8, 10] {
        assert!(
            content(number)["untrusted"].is_string(),
            "{number}: {}",
            content(number)
        );
        let text = result(number)["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("untrusted"), "{text}");
    }
    for number in [7, 14] {
        assert!(content(number).get("untrusted").is_none(), "{number}");
    }
}

/// A model reads these descriptions, and so does our own detection.
#[test]
fn our_own_detection_finds_nothing_in_what_it_offers() {
    let recorded = Recorded::new();
    let output = Command::new(built("mcpinspect"))
        .args(["scan", "--format", "jsonl", "--fail-on", "warn", "--"])
        .args(server(&recorded))
        .output()
        .unwrap();
    let reports = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{reports}");
    assert!(reports.lines().count() > 1, "{reports}");
    for line in reports.lines() {
        let report: Value = serde_json::from_str(line).unwrap();
        assert_eq!(report["verdict"], "none", "{line}");
        assert_eq!(report["detections"], json!([]), "{line}");
    }
}
