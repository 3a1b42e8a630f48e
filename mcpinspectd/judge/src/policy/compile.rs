//! Compiles policy files into a policy.
//!
//! A policy that is half understood protects from half of what its author thinks, so there is no
//! leniency: one mistake in one file and there is no policy. All mistakes are reported with file and line,
//! one per rule.

use std::collections::HashMap;

use super::conditions::Compiled;
use super::decide::{Policy, Rule};
use super::format::{RawCondition, RawFile, RawRule};
use super::mistake::{Mistake, at};
use super::names::Names;
use super::value::ValueTest;
use crate::detect::rules::line_of;

pub use crate::detect::rules::RuleError as PolicyError;

/// Policy files, each a name and a text.
pub type PolicyFiles = [(String, String)];

/// Most rules of all files together.
const RULE_LIMIT: usize = 1000;
/// The highest priority; the lowest is its negative.
const PRIORITY_LIMIT: i64 = 1_000_000;
/// Most tests of values of all rules together.
const TEST_LIMIT: usize = 4096;

impl Policy {
    /// Compiles policy files.
    ///
    /// # Errors
    /// Every mistake that was found, at most one per rule.
    pub fn compile(files: &PolicyFiles) -> Result<Self, Vec<PolicyError>> {
        let mut compiler = Compiler::default();
        for (file, text) in files {
            compiler.file(file, text);
        }
        compiler.finish()
    }
}

#[derive(Default)]
struct Compiler {
    rules: Vec<(Rule, RawCondition)>,
    tests: Vec<ValueTest>,
    ids: HashMap<String, (String, usize)>,
    errors: Vec<PolicyError>,
}

impl Compiler {
    fn file(&mut self, file: &str, text: &str) {
        let error = |position: usize, problem: String| PolicyError {
            file: file.to_owned(),
            line: line_of(text, position),
            problem,
        };
        let raw: RawFile = match toml::from_str(text) {
            Ok(raw) => raw,
            Err(wrong) => {
                let position = wrong.span().map_or(0, |span| span.start);
                self.errors
                    .push(error(position, wrong.message().to_owned()));
                return;
            }
        };
        for rule in raw.rules {
            let location = (file.to_owned(), line_of(text, rule.id.span().start));
            match self.rule(rule, location) {
                Ok(()) => {}
                Err((position, problem)) => self.errors.push(error(position, problem)),
            }
        }
    }

    fn rule(&mut self, raw: RawRule, location: (String, usize)) -> Result<(), Mistake> {
        let id = raw.id.get_ref().clone();
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if id.is_empty() || id.len() > 80 || !id.bytes().all(is_plain) {
            let problem =
                format!("rule id `{id}`: use up to 80 lower-case letters, digits and hyphens");
            return Err(at(&raw.id, problem));
        }
        if let Some((file, line)) = self.ids.insert(id.clone(), location.clone()) {
            let problem = format!("rule id `{id}` is used twice, first in {file}:{line}");
            return Err(at(&raw.id, problem));
        }
        if self.rules.len() >= RULE_LIMIT {
            return Err(at(&raw.id, format!("more than {RULE_LIMIT} rules")));
        }
        let priority = match &raw.priority {
            Some(priority) if priority.get_ref().abs() > PRIORITY_LIMIT => {
                let problem =
                    format!("priority must be between -{PRIORITY_LIMIT} and {PRIORITY_LIMIT}");
                return Err(at(priority, problem));
            }
            Some(priority) => *priority.get_ref(),
            None => 0,
        };
        let action = raw.action()?;
        let Compiled {
            condition,
            rate,
            after,
            kinds,
        } = raw.conditions(&action, &mut self.tests)?;
        if self.tests.len() > TEST_LIMIT {
            return Err(at(
                &raw.id,
                format!("more than {TEST_LIMIT} conditions on values"),
            ));
        }
        let rule = Rule {
            id,
            name: raw.name,
            priority,
            action,
            location,
            kinds,
            condition,
            rate,
            after,
        };
        if let Some(problem) = self.contradiction(&rule, raw.when.get_ref()) {
            return Err(at(&raw.action, problem));
        }
        self.rules.push((rule, raw.when.into_inner()));
        Ok(())
    }

    /// The error if a rule says the opposite of another about the same messages with equal precedence.
    fn contradiction(&self, rule: &Rule, when: &RawCondition) -> Option<String> {
        let other = self.rules.iter().find(|(other, known)| {
            other.priority == rule.priority
                && other.kinds == rule.kinds
                && other.action.is_final()
                && rule.action.is_final()
                && known == when
        });
        let (other, _) = other?;
        let (file, line) = &other.location;
        let problem = format!(
            "rule `{}` has the same conditions and priority as `{}` ({file}:{line}); change the priority of one of them",
            rule.id, other.id
        );
        Some(problem)
    }

    fn finish(self) -> Result<Policy, Vec<PolicyError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let mut rules: Vec<Rule> = self.rules.into_iter().map(|(rule, _)| rule).collect();
        // Stable: among equals, files and lines decide.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        let tests = self.tests.iter().map(|test| &test.path);
        let edits = rules.iter().flat_map(|rule| rule.action.paths());
        let names = Names::of(tests.chain(edits));
        Ok(Policy {
            rules,
            tests: self.tests,
            names,
        })
    }
}
