//! The examples of settings and rules in the manual are accepted, and every setting is explained.

use std::fs;
use std::path::Path;
use std::process::Command;

use mcpinspect_judge::policy::Policy;
use mcpinspect_settings::config::Config;
use mcpinspect_tests::places::repository;
use mcpinspectd::status::metrics::Snapshot;

use super::blocks;
use crate::support::built;

fn chapter(name: &str) -> String {
    fs::read_to_string(repository().join("mcpinspectd/docs").join(name)).unwrap()
}

#[test]
fn the_examples_of_settings_are_accepted() {
    let mut examples = 0;
    for name in ["configuration.md", "containment.md", "metrics.md"] {
        for example in blocks(&chapter(name), "toml") {
            if let Err(error) = Config::parse(example, Path::new(name)) {
                panic!("{error}\n{example}");
            }
            examples += 1;
        }
    }
    assert!(examples > 3, "{examples}");
}

#[test]
fn the_examples_of_policies_are_accepted() {
    let manual = chapter("policy.md");
    let examples = blocks(&manual, "toml");
    assert!(!examples.is_empty());
    for example in examples {
        let file = ("policy.md".to_owned(), example.to_owned());
        if let Err(errors) = Policy::compile(&[file]) {
            panic!("{errors:?}\n{example}");
        }
    }
}

/// The file as shipped names every setting, and another test holds it to the settings that there are.
#[test]
fn every_setting_is_in_the_manual() {
    let shipped = fs::read_to_string(repository().join("packaging/config.toml")).unwrap();
    let manual = chapter("configuration.md");
    let mut settings = 0;
    for line in shipped.lines() {
        let line = line.strip_prefix('#').unwrap_or(line);
        let is_setting = |key: &&str| {
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        let Some(key) = line.split(" = ").next().filter(is_setting) else {
            continue;
        };
        if line.contains(" = ") {
            assert!(
                manual.contains(&format!("`{key}`")),
                "`{key}` is not explained"
            );
            settings += 1;
        }
    }
    assert!(settings > 15, "{settings}");
}

#[test]
fn every_metric_is_in_the_manual() {
    let manual = chapter("metrics.md");
    let text = Snapshot::default().text();
    let mut metrics = 0;
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = name.split(' ').next().unwrap();
        assert!(manual.contains(&format!("`{name}`")), "{name}");
        metrics += 1;
    }
    assert!(metrics > 20, "{metrics}");
}

#[test]
fn the_examples_of_rules_are_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let mut rules = 0;
    for (number, example) in blocks(&chapter("detection.md"), "toml")
        .into_iter()
        .enumerate()
    {
        fs::write(directory.path().join(format!("{number}.toml")), example).unwrap();
        rules += 1;
    }
    assert!(rules > 1);
    let output = Command::new(built("mcpinspect"))
        .args(["rules", "check"])
        .arg(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
