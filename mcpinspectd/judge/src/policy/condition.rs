//! What a rule asks for, and whether it holds.
//!
//! The answer has three values. `None` is "not known": a value was not examined yet, or the message can be
//! read in two ways. What cannot be known must not be taken for "no", or a sender could hide from a rule.

use jiff::Timestamp as Moment;
use jiff::civil::Time;
use mcpinspect_core::mcp::ambiguity::MessagePart;
use mcpinspect_core::mcp::{Outcome, json, view};
use mcpinspect_core::model::{Direction, Severity, Timestamp};
use serde_json::value::RawValue;

use super::situation::{MessageFinding, Situation, ToolStatus};
use super::text::TextTest;
use super::value::Root;

/// Conditions, joined.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    From(Direction),
    Text(Field, TextTest),
    /// One of the policy's tests, by number.
    Value(usize, Root),
    ErrorCode(Vec<i64>),
    IsError(bool),
    Finding(Option<Severity>, Option<TextTest>),
    ToolStatus(ToolStatus),
    Time(TimeOfDay),
}

/// A text that can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Method,
    Tool,
    Server,
    Client,
    User,
}

/// A part of the day, on some days of the week.
#[derive(Clone, Debug)]
pub(super) struct TimeOfDay {
    pub(super) from: Time,
    /// Not later than this; before `from` it is on the next day.
    pub(super) to: Time,
    /// By day, from Monday. A span over midnight belongs to the day on which it begins.
    pub(super) days: [bool; 7],
}

/// The known answers to the tests of values.
#[derive(Clone, Debug)]
pub(super) struct Facts(Vec<Option<bool>>);

impl Facts {
    /// Facts in which nothing is known about this many tests.
    pub(super) fn unknown(count: usize) -> Self {
        Self(vec![None; count])
    }

    /// Records a result.
    pub(super) fn learn(&mut self, test: usize, holds: bool) {
        if let Some(fact) = self.0.get_mut(test) {
            *fact = Some(holds);
        }
    }

    fn of(&self, test: usize) -> Option<bool> {
        self.0.get(test).copied().flatten()
    }
}

impl Condition {
    /// Whether it holds; `None` if that is unknown.
    pub(super) fn holds(&self, seen: &Situation<'_>, facts: &Facts) -> Option<bool> {
        match self {
            Self::All(parts) => {
                let mut all = Some(true);
                for part in parts {
                    match part.holds(seen, facts) {
                        Some(false) => return Some(false),
                        None => all = None,
                        Some(true) => {}
                    }
                }
                all
            }
            Self::Any(parts) => {
                let mut any = Some(false);
                for part in parts {
                    match part.holds(seen, facts) {
                        Some(true) => return Some(true),
                        None => any = None,
                        Some(false) => {}
                    }
                }
                any
            }
            Self::Not(part) => part.holds(seen, facts).map(|holds| !holds),
            Self::From(direction) => Some(seen.direction == *direction),
            Self::Text(field, test) => field.holds(test, seen),
            Self::Value(test, root) => match seen.doubt {
                Some(_) => None,
                None if root.of(seen).is_none() => Some(false),
                None => facts.of(*test),
            },
            Self::ErrorCode(codes) => certain(seen, || {
                let Some(Outcome::Error(error)) = seen.outcome else {
                    return false;
                };
                code(error).is_some_and(|code| codes.contains(&code))
            }),
            Self::IsError(wanted) => certain(seen, || {
                let is_error = match seen.outcome {
                    Some(Outcome::Error(_)) => true,
                    Some(Outcome::Result(result)) => view::ServerResult::read(result).is_error,
                    None => return false,
                };
                is_error == *wanted
            }),
            Self::Finding(severity, category) => Some(seen.findings.iter().any(|found| {
                severity.is_none_or(|least| found.severity >= least)
                    && holds_for(category.as_ref(), found)
            })),
            Self::ToolStatus(wanted) => match seen.tool {
                _ if seen.is_tool_doubtful() => None,
                None => Some(false),
                Some(_) => {
                    let status = seen.tool_status.unwrap_or(ToolStatus::Unapproved);
                    // A changed tool is not approved in its new form.
                    let is_new_form =
                        *wanted == ToolStatus::Unapproved && status == ToolStatus::Changed;
                    Some(status == *wanted || is_new_form)
                }
            },
            Self::Time(time) => Some(time.holds(seen.time, &seen.parties.zone)),
        }
    }

    /// Calls `visit` for it and every condition in it.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.each(visit)),
            Self::Not(part) => part.each(visit),
            _ => {}
        }
    }
}

fn certain(seen: &Situation<'_>, holds: impl FnOnce() -> bool) -> Option<bool> {
    match seen.doubt {
        Some(_) => None,
        None => Some(holds()),
    }
}

fn holds_for(category: Option<&TextTest>, found: &MessageFinding) -> bool {
    category.is_none_or(|test| test.holds(&found.category))
}

/// The code of an error.
fn code(error: &RawValue) -> Option<i64> {
    let mut code = None;
    // The text was validated with its message.
    let _ = json::members(
        error.get(),
        |key| key == b"code",
        |is_code, value| {
            if is_code {
                // As the receiver compares: -32000 and -32000.0 are the same number.
                code = value.get().parse::<f64>().ok().map(|number| number as i64);
            }
        },
    );
    code
}

impl Field {
    fn holds(self, test: &TextTest, seen: &Situation<'_>) -> Option<bool> {
        let of = |text: Option<&str>| Some(text.is_some_and(|text| test.holds(text)));
        match (self, seen.doubt) {
            (Self::Tool, _) if seen.is_tool_doubtful() => None,
            (Self::Method, Some(doubt)) if doubt.is_total() => None,
            (Self::Tool, _) => of(seen.tool),
            (Self::Method, _) => of(seen.method),
            (Self::Server, _) => of(Some(&seen.parties.server)),
            (Self::Client, _) => of(seen.parties.client.as_deref()),
            (Self::User, _) => Some(seen.parties.user.iter().any(|user| test.holds(user))),
        }
    }
}

impl Situation<'_> {
    /// Whether it is uncertain which tool it is about.
    fn is_tool_doubtful(&self) -> bool {
        self.doubt
            .is_some_and(|doubt| doubt.part <= MessagePart::Params)
    }
}

impl Root {
    /// What paths lead through.
    pub(super) fn of<'a>(self, seen: &Situation<'a>) -> Option<&'a RawValue> {
        match (self, seen.outcome) {
            (Self::Params, _) => seen.params,
            (Self::Result, Some(Outcome::Result(result))) => Some(result),
            (Self::Result, _) => None,
        }
    }
}

impl TimeOfDay {
    fn holds(&self, time: Timestamp, zone: &jiff::tz::TimeZone) -> bool {
        let Ok(moment) = Moment::from_nanosecond(i128::from(time.0)) else {
            return false;
        };
        let local = zone.to_datetime(moment);
        let (time, date) = (local.time(), local.date());
        let day = date.weekday().to_monday_zero_offset();
        let is_on = |day: i8| self.days.get(day.rem_euclid(7) as usize) == Some(&true);
        if self.from < self.to {
            return is_on(day) && self.from <= time && time < self.to;
        }
        (is_on(day) && self.from <= time) || (is_on(day - 1) && time < self.to)
    }
}
