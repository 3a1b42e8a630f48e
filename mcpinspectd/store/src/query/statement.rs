//! Turns SQLite's request for a view into a statement over the store.
//!
//! SQLite rechecks every condition itself. So a statement may return more rows than requested,
//! but never fewer: a condition whose meaning could differ is left out.

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::history::Viewer;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use super::views::{Column, Kind, View};
use crate::messages::{SearchTag, match_expression};

/// Nanoseconds by which a condition on a time is widened.
const SLACK: i64 = 1_000_000_000;

/// A comparison of a column with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Comparison {
    Equal,
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Comparison {
    fn sql(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}

/// How SQLite has decided to read a view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Plan {
    /// Conditions, by the column's number, in the order of their values.
    pub(super) conditions: Vec<(usize, Comparison)>,
    /// Whether rows are ordered by time, and whether the latest is first.
    pub(super) by_time: Option<bool>,
    /// A bit for each column that is read.
    pub(super) used: u64,
}

/// A statement and its bound values.
#[derive(Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Statement {
    /// The statement for a plan and the values of its conditions. Its columns are those of the view,
    /// followed by the location of a message's text.
    ///
    /// # Errors
    /// There are no words to search for.
    pub(super) fn new(
        view: &View,
        plan: &Plan,
        given: &[Value],
        viewer: Viewer,
    ) -> Result<Self, String> {
        let mut conditions: Vec<String> = view.always.into_iter().map(str::to_owned).collect();
        let mut values = Vec::new();
        let mut from = view.from.to_owned();
        let pairs = || {
            let columns = plan.conditions.iter().zip(given);
            columns.filter_map(|((column, comparison), value)| {
                Some((view.columns.get(*column)?, *comparison, value))
            })
        };
        if let Some(by_words) = view.shortcuts.by_words
            && let Some(wanted) = wanted(view, viewer, pairs())?
        {
            by_words.clone_into(&mut from);
            conditions.push("word MATCH ?".to_owned());
            values.push(Value::Text(wanted));
        } else if let (Some([before, after]), Some(latest_first)) =
            (view.shortcuts.by_time, plan.by_time)
        {
            let direction = if latest_first { "DESC" } else { "ASC" };
            from = format!("{before} {direction} {after}");
        }
        if let Viewer::User(uid) = viewer {
            conditions.push(view.of_user.to_owned());
            values.push(Value::Integer(uid.into()));
        }
        for (column, comparison, value) in pairs() {
            match column.kind {
                Kind::Words => {}
                Kind::Time => {
                    let Some(nanos) = moment(value) else { continue };
                    if matches!(
                        comparison,
                        Comparison::Equal | Comparison::Above | Comparison::AtLeast
                    ) {
                        let floor = nanos.saturating_sub(SLACK);
                        conditions.push(format!("{} >= ?", column.sql));
                        values.push(Value::Integer(floor));
                        if let Some(since) = view.shortcuts.since {
                            conditions.push(since.to_owned());
                            values.push(Value::Integer(floor));
                        }
                    }
                    if matches!(
                        comparison,
                        Comparison::Equal | Comparison::Below | Comparison::AtMost
                    ) {
                        conditions.push(format!("{} <= ?", column.sql));
                        values.push(Value::Integer(nanos.saturating_add(SLACK)));
                    }
                }
                _ => {
                    conditions.push(format!("{} {} ?", column.sql, comparison.sql()));
                    values.push(value.clone());
                }
            }
        }
        let cells = view.columns.iter().enumerate().map(|(number, column)| {
            match plan.used & (1 << number) != 0 {
                true => column.sql,
                false => "NULL",
            }
        });
        let mut cells: Vec<&str> = cells.collect();
        if view
            .columns
            .iter()
            .any(|column| matches!(column.kind, Kind::Body))
        {
            cells.extend(["message.position", "message.length"]);
        }
        let mut sql = format!("SELECT {} FROM {from}", cells.join(", "));
        if !conditions.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&conditions.join(" AND "));
        }
        if let Some(group) = view.group {
            sql.push_str(" GROUP BY ");
            sql.push_str(group);
        }
        Ok(Self { sql, values })
    }
}

/// What to ask the full-text index for: the wanted words, or what tags express better than a look at
/// every row.
fn wanted<'a>(
    view: &View,
    viewer: Viewer,
    pairs: impl Iterator<Item = (&'a Column, Comparison, &'a Value)>,
) -> Result<Option<String>, String> {
    let mut words = None;
    let mut has_key = false;
    let mut tags = Vec::new();
    for (column, comparison, value) in pairs {
        let (Comparison::Equal, Value::Text(value)) = (comparison, value) else {
            if matches!(column.kind, Kind::Words) {
                return Err("words to search for must be text".to_owned());
            }
            continue;
        };
        has_key |= view.shortcuts.key == Some(column.name);
        match (column.kind, column.name) {
            (Kind::Words, _) => words = Some(value.as_str()),
            (_, "server") => tags.push(SearchTag::Server(value)),
            (_, "method") => tags.push(SearchTag::Method(value)),
            (_, "tool") => tags.push(SearchTag::Tool(value)),
            _ => {}
        }
    }
    if words.is_none() && (has_key || tags.is_empty()) {
        return Ok(None);
    }
    if let Viewer::User(uid) = viewer {
        tags.push(SearchTag::User(Some(uid)));
    }
    let wanted = match_expression(words.unwrap_or_default(), tags.into_iter())?;
    Ok((!wanted.is_empty()).then_some(wanted))
}

/// The time that text stands for among times as the views write them, which are compared as text: a
/// time, or the start of one. `None` if no time begins like that; then the order of texts is not that of
/// times.
fn moment(value: &Value) -> Option<i64> {
    const SHAPE: &str = "0000-01-01T00:00:00Z";
    let Value::Text(text) = value else {
        return None;
    };
    let (start, rest) = match text.split_once('.') {
        Some((start, fraction)) => (start, Some(fraction.strip_suffix('Z').unwrap_or(fraction))),
        None => (text.strip_suffix('Z').unwrap_or(text), None),
    };
    let is_complete = start.len() == SHAPE.len() - 1;
    let has_shape = start.len() < SHAPE.len()
        && start
            .bytes()
            .zip(SHAPE.bytes())
            .all(|(byte, shape)| match shape {
                b'0'..=b'9' => byte.is_ascii_digit(),
                _ => byte == shape,
            })
        && (is_complete || (rest.is_none() && !text.ends_with('Z')))
        && rest.is_none_or(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    // A year, month or day that is cut off in the middle would be mistaken for another.
    if !has_shape
        || !matches!(
            start.len(),
            4 | 5 | 7 | 8 | 10 | 11 | 13 | 14 | 16 | 17 | 19
        )
    {
        return None;
    }
    let whole = format!("{start}{}", SHAPE.get(start.len()..)?);
    let nanos = Timestamp::parse(&whole)?.0;
    i64::try_from(nanos).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::views::VIEWS;

    fn view(name: &str) -> &'static View {
        VIEWS.into_iter().find(|view| view.name == name).unwrap()
    }

    fn number(view: &View, name: &str) -> usize {
        view.columns
            .iter()
            .position(|column| column.name == name)
            .unwrap()
    }

    fn statement(name: &str, conditions: &[(&str, Comparison, &str)], viewer: Viewer) -> Statement {
        let view = view(name);
        let plan = Plan {
            conditions: conditions
                .iter()
                .map(|(column, comparison, _)| (number(view, column), *comparison))
                .collect(),
            by_time: Some(true),
            used: 1,
        };
        let given: Vec<Value> = conditions
            .iter()
            .map(|(_, _, value)| Value::Text((*value).to_owned()))
            .collect();
        Statement::new(view, &plan, &given, viewer).unwrap()
    }

    #[test]
    fn every_statement_names_the_user() {
        for view in VIEWS {
            for by_time in [None, Some(true), Some(false)] {
                let plan = Plan {
                    by_time,
                    used: u64::MAX,
                    ..Plan::default()
                };
                let made = Statement::new(view, &plan, &[], Viewer::User(7)).unwrap();
                assert!(made.sql.contains(view.of_user), "{}", made.sql);
                assert_eq!(made.values, [Value::Integer(7)]);
                let made = Statement::new(view, &plan, &[], Viewer::All).unwrap();
                assert!(!made.sql.contains("uid = ?"), "{}", made.sql);
            }
        }
    }

    #[test]
    fn words_and_names_go_through_the_index_and_one_session_does_not() {
        let equal = Comparison::Equal;
        let of_words = statement("messages", &[("words", equal, "Nordkap")], Viewer::User(7));
        assert!(of_words.sql.contains("word MATCH ?"), "{}", of_words.sql);
        assert!(matches!(&of_words.values[0], Value::Text(text) if text.contains("\"nordkap\"")));
        let of_tool = statement("messages", &[("tool", equal, "echo")], Viewer::All);
        assert!(of_tool.sql.contains("word MATCH ?") && of_tool.sql.contains("message.tool = ?"));
        let of_session = statement(
            "messages",
            &[("tool", equal, "echo"), ("session", equal, "s")],
            Viewer::All,
        );
        assert!(!of_session.sql.contains("word MATCH"), "{}", of_session.sql);
    }

    #[test]
    fn a_time_narrows_down_what_is_read() {
        let made = statement(
            "messages",
            &[("time", Comparison::Above, "2026-11-23")],
            Viewer::All,
        );
        assert!(made.sql.contains("message.time >= ?"), "{}", made.sql);
        assert!(made.sql.contains("FROM batch"), "{}", made.sql);
        let floor = 1_795_392_000_000_000_000 - SLACK;
        assert_eq!(made.values[0], Value::Integer(floor));
        for unclear in [
            "yesterday",
            "2026-11-23 10:00:00",
            "2026-11-23T10:00:00+02:00",
            "2026-1",
            "",
        ] {
            let made = statement(
                "messages",
                &[("time", Comparison::Above, unclear)],
                Viewer::All,
            );
            assert!(
                !made.sql.contains("message.time >= ?"),
                "{unclear}: {}",
                made.sql
            );
        }
    }

    proptest! {
        /// What SQLite compares as text must never be left out by a comparison as time.
        #[test]
        fn conditions_on_times_leave_out_nothing(
            nanos in 0_u64..4_102_444_800_000_000_000,
            other in 0_u64..4_102_444_800_000_000_000,
            near in any::<bool>(),
            cut in 0_usize..31,
        ) {
            let other = if near { nanos.saturating_add(other % 3_000_000_000) } else { other };
            let shown = Timestamp(nanos).exact();
            let mut asked = Timestamp(other).exact();
            asked.truncate(cut);
            if let Some(bound) = moment(&Value::Text(asked.clone())) {
                let nanos = i64::try_from(nanos).unwrap();
                if shown >= asked {
                    prop_assert!(nanos >= bound - SLACK, "{shown} {asked}");
                }
                if shown <= asked {
                    prop_assert!(nanos <= bound + SLACK, "{shown} {asked}");
                }
            }
        }
    }
}
