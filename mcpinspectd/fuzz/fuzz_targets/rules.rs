//! Any rule pack: read, or refused with a line that it has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcpinspectd::detect::rules::RuleSet;

fuzz_target!(|text: &str| {
    if let Err(error) = RuleSet::compile(&[("builtin", ""), ("own", text)]) {
        assert!(
            error.line >= 1 && error.line <= text.lines().count() + 1,
            "{error}"
        );
        assert!(!error.problem.is_empty());
    }
});
