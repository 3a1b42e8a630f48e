//! Any rule file is either compiled, or refused with a line that exists in it.
#![cfg_attr(fuzzing, no_main)]

use mcpinspect_judge::detect::rules::RuleSet;
use mcpinspectd_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = RuleSet::compile(&[("builtin", ""), ("own", text)]) {
        assert!(
            error.line >= 1 && error.line <= text.lines().count() + 1,
            "{error}"
        );
        assert!(!error.problem.is_empty());
    }
});
