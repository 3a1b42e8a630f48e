//! The views as SQLite's virtual tables.
//!
//! A cursor is a statement over the store, on a connection that the query's own statement cannot name.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int};

use mcpinspect_core::model::Timestamp;
use rusqlite::types::{Null, Value};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor,
    sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{CachedStatement, Connection, Error, Rows, params_from_iter};
use self_cell::{MutBorrow, self_cell};

use super::statement::{Comparison, Plan, Statement};
use super::stores::Stores;
use super::views::{Column, Kind, VIEWS, View};
use crate::messages::{Texts, histogram};

const MODULE: &Module<'static, Table> = &Module::eponymous_only_module();

/// Makes the views known to a connection.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    VIEWS
        .into_iter()
        .try_for_each(|view| connection.create_module(view.name, MODULE, Some(view)))
}

fn failed(message: impl Into<String>) -> Error {
    Error::ModuleError(message.into())
}

/// A view.
#[repr(C)]
struct Table {
    base: sqlite3_vtab,
    view: &'static View,
}

// SAFETY: `repr(C)`, and SQLite's structure comes first.
unsafe impl VTab<'static> for Table {
    type Aux = &'static View;
    type Cursor = Cursor;

    fn connect(
        _: &mut VTabConnection,
        view: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, Self)> {
        let view = *view.ok_or_else(|| failed("no view"))?;
        let columns: Vec<String> = view
            .columns
            .iter()
            .map(|column| format!("\"{}\" {}", column.name, column.declared()))
            .collect();
        let schema = CString::new(format!("CREATE TABLE x({})", columns.join(", ")))
            .map_err(|error| failed(error.to_string()))?;
        let base = sqlite3_vtab::default();
        Ok((Cow::Owned(schema), Self { base, view }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        let mut plan = Plan::default();
        let mut taken = Vec::new();
        let mut rows = self.view.rows;
        let mut is_narrow = false;
        for (index, constraint) in info.constraints().enumerate() {
            let Ok(number) = usize::try_from(constraint.column()) else {
                continue;
            };
            let Some(column) = self.view.columns.get(number) else {
                continue;
            };
            let Some(comparison) = comparison(&constraint.operator()) else {
                continue;
            };
            let is_words = column.is_hidden() && comparison == Comparison::Equal;
            if is_words && !constraint.is_usable() {
                return Ok(false);
            }
            let is_alike = || {
                info.collation(index)
                    .is_ok_and(|collation| collation.eq_ignore_ascii_case("BINARY"))
            };
            let is_taken = is_words || column.is_pushed && constraint.is_usable() && is_alike();
            if !is_taken {
                continue;
            }
            let is_key = self.view.shortcuts.key == Some(column.name);
            rows /= match comparison {
                Comparison::Equal if is_key || is_words => 1_000.0,
                Comparison::Equal => 10.0,
                _ => 3.0,
            };
            is_narrow |= comparison == Comparison::Equal && (is_key || is_words);
            plan.conditions.push((number, comparison));
            taken.push((index, is_words));
        }
        let mut orders = info.order_bys();
        if let (Some(order), None) = (orders.next(), orders.next())
            && self.view.shortcuts.by_time.is_some()
            && !is_narrow
            && usize::try_from(order.column())
                .ok()
                .and_then(|number| self.view.columns.get(number))
                .is_some_and(|column| column.name == "time")
            && plan.conditions.iter().all(|(number, comparison)| {
                *comparison != Comparison::Equal || !is_indexed(&self.view.columns[*number])
            })
        {
            plan.by_time = Some(order.is_order_by_desc());
        }
        plan.used = info.col_used();
        info.set_order_by_consumed(plan.by_time.is_some());
        for (position, (index, is_words)) in (1..).zip(taken) {
            let mut usage = info.constraint_usage(index);
            usage.set_argv_index(position);
            usage.set_omit(is_words);
        }
        info.set_estimated_cost(rows.max(1.0) + 20.0);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an estimate of at most a million"
        )]
        info.set_estimated_rows(rows.max(1.0) as i64);
        let plan = serde_json::to_string(&plan).map_err(|error| failed(error.to_string()))?;
        info.set_idx_str(&plan);
        Ok(true)
    }

    fn open(&'static mut self) -> rusqlite::Result<Cursor> {
        let stores = Stores::of_this_thread().map_err(failed)?;
        let connection = stores.connection(self.view.source).map_err(failed)?;
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            view: self.view,
            stores,
            connection,
            rows: None,
            row: None,
            number: 0,
            words: None,
            texts: RefCell::new(Texts::new(connection)),
        })
    }
}

/// Whether the full-text index finds rows by this column, in an order of its own.
fn is_indexed(column: &Column) -> bool {
    matches!(column.name, "server" | "method" | "tool")
}

fn comparison(operator: &IndexConstraintOp) -> Option<Comparison> {
    match operator {
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Some(Comparison::Equal),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT => Some(Comparison::Above),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => Some(Comparison::AtLeast),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT => Some(Comparison::Below),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => Some(Comparison::AtMost),
        _ => None,
    }
}

self_cell!(
    /// A statement and its rows.
    struct StatementRows {
        owner: MutBorrow<CachedStatement<'static>>,
        #[not_covariant]
        dependent: Rows,
    }
);

/// A row, as the statement over the store returns it.
type Cells = Vec<Value>;

/// Rows of a view.
#[repr(C)]
struct Cursor {
    base: sqlite3_vtab_cursor,
    view: &'static View,
    stores: &'static Stores,
    connection: &'static Connection,
    rows: Option<StatementRows>,
    row: Option<Cells>,
    number: i64,
    /// The words asked for.
    words: Option<Value>,
    texts: RefCell<Texts<'static>>,
}

impl Cursor {
    fn advance(&mut self) -> rusqlite::Result<()> {
        self.row = match &mut self.rows {
            None => None,
            Some(rows) => rows.with_dependent_mut(|_, rows| match rows.next()? {
                None => Ok::<_, Error>(None),
                Some(row) => {
                    let cells = (0..row.as_ref().column_count()).map(|number| row.get(number));
                    Ok(Some(cells.collect::<rusqlite::Result<Cells>>()?))
                }
            })?,
        };
        self.number += 1;
        Ok(())
    }

    /// The text of the row's message.
    fn body(&self, row: &[Value]) -> rusqlite::Result<Value> {
        let integer = |value: Option<&Value>| match value {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        };
        let place = |value| integer(value).and_then(|number| usize::try_from(number).ok());
        let [.., position, length] = row else {
            return Ok(Value::Null);
        };
        let block = self.view.columns.iter().zip(row);
        let block = block
            .filter(|(column, _)| matches!(column.kind, Kind::Body))
            .find_map(|(_, value)| integer(Some(value)));
        let text =
            self.texts
                .borrow_mut()
                .read(block, place(Some(position)), place(Some(length)))?;
        Ok(match text.map(String::from_utf8) {
            None => Value::Null,
            Some(Ok(text)) => Value::Text(text),
            Some(Err(error)) => Value::Blob(error.into_bytes()),
        })
    }
}

// SAFETY: `repr(C)`, and SQLite's structure comes first.
unsafe impl VTabCursor for Cursor {
    fn filter(
        &mut self,
        _: c_int,
        plan: Option<&str>,
        arguments: &Filters<'_>,
    ) -> rusqlite::Result<()> {
        self.rows = None;
        let plan: Plan = serde_json::from_str(plan.unwrap_or_default())
            .map_err(|error| failed(error.to_string()))?;
        let given = (0..arguments.len())
            .map(|index| arguments.get(index))
            .collect::<rusqlite::Result<Vec<Value>>>()?;
        let mut named = plan.conditions.iter().zip(&given);
        self.words = named
            .find(|((number, _), _)| self.view.columns[*number].is_hidden())
            .map(|(_, value)| value.clone());
        let Statement { sql, values } =
            Statement::new(self.view, &plan, &given, self.stores.viewer).map_err(failed)?;
        let statement = self.connection.prepare_cached(&sql)?;
        self.rows = Some(StatementRows::try_new(
            MutBorrow::new(statement),
            |statement| statement.borrow_mut().query(params_from_iter(values)),
        )?);
        self.number = 0;
        self.advance()
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.advance()
    }

    fn eof(&self) -> bool {
        self.row.is_none()
    }

    fn column(&self, context: &mut Context, number: c_int) -> rusqlite::Result<()> {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let (Some(row), Some(column)) = (&self.row, self.view.columns.get(number)) else {
            return context.set_result(Null);
        };
        let value = row.get(number).unwrap_or(&Value::Null);
        match (column.kind, value) {
            (Kind::Words, _) => context.set_result(&self.words),
            (Kind::Body, _) => context.set_result(self.body(row)?),
            (Kind::Time, Value::Integer(nanos)) => {
                let nanos = u64::try_from(*nanos).unwrap_or_default();
                context.set_result(Timestamp(nanos).exact())
            }
            (Kind::Word(word), Value::Integer(number)) => {
                context.set_result(word(usize::try_from(*number).unwrap_or(usize::MAX)))
            }
            (Kind::Quantile(share), Value::Text(latency)) => {
                let nanos = histogram(latency).quantile(share);
                context.set_result(nanos.and_then(|nanos| i64::try_from(nanos).ok()))
            }
            _ => context.set_result(value),
        }
    }

    /// Rows are numbered as they are read: the store's own numbers would reveal how much others have said.
    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.number)
    }
}
