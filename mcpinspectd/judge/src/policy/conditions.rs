//! Turns conditions as written into ones that can be evaluated, and reports what is wrong with them.

use std::time::Duration;

use jiff::civil::Time;
use mcpinspect_core::model::Direction;
use toml::Spanned;

use super::action::Action;
use super::condition::{Condition, Field, TimeOfDay};
use super::format::{RawCondition, RawParty, RawRate, RawRule, RawTime, RawValueTest};
use super::memory::{After, RATE_LIMIT, Rate};
use super::mistake::{Mistake, at, duration, path};
use super::situation::Kind;
use super::text::{RawText, TextTest, containing, matching};
use super::value::{Root, Scalar, ValueTest, Wanted};
use crate::detect::category::Category;

/// Most conditions of a rule.
const CONDITION_LIMIT: usize = 256;
/// The deepest nesting of conditions.
const DEPTH_LIMIT: usize = 8;
/// The longest time that a rule looks back.
const LOOK_BACK: Duration = Duration::from_secs(24 * 60 * 60);

/// What a rule asks for.
pub(super) struct Compiled {
    pub(super) condition: Condition,
    pub(super) rate: Option<Rate>,
    pub(super) after: Option<After>,
    pub(super) kinds: Vec<Kind>,
}

impl RawRule {
    /// What the rule asks for. Its tests of values are added to `tests`.
    pub(super) fn conditions(
        &self,
        action: &Action,
        tests: &mut Vec<ValueTest>,
    ) -> Result<Compiled, Mistake> {
        let when = self.when.get_ref();
        if *when == RawCondition::default() {
            let problem = "`when` is empty; to match all messages, name their sender, as in { from = \"client\" }";
            return Err(at(&self.when, problem));
        }
        let mut parts = Parts { tests, count: 0 };
        let mut conditions = parts.all(when, 0, true)?;
        let after = when.after.as_ref().map(|after| {
            let raw = after.get_ref();
            let inner = raw.when.get_ref();
            let within = raw.within.as_ref().map(nanos).transpose()?;
            if **inner == RawCondition::default() {
                return Err(at(&raw.when, "`when` is empty"));
            }
            let condition = Condition::All(parts.all(inner, 1, false)?);
            Ok(After { condition, within })
        });
        let after = after.transpose()?;
        let rate = when.rate.as_ref().map(rate).transpose()?;
        let kinds = self.kinds(action, &Condition::All(conditions.clone()))?;
        if matches!(action, Action::Hide) {
            if let Some(rate) = &when.rate {
                return Err(at(
                    rate,
                    "`hide` applies to tools, so it cannot have a rate",
                ));
            }
            if let Some(after) = &when.after {
                return Err(at(
                    after,
                    "`hide` applies to tools, so it cannot have `after`",
                ));
            }
            conditions.push(Condition::From(Direction::ServerToClient));
            let listing = TextTest::Among(vec!["tools/list".to_owned()]);
            conditions.push(Condition::Text(Field::Method, listing));
        }
        if let Some(field) = impossible(&conditions) {
            let problem =
                format!("no {field:?} can satisfy all of this at once: the rule would never apply");
            return Err(at(&self.when, problem.to_lowercase()));
        }
        Ok(Compiled {
            condition: Condition::All(conditions),
            rate,
            after,
            kinds,
        })
    }

    /// The kinds of messages that the rule is about.
    fn kinds(&self, action: &Action, condition: &Condition) -> Result<Vec<Kind>, Mistake> {
        let (mut asks_params, mut asks_outcome) = (false, false);
        condition.each(&mut |part| match part {
            Condition::Value(_, Root::Params) => asks_params = true,
            Condition::Value(_, Root::Result) | Condition::ErrorCode(_) | Condition::IsError(_) => {
                asks_outcome = true
            }
            _ => {}
        });
        let hides = matches!(action, Action::Hide);
        let asks_person = matches!(action, Action::Ask(_));
        if asks_params && asks_outcome {
            let problem =
                "the rule tests both parameters and a result or error: no message has both";
            return Err(at(&self.when, problem));
        }
        if hides && (asks_params || asks_outcome) {
            let problem = "`hide` is evaluated for each tool of a listing: use `tool`, `tool_status`, `server`, `client`, `user` or `time`";
            return Err(at(&self.when, problem));
        }
        if asks_person && asks_outcome {
            return Err(at(
                &self.when,
                "`ask` applies to requests, which have no result",
            ));
        }
        let Some(on) = &self.on else {
            if asks_person {
                return Ok(vec![Kind::Request]);
            }
            return Ok(match asks_outcome || hides {
                true => vec![Kind::Response],
                false => vec![Kind::Request, Kind::Notification],
            });
        };
        let kinds = on.get_ref().clone();
        let has_response = kinds.contains(&Kind::Response);
        if kinds.is_empty() {
            return Err(at(on, "`on` is empty: the rule would never apply"));
        }
        if (asks_outcome || hides) && kinds != [Kind::Response] {
            let problem = "only a response has a result, an error or a listing";
            return Err(at(on, problem));
        }
        if asks_person && kinds != [Kind::Request] {
            return Err(at(on, "`ask` applies only to requests"));
        }
        if asks_params && has_response {
            return Err(at(on, "a response has no parameters"));
        }
        Ok(kinds)
    }
}

fn nanos(text: &Spanned<String>) -> Result<u64, Mistake> {
    let duration = duration(text, LOOK_BACK)?;
    Ok(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn rate(raw: &Spanned<RawRate>) -> Result<Rate, Mistake> {
    let RawRate { more_than, within } = raw.get_ref();
    if *more_than > RATE_LIMIT {
        return Err(at(raw, format!("`more_than` must be at most {RATE_LIMIT}")));
    }
    Ok(Rate {
        more_than: *more_than,
        within: nanos(within)?,
    })
}

/// A text field for which no text can pass all of the conditions that must hold together.
fn impossible(conditions: &[Condition]) -> Option<Field> {
    let fields = [Field::Method, Field::Tool, Field::Server, Field::Client];
    fields.into_iter().find(|field| {
        let tests: Vec<&TextTest> = together(conditions)
            .into_iter()
            .filter_map(|condition| match condition {
                Condition::Text(of, test) if of == field => Some(test),
                _ => None,
            })
            .collect();
        let listed = tests.iter().find_map(|test| test.listed());
        listed.is_some_and(|texts| {
            !texts
                .iter()
                .any(|text| tests.iter().all(|test| test.holds(text)))
        })
    })
}

/// The conditions that must hold together, without `all` around them.
fn together(conditions: &[Condition]) -> Vec<&Condition> {
    let each = conditions.iter().flat_map(|condition| match condition {
        Condition::All(parts) => together(parts),
        other => vec![other],
    });
    each.collect()
}

/// Compiles the conditions of one rule.
struct Parts<'a> {
    tests: &'a mut Vec<ValueTest>,
    count: usize,
}

impl Parts<'_> {
    /// Conditions that must all hold.
    fn all(
        &mut self,
        raw: &RawCondition,
        depth: usize,
        is_top: bool,
    ) -> Result<Vec<Condition>, Mistake> {
        let mut all = Vec::new();
        if let Some(party) = raw.from {
            all.push(Condition::From(match party {
                RawParty::Client => Direction::ClientToServer,
                RawParty::Server => Direction::ServerToClient,
            }));
        }
        for (field, test) in [
            (Field::Method, &raw.method),
            (Field::Tool, &raw.tool),
            (Field::Server, &raw.server),
            (Field::Client, &raw.client),
            (Field::User, &raw.user),
        ] {
            if let Some(test) = test {
                all.push(Condition::Text(field, text(test)?));
            }
        }
        for (root, test) in [(Root::Params, &raw.param), (Root::Result, &raw.result)] {
            if let Some(test) = test {
                all.push(self.value(root, test)?);
            }
        }
        if let Some(codes) = &raw.error {
            if codes.get_ref().is_empty() {
                return Err(at(codes, "`error` is empty: it would never match"));
            }
            all.push(Condition::ErrorCode(codes.get_ref().clone()));
        }
        if let Some(is_error) = &raw.is_error {
            all.push(Condition::IsError(*is_error.get_ref()));
        }
        if let Some(finding) = &raw.finding {
            let raw = finding.get_ref();
            let category = raw.category.as_ref().map(category).transpose()?;
            if raw.severity.is_none() && category.is_none() {
                return Err(at(finding, "give a `severity`, a `category` or both"));
            }
            all.push(Condition::Finding(raw.severity, category));
        }
        if let Some(status) = raw.tool_status {
            all.push(Condition::ToolStatus(status));
        }
        if let Some(time) = &raw.time {
            all.push(Condition::Time(time_of_day(time)?));
        }
        for (word, is_there) in [
            ("rate", raw.rate.as_ref().map(|rate| rate.span())),
            ("after", raw.after.as_ref().map(|after| after.span())),
        ] {
            if let Some(span) = is_there.filter(|_| !is_top) {
                let problem = format!(
                    "`{word}` must be next to the other conditions of a rule, not inside one of them"
                );
                return Err((span.start, problem));
            }
        }
        if let Some(parts) = &raw.all {
            let parts = self.several(parts, depth)?;
            all.push(Condition::All(parts));
        }
        if let Some(parts) = &raw.any {
            let parts = self.several(parts, depth)?;
            all.push(Condition::Any(parts));
        }
        if let Some(part) = &raw.not {
            let part = self.one(part.get_ref(), depth, part.span().start)?;
            all.push(Condition::Not(Box::new(part)));
        }
        self.count += all.len();
        Ok(all)
    }

    fn several(
        &mut self,
        raw: &Spanned<Vec<RawCondition>>,
        depth: usize,
    ) -> Result<Vec<Condition>, Mistake> {
        if raw.get_ref().is_empty() {
            return Err(at(raw, "the list of conditions is empty"));
        }
        let position = raw.span().start;
        let parts = raw.get_ref().iter();
        parts.map(|part| self.one(part, depth, position)).collect()
    }

    fn one(
        &mut self,
        raw: &RawCondition,
        depth: usize,
        position: usize,
    ) -> Result<Condition, Mistake> {
        if depth >= DEPTH_LIMIT || self.count >= CONDITION_LIMIT {
            let problem = format!(
                "conditions nest at most {DEPTH_LIMIT} levels, and a rule has at most {CONDITION_LIMIT}"
            );
            return Err((position, problem));
        }
        if *raw == RawCondition::default() {
            return Err((position, "empty condition".to_owned()));
        }
        Ok(Condition::All(self.all(raw, depth + 1, false)?))
    }

    fn value(&mut self, root: Root, raw: &Spanned<RawValueTest>) -> Result<Condition, Mistake> {
        let test = raw.get_ref();
        let path = path(&test.path)?;
        let of = |problem: String| at(raw, problem);
        let ways = [
            test.equals.is_some(),
            test.among.is_some(),
            test.contains.is_some(),
            test.matches.is_some(),
            test.exists.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            let problem = "give one of `equals`, `in`, `contains`, `matches` and `exists`";
            return Err(at(raw, problem));
        }
        let wanted = if let Some(value) = &test.equals {
            Wanted::Among(vec![scalar(value).map_err(of)?])
        } else if let Some(values) = &test.among {
            let scalars = values.iter().map(scalar).collect::<Result<Vec<_>, _>>();
            Wanted::Among(scalars.map_err(of)?)
        } else if let Some(part) = &test.contains {
            Wanted::Text(containing(part).map_err(of)?)
        } else if let Some(pattern) = &test.matches {
            Wanted::Text(matching(pattern).map_err(of)?)
        } else {
            Wanted::Present
        };
        let number = self.tests.len();
        self.tests.push(ValueTest { root, path, wanted });
        let holds = Condition::Value(number, root);
        Ok(match test.exists {
            Some(false) => Condition::Not(Box::new(holds)),
            _ => holds,
        })
    }
}

fn text(raw: &Spanned<RawText>) -> Result<TextTest, Mistake> {
    raw.get_ref().compile().map_err(|problem| at(raw, problem))
}

fn category(raw: &Spanned<RawText>) -> Result<TextTest, Mistake> {
    let test = text(raw)?;
    let unknown = test
        .listed()
        .and_then(|texts| texts.iter().find(|text| Category::parse(text).is_none()));
    match unknown {
        Some(unknown) => Err(at(raw, format!("unknown category of findings `{unknown}`"))),
        None => Ok(test),
    }
}

fn scalar(value: &toml::Value) -> Result<Scalar, String> {
    match value {
        toml::Value::String(text) => Ok(Scalar::Text(text.clone())),
        toml::Value::Boolean(value) => Ok(Scalar::Bool(*value)),
        toml::Value::Float(number) => Ok(Scalar::Number(*number)),
        toml::Value::Integer(number) if number.unsigned_abs() <= 1 << 53 => {
            Ok(Scalar::Number(*number as f64))
        }
        toml::Value::Integer(number) => Err(format!(
            "{number} is larger than 2^53, which JSON readers do not represent exactly"
        )),
        _ => Err("only a string, a number, true or false can be compared".to_owned()),
    }
}

fn time_of_day(raw: &Spanned<RawTime>) -> Result<TimeOfDay, Mistake> {
    let RawTime { from, to, days } = raw.get_ref();
    if from.is_none() && to.is_none() && days.is_none() {
        return Err(at(raw, "give `from`, `to`, `days` or several of them"));
    }
    let hour = |text: &Option<Spanned<String>>| match text {
        Some(text) => text.get_ref().parse::<Time>().map_err(|_| {
            let problem = format!(
                "invalid time of day `{}`: write it like 08:30",
                text.get_ref()
            );
            at(text, problem)
        }),
        None => Ok(Time::midnight()),
    };
    let (begin, end) = (hour(from)?, hour(to)?);
    if begin == end && (from.is_some() || to.is_some()) {
        return Err(at(raw, "`from` and `to` are the same"));
    }
    let mut on = [days.is_none(); 7];
    if let Some(days) = days {
        if days.get_ref().is_empty() {
            return Err(at(days, "`days` is empty: it would never match"));
        }
        for day in days.get_ref() {
            on[*day as usize] = true;
        }
    }
    Ok(TimeOfDay {
        from: begin,
        to: end,
        days: on,
    })
}
