//! Many steps over one connection.

use serde_json::json;

use super::{Workspace, call, envelope};

#[test]
fn a_script_runs_over_one_connection_and_says_what_did_not_hold() {
    let workspace = Workspace::new();
    let script = workspace.write("script.yaml", include_str!("script.yaml"));
    let report = workspace.path("report.xml");
    let output = workspace.call(
        "legacy",
        &["--script", &script, "--junit", report.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let response = envelope(&output);
    let steps = response.as_array().unwrap();
    let ran: Vec<(u64, bool)> = steps
        .iter()
        .map(|step| {
            (
                step["step"].as_u64().unwrap(),
                step["passed"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        ran,
        [(1, true), (2, true), (3, true), (4, false), (6, false)],
        "{response:#}"
    );
    assert_eq!(
        steps[4]["expectations"][0]["message"],
        "expected 4, found 3"
    );
    assert_eq!(steps[4]["success"], true);
    assert_eq!(
        steps[4]["stderr"],
        json!(["on stderr", "on stderr", "on stderr"])
    );
    let xml = std::fs::read_to_string(report).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document
        .descendants()
        .find(|node| node.has_tag_name("testsuite"))
        .unwrap();
    let counts = ["tests", "failures", "skipped"].map(|name| suite.attribute(name).unwrap());
    assert_eq!(counts, ["6", "2", "1"]);
    let failures: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("failure"))
        .collect();
    assert_eq!(failures[0].attribute("type"), Some("protocol"));
    assert_eq!(
        failures[1].attribute("message"),
        Some("result.structuredContent.a: expected 4, found 3")
    );

    let good = workspace.write("good.json", r#"{"steps": [{"method": "ping", "unchecked": true, "onError": "continue"}, {"method": "tools/list"}]}"#);
    let output = workspace.call("legacy", &["--script", &good]);
    let response = envelope(&output);
    assert_eq!(
        (&response[0]["passed"], &response[1]["passed"]),
        (&json!(false), &json!(true)),
        "{response:#}"
    );
}

#[test]
fn a_malformed_script_is_refused_before_anything_runs() {
    let workspace = Workspace::new();
    let mark = workspace.path("started");
    for (script, reason) in [
        (
            "- method: ping\n- name: two\n  method: tools/call\n",
            "step 2 (two): `tools/call` needs the tool",
        ),
        (
            "- method: ping\n  expects: []\n",
            "step 1: unknown field `expects`",
        ),
        ("[{]", "script"),
    ] {
        let script = workspace.write("script", script);
        let touch = ["touch".to_owned(), mark.to_str().unwrap().to_owned()];
        let output = call(&["--script", &script], &touch);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains(reason), "{words}");
        assert!(!mark.exists(), "the server was started");
    }
}
