//! Runs the steps of a script.

use std::time::{Duration, Instant};

use crate::connection::Patience;
use crate::failure::{Category, Failure};
use serde_json::{Map, Value};

use super::read::{OnError, Script, Step};
use super::values::{self, Saved};
use crate::commands::call::envelope::Envelope;
use crate::commands::call::expect::CheckedExpectation;
use crate::commands::call::perform::Session;
use crate::commands::call::request::CallRequest;

/// A step that ran.
pub struct StepResult {
    /// Which step it was.
    pub at: usize,
    pub envelope: Envelope,
}

/// Runs `script` over a session, and returns the outcomes of the steps that ran.
pub fn run(
    script: &Script,
    session: &mut Session<'_, '_>,
    patience: Patience,
    fail_on_error: bool,
) -> Vec<StepResult> {
    let mut saved = Saved::new();
    let mut ran = Vec::new();
    let mut at = 0;
    while let Some(step) = script.steps.get(at) {
        let patience = step.timeout.map_or(patience, Patience::Each);
        session.connection.set_patience(patience);
        let mut envelope = perform(step, session, &saved);
        envelope.add_messages(session.connection.server_messages.take());
        let passed = judge(at, step, &mut envelope, &mut saved, fail_on_error);
        ran.push(StepResult { at, envelope });
        at = match (passed, step.on_error) {
            (true, _) | (false, OnError::Continue) => at + 1,
            (false, OnError::Stop) => break,
            (false, OnError::SkipTo(target)) => target,
        };
    }
    ran
}

/// The report on a script whose session did not begin.
pub fn not_begun(script: &Script, failure: Failure, took: Duration) -> Vec<StepResult> {
    let first = script.steps.first().into_iter();
    first
        .map(|step| {
            let mut envelope = Envelope::new(&step.request.method, failure.clone().into(), took);
            envelope.judge(0, step.name.clone(), Vec::new(), false);
            StepResult { at: 0, envelope }
        })
        .collect()
}

fn perform(step: &Step, session: &mut Session<'_, '_>, saved: &Saved) -> Envelope {
    let started = Instant::now();
    let mut params = Value::Object(step.request.params.clone());
    let outcome = match values::fill(&mut params, saved) {
        Ok(()) => {
            let params = match params {
                Value::Object(params) => params,
                _ => Map::new(),
            };
            session.perform(&CallRequest {
                params,
                ..step.request.clone()
            })
        }
        Err(name) => Failure::new(
            Category::Validation,
            "missing_value",
            format!("`${{{name}}}` was not saved"),
        )
        .into(),
    };
    Envelope::new(&step.request.method, outcome, started.elapsed())
}

/// Whether the step passed: its expectations hold or, if it has none, it did not fail.
fn judge(
    at: usize,
    step: &Step,
    envelope: &mut Envelope,
    saved: &mut Saved,
    fail_on_error: bool,
) -> bool {
    // An envelope is made of JSON.
    let value = serde_json::to_value(&*envelope).unwrap_or_default();
    let checked: Vec<CheckedExpectation> = step
        .expectations
        .iter()
        .map(|expectation| expectation.hold(&value))
        .collect();
    let passed = match checked.is_empty() {
        true => !envelope.fails(fail_on_error),
        false => checked.iter().all(|checked| checked.passed),
    };
    envelope.judge(at, step.name.clone(), checked, passed);
    for (name, path) in &step.saves {
        // Of several, the first.
        if let Some(found) = path.find(&value).first() {
            saved.insert(name.clone(), (*found).clone());
        }
    }
    passed
}
