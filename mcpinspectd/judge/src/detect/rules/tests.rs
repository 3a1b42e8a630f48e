use super::*;

#[test]
fn mistakes_are_reported_with_their_line() {
    let builtin = include_str!("../../../rules/builtin.toml");
    let error = |text: &str| {
        RuleSet::compile(&[("builtin.toml", builtin), ("own.toml", text)])
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(error("\n[[rule]]\nid = \"a\"\ncategory = \"exfiltratoin\"\n"), @r#"own.toml:4: unknown variant `exfiltratoin`, expected one of `hidden_instructions`, `concealment`, `forced_prerequisite`, `argument_hijack`, `cross_server_shadowing`, `credential_access`, `exfiltration`, `context_leak`, `unicode_smuggling`, `encoded_payload`, `command_injection`, `path_traversal`, `preference_manipulation`, `annotation_deception`, `rug_pull`, `result_injection`, `injection_obeyed`, `sampling_abuse`, `elicitation_abuse`, `toxic_flow`, `rate_anomaly`, `secret_exposure`, `wire_tampering`"#);
    insta::assert_snapshot!(error("[[rule]]\nid = \"a\"\ncategory = \"exfiltration\"\nregex = \"x.*y\"\n"), @r#"own.toml:4: a `regex` needs `anchors`: literals, one of which is part of every match. Without them it would be tried at every byte of every message"#);
    insta::assert_snapshot!(error("[[rule]]\nid = \"a\"\ncategory = \"exfiltration\"\nregex = \"x(\"\nanchors = [\"xyz\"]\n"), @r#"own.toml:4: `regex`: regex parse error:
    x(
     ^
error: unclosed group"#);
    insta::assert_snapshot!(error("[[rule]]\nid = \"a\"\ncategory = \"exfiltration\"\nregex = \"x.*y\"\nanchors = [\"x\"]\n"), @r#"own.toml:5: anchor `x` is shorter than 3 bytes: it occurs everywhere"#);
    insta::assert_snapshot!(error("[[rule]]\nid = \"a\"\ncategory = \"exfiltration\"\nall = [\"nonsense\"]\n"), @r#"own.toml:4: `nonsense` is neither a word list nor a token"#);
    insta::assert_snapshot!(error("[[rule]]\nid = \"a\"\ncategory = \"exfiltration\"\n"), @r#"own.toml:2: rule `a` needs exactly one of `all`, `literals`, `regex` (with `anchors`)"#);
    insta::assert_snapshot!(error("[[rule]]\nid = \"keep-from-user\"\ncategory = \"exfiltration\"\nliterals = [\"abc\"]\n"), @r#"own.toml:2: rule id `keep-from-user` is used twice"#);
    insta::assert_snapshot!(error("[[suppress]]\nrule = \"x\"\nreason = \" \"\nuntil = \"2027-01-01\"\n"), @r#"own.toml:3: a suppression needs a reason"#);
    insta::assert_snapshot!(error("[[suppress]]\nrule = \"x\"\nreason = \"fine\"\nuntil = \"soon\"\n"), @r#"own.toml:4: `soon` is not a date: write it like 2027-01-31"#);
}
