//! Rules and suppressions that people write.

use mcpinspect_core::model::Action;
use mcpinspect_core::model::Timestamp;

use super::super::{Analyser, AnalysisContext};
use super::{tool, with_rules};
use crate::detect::json::Json;

#[test]
fn own_rules_find_literals_and_patterns() {
    let file = r#"
        [[rule]]
        id = "house-hosts"
        category = "exfiltration"
        severity = "high"
        decides = "alert"
        says = "Names an internal host."
        regex = "build-[0-9]{3}\\.house\\.example"
        anchors = [".house.example"]
        servers = ["ci*"]
    "#;
    let mut analyser = Analyser::new(with_rules(file));
    let subject = tool("x", "Uploads to BUILD-042.house.example.");
    let mut on = |server| {
        analyser
            .tool(
                &Json::from(&subject),
                AnalysisContext {
                    server,
                    ..AnalysisContext::default()
                },
            )
            .action
    };
    assert_eq!(on(Some("ci-main")), Action::Alert);
    assert_eq!(on(Some("web")), Action::None);
    assert_eq!(on(None), Action::None);
}

#[test]
fn a_suppression_covers_one_tool_until_a_day() {
    let file = "[[suppress]]\nrule = \"tag-characters\"\nserver = \"docs\"\ntool = \"li*\"\nreason = \"test data\"\nuntil = \"2027-01-31\"\n";
    let mut analyser = Analyser::new(with_rules(file));
    let day =
        |date: &str| Timestamp(date.parse::<jiff::Timestamp>().unwrap().as_nanosecond() as u64);
    let (before, after) = (day("2027-01-30T23:59:59Z"), day("2027-01-31T00:00:00Z"));
    let mut judge = |name: &str, server, time| {
        let subject = tool(name, "Lists.\u{e0061}\u{e0062}");
        analyser
            .tool(
                &Json::from(&subject),
                AnalysisContext {
                    server: Some(server),
                    time,
                    ..AnalysisContext::default()
                },
            )
            .action
    };
    assert_eq!(judge("list", "docs", before), Action::None);
    assert!(judge("list", "docs", after) >= Action::Alert);
    assert!(judge("list", "other", before) >= Action::Alert);
    assert!(judge("read", "docs", before) >= Action::Alert);
}
