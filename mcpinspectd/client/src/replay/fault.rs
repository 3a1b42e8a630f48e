//! Answers that fail or come late on purpose: `tools/call[name=x]:-32000@0.5`.
//!
//! A rate is kept exactly and without randomness, so that a test that failed fails again: with `@0.25`, every
//! fourth answer fails.

use std::str::FromStr;
use std::time::Duration;

use mcpinspect_core::json_path::{PathError, Pattern};
use serde_json::Value;
use thiserror::Error;

/// The default code of an error: an internal error.
const CODE: i64 = -32603;

/// The longest delay.
const MAX_DELAY: u64 = 3_600_000;

/// Answers that should fail.
#[derive(Clone, Debug)]
pub struct Fault {
    pattern: Pattern,
    code: i64,
    rate: f64,
    /// The fraction of an answer that should have failed by now but has not.
    due: f64,
}

/// Answers that should come late.
#[derive(Clone, Debug)]
pub struct Delay {
    /// Which ones; `None` for all.
    pattern: Option<Pattern>,
    delay: Duration,
}

/// Why text is neither a fault nor a delay.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaultError {
    /// It does not begin with a method.
    #[error(transparent)]
    Path(#[from] PathError),
    /// It has steps into a message.
    #[error("give a method without members: it fails as a whole")]
    Steps,
    /// Its code is not a number.
    #[error("invalid error code `{0}`")]
    Code(String),
    /// Its rate is not one.
    #[error("invalid rate `{0}`: expected a number from 0 to 1")]
    Rate(String),
    /// Its delay is not a number of milliseconds, or more than an hour.
    #[error("invalid delay `{0}`: expected milliseconds, up to {MAX_DELAY}")]
    Delay(String),
}

impl Fault {
    /// The code of the error to answer this request with, if it is its turn.
    pub fn strikes(&mut self, method: &str, params: Option<&Value>) -> Option<i64> {
        if !self.pattern.concerns(method, params) {
            return None;
        }
        self.due += self.rate;
        // Ten times a tenth is a little less than one.
        if self.due < 1.0 - 1e-9 {
            return None;
        }
        self.due -= 1.0;
        Some(self.code)
    }
}

impl Delay {
    /// How long to delay the answer to this request.
    pub fn of(&self, method: &str, params: Option<&Value>) -> Option<Duration> {
        let concerns = |pattern: &Pattern| pattern.concerns(method, params);
        self.pattern
            .as_ref()
            .is_none_or(concerns)
            .then_some(self.delay)
    }
}

/// A method with filters on its parameters, and what follows it.
fn head(text: &str) -> (&str, &str) {
    let bracket = text.rfind(']').map_or(0, |at| at + 1);
    let end = text[bracket..].find([':', '@']).map(|at| bracket + at);
    text.split_at(end.unwrap_or(text.len()))
}

fn method(text: &str) -> Result<Pattern, FaultError> {
    let pattern: Pattern = text.parse()?;
    match pattern.is_whole() {
        true => Ok(pattern),
        false => Err(FaultError::Steps),
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (pattern, mut rest) = head(text);
        let mut rate = 1.0;
        if let Some((before, given)) = rest.split_once('@') {
            let wrong = || FaultError::Rate(given.to_owned());
            rate = given.parse().map_err(|_| wrong())?;
            if !(0.0..=1.0).contains(&rate) {
                return Err(wrong());
            }
            rest = before;
        }
        let code = match rest.strip_prefix(':') {
            Some(code) => code
                .parse()
                .map_err(|_| FaultError::Code(code.to_owned()))?,
            None => CODE,
        };
        Ok(Self {
            pattern: method(pattern)?,
            code,
            rate,
            due: 0.0,
        })
    }
}

impl FromStr for Delay {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (pattern, millis) = match head(text) {
            (millis, "") => (None, millis),
            (pattern, rest) => (Some(method(pattern)?), rest.trim_start_matches(':')),
        };
        match millis.parse() {
            Ok(number @ 0..=MAX_DELAY) => Ok(Self {
                pattern,
                delay: Duration::from_millis(number),
            }),
            _ => Err(FaultError::Delay(millis.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rate_is_kept_exactly() {
        for (rate, strikes) in [
            ("0", 0),
            ("0.1", 10),
            ("0.25", 25),
            ("0.999", 99),
            ("1", 100),
        ] {
            let mut fault: Fault = format!("tools/call:-7@{rate}").parse().unwrap();
            let struck = (0..100).filter_map(|_| fault.strikes("tools/call", None));
            let codes: Vec<i64> = struck.collect();
            assert_eq!(codes, vec![-7; strikes], "{rate}");
        }
    }

    #[test]
    fn a_fault_names_what_fails() {
        let params = json!({"name": "a:b@c"});
        let mut fault: Fault = "tools/*[name=a:b@c]".parse().unwrap();
        assert_eq!(fault.strikes("tools/call", Some(&params)), Some(CODE));
        assert_eq!(fault.strikes("tools/call", None), None);
        assert_eq!(fault.strikes("prompts/get", Some(&params)), None);
        let delay: Delay = "tools/call:20".parse().unwrap();
        assert_eq!(
            delay.of("tools/call", None),
            Some(Duration::from_millis(20))
        );
        assert_eq!(delay.of("tools/list", None), None);
        let delay: Delay = "5".parse().unwrap();
        assert_eq!(delay.of("x", None), Some(Duration::from_millis(5)));
    }

    #[test]
    fn what_is_neither_says_why() {
        let error = |text: &str| text.parse::<Fault>().unwrap_err();
        assert_eq!(error("m:x"), FaultError::Code("x".to_owned()));
        assert_eq!(error("m@2"), FaultError::Rate("2".to_owned()));
        assert_eq!(error("m@NaN"), FaultError::Rate("NaN".to_owned()));
        assert_eq!(error("m.a"), FaultError::Steps);
        assert_eq!(error(":1"), FaultError::Path(PathError::NoMethod));
        for text in ["", "x", "-1", "3600001", "m:1s"] {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
    }
}
