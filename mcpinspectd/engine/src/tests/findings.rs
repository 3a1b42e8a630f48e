//! What detection finds.

use std::sync::Arc;

use mcpinspect_core::model::{Action, Detection, SessionId, Severity, Timestamp, ToolStatus};
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{
    ActiveRules, Detector, Difference, MessageInContext, Offer, SessionContext, ToolDefinition,
    Verdict, WeightedRules,
};
use mcpinspect_judge::registry::Registry;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fixture::{Wire, tool};
use crate::{ApprovalRule, AutoApproval, Engine, Limits, Vendor};

/// Finds something in every tool that says so, and in every call of it.
pub(super) struct Finder;

fn finding(action: Action) -> Verdict {
    let detection = Detection {
        pattern: "test".to_owned(),
        category: "hidden_instructions".to_owned(),
        severity: Severity::High,
        matches: Vec::new(),
        field: "description".to_owned(),
        explanation: String::new(),
    };
    Verdict {
        detections: vec![detection],
        max_severity: Some(Severity::High),
        action,
        complete: true,
        undecided: false,
    }
}

impl Detector for Finder {
    fn tool(&mut self, _: &SessionContext<'_>, tool: &ToolDefinition<'_>) -> Verdict {
        if !tool.definition.get().contains("evil") {
            return Verdict::CLEAN;
        }
        assert_eq!(tool.pinned.is_some(), tool.status == ToolStatus::Changed);
        finding(Action::Alert)
    }

    fn introduction(&mut self, _: &SessionContext<'_>, _: &RawValue, _: ToolStatus) -> Verdict {
        Verdict::CLEAN
    }

    fn message(&mut self, _: &SessionContext<'_>, message: &MessageInContext<'_>) -> Verdict {
        if message.tool == Some("evil") {
            finding(Action::Warn)
        } else {
            Verdict::CLEAN
        }
    }

    fn ends_disagree(&mut self, _: &SessionContext<'_>, _: &Difference<'_>) -> Verdict {
        finding(Action::Alert)
    }

    fn session_ended(&mut self, _: &SessionId) {}
}

#[test]
fn findings_come_with_the_tool_and_by_themselves() {
    let mut wire = Wire::with(Box::new(Finder), Limits::default());
    wire.list(&[tool("evil", ""), tool("good", "")]);
    let seen = wire.log.take("mcp_tool_seen");
    assert_eq!(
        (&seen[0]["max_severity"], &seen[1]["max_severity"]),
        (&json!("high"), &Value::Null)
    );
    assert_eq!(wire.log.take("mcp_detection")[0]["action"], "alert");
    wire.list(&[tool("evil", ""), tool("good", "evil")]);
    assert_eq!(
        wire.log.take("mcp_tool_changed")[0]["detections"][0]["pattern"],
        "test"
    );
    wire.log.take("mcp_detection");
    wire.ask(
        "tools/call",
        json!({"name": "evil"}),
        json!({"content": []}),
    );
    let found = wire.log.take("mcp_detection");
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["action"], &found[0]["tool_name"]),
        (&json!("warn"), &json!("evil"))
    );
}

#[test]
fn rules_read_anew_count_in_sessions_under_way() {
    let current = Arc::new(ActiveRules::new(WeightedRules::builtin()));
    let registry = Registry::in_memory();
    let mut wire = Wire::new();
    let watch = RuntimeDetector::new(Arc::clone(&current));
    wire.engine = Engine::new(Limits::default(), registry, Box::new(watch));
    wire.start("watched", false);
    let mut found = |rules: &str, errors: usize| {
        let files = [("own.toml".to_owned(), rules.to_owned())];
        let (knowledge, problems) = WeightedRules::with_files(&files);
        assert_eq!(problems.len(), errors, "{problems:?}");
        current.replace(knowledge);
        let text = json!({"content": [{"type": "text", "text": "The zebra-7 report is ready."}]});
        wire.ask("tools/call", json!({"name": "read"}), text);
        let told = wire.log.take("mcp_detection");
        told.iter()
            .map(|event| event["detection"]["pattern"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let rule = "[[rule]]\nid = \"own\"\ncategory = \"exfiltration\"\ndecides = \"alert\"\nliterals = [\"zebra-7\"]\n";
    let silence = "[[suppress]]\nrule = \"own\"\nserver = \"files\"\nreason = \"test\"\nuntil = \"2099-01-01\"\n";
    assert_eq!(found("", 0), [""; 0]);
    assert_eq!(found(rule, 0), ["own"]);
    assert_eq!(found(&format!("{rule}{silence}"), 0), [""; 0]);
    let elsewhere = silence.replace("files", "other");
    assert_eq!(found(&format!("{rule}{elsewhere}"), 0), ["own"]);
    assert_eq!(
        found("[[rule]]\nid = 7\n", 1),
        [""; 0],
        "the broken pack is left out"
    );
}

/// Findings of one kind in one message make one event; the worst of them leads.
#[test]
fn findings_of_a_kind_are_told_together() {
    let rules = [
        ("one", "exfiltration", "low", "zebra-7"),
        ("two", "exfiltration", "high", "zebra-8"),
        ("three", "credential_access", "medium", "zebra-9"),
    ]
    .map(|(id, category, severity, word)| {
        format!(
            "[[rule]]\nid = \"{id}\"\ncategory = \"{category}\"\nseverity = \"{severity}\"\ndecides = \"alert\"\nliterals = [\"{word}\"]\n"
        )
    });
    let files = [("own.toml".to_owned(), rules.concat())];
    let (knowledge, problems) = WeightedRules::with_files(&files);
    assert!(problems.is_empty(), "{problems:?}");
    let mut wire = Wire::new();
    let detector = RuntimeDetector::new(Arc::new(ActiveRules::new(knowledge)));
    wire.engine = Engine::new(Limits::default(), Registry::in_memory(), Box::new(detector));
    wire.start("watched", false);
    let text = "See zebra-7, zebra-8 and zebra-9.";
    let text = json!({"content": [{"type": "text", "text": text}]});
    wire.ask("tools/call", json!({"name": "read"}), text);
    let mut told: Vec<_> = wire
        .log
        .take("mcp_detection")
        .iter()
        .map(|event| {
            let related = event["related"].as_array().map_or(0, Vec::len);
            (event["detection"]["pattern"].to_string(), related)
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [("\"three\"".to_owned(), 0), ("\"two\"".to_owned(), 1)]
    );
}

/// Has a fault that a name or a message brings to light.
struct Faulty(Finder);

fn fault(text: &str) {
    assert!(!text.contains("\u{c90d}"), "a fault on {text}");
}

impl Detector for Faulty {
    fn offered(&mut self, _: &SessionContext<'_>, offer: &Offer<'_>) {
        offer.names.iter().copied().for_each(fault);
    }

    fn tool(&mut self, context: &SessionContext<'_>, tool: &ToolDefinition<'_>) -> Verdict {
        fault(tool.name);
        self.0.tool(context, tool)
    }

    fn introduction(
        &mut self,
        _: &SessionContext<'_>,
        introduction: &RawValue,
        _: ToolStatus,
    ) -> Verdict {
        fault(introduction.get());
        Verdict::CLEAN
    }

    fn message(&mut self, context: &SessionContext<'_>, message: &MessageInContext<'_>) -> Verdict {
        message.tool.into_iter().for_each(fault);
        self.0.message(context, message)
    }

    fn ends_disagree(&mut self, _: &SessionContext<'_>, _: &Difference<'_>) -> Verdict {
        panic!("always")
    }

    fn session_ended(&mut self, _: &SessionId) {
        panic!("always")
    }
}

#[test]
fn a_fault_of_detection_costs_one_verdict() {
    let mut wire = Wire::with(Box::new(Faulty(Finder)), Limits::default());
    let failed = |wire: &mut Wire| {
        let found = wire.log.take("mcp_detection");
        let found: Vec<_> = found
            .iter()
            .map(|event| &event["detection"]["pattern"])
            .collect();
        found
            .iter()
            .filter(|name| **name == "examination-failed")
            .count()
    };
    wire.list(&[
        tool("one", ""),
        tool("\u{c90d}", ""),
        tool("other", ""),
        tool("evil", ""),
    ]);
    let seen = wire.log.take("mcp_tool_seen");
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(seen[1]["max_severity"], "high");
    let found = wire.log.take("mcp_detection");
    let found: Vec<_> = found
        .iter()
        .map(|event| {
            (
                event["detection"]["pattern"].as_str(),
                event["action"].as_str(),
            )
        })
        .collect();
    let alert = Some("alert");
    assert_eq!(
        found,
        [(Some("examination-failed"), alert), (Some("test"), alert)],
        "the tools after it are judged"
    );
    wire.ask("tools/call", json!({"name": "\u{c90d}"}), json!({}));
    assert_eq!(failed(&mut wire), 2, "the call and its answer");
    wire.ask("initialize", json!({}), json!({"instructions": "\u{c90d}"}));
    assert_eq!(failed(&mut wire), 1);
    wire.end();
    assert_eq!(wire.log.take("mcp_session_ended").len(), 1);
    wire.start("second", false);
    wire.ask("tools/call", json!({"name": "evil"}), json!({}));
    assert_eq!(
        wire.log.take("mcp_detection").len(),
        2,
        "other sessions go on"
    );
}

#[test]
fn a_change_on_which_detection_failed_is_not_accepted_by_a_policy() {
    let accepted = |name: &str| {
        let mut wire = Wire::with(Box::new(Faulty(Finder)), Limits::default());
        wire.engine.set_approval(AutoApproval {
            rules: vec![ApprovalRule {
                servers: globset::Glob::new("*").unwrap().compile_matcher(),
                user: None,
                vendor: Vendor::Any,
            }],
        });
        wire.list(&[tool(name, "")]);
        wire.list(&[tool(name, "changed")]);
        assert_eq!(wire.log.take("mcp_tool_changed").len(), 1);
        wire.engine.idle(Timestamp(u64::MAX), &mut wire.log);
        wire.log.take("mcp_policy").len()
    };
    assert_eq!((accepted("one"), accepted("\u{c90d}")), (1, 0));
}
