//! A part of what a loader has to send: rows as columns, by target table.

use std::io;

use super::super::bytes::put_text;
use super::super::entry::Machine;
use super::super::row::{EventRecord, Row};
use super::super::table::RowCursor;
use super::super::value::Value;
use super::columns::{Columns, NUMBERS, damaged, micros, put_bytes, put_u64};
use super::seen_item::SeenItem;

/// Rows for the engine.
#[derive(Debug, Default)]
pub struct Batch {
    /// For `seen`.
    pub seen: Vec<u8>,
    /// For `incoming`.
    pub facts: Vec<u8>,
    /// For `counts`.
    pub counts: Vec<u8>,
    /// For `events`.
    pub events: Vec<u8>,
    /// How many months they span.
    pub months: usize,
    /// The last of them.
    month: Option<u64>,
    /// How many rows there are.
    pub rows: u64,
}

impl Batch {
    /// Adds the current row of `rows`.
    ///
    /// # Errors
    /// It is damaged.
    pub fn add(&mut self, rows: &RowCursor<'_>, batch: &str) -> io::Result<()> {
        let value = Value::read(rows.value()).ok_or_else(damaged)?;
        let columns = Columns::of(&value);
        let row = Row::read(rows.key(), value).ok_or_else(damaged)?;
        if let Row::Event(event, host) = &row {
            self.event(event, &host.text);
            return Ok(());
        }
        // The same as `Server`, in another order.
        if matches!(row, Row::HostServer(..)) {
            return Ok(());
        }
        self.rows += 1;
        if let Some((item, machine, sighting)) = SeenItem::of(&row) {
            item.put(&mut self.seen).ok_or_else(damaged)?;
            self.seen.extend_from_slice(&machine.0);
            for time in [sighting.first, sighting.last] {
                // The state of `min` or `max`: that there is a number, and the number.
                self.seen.push(1);
                put_u64(&mut self.seen, micros(time));
            }
            return Ok(());
        }
        let names = names(&row);
        let is_counted = matches!(
            row,
            Row::Unreadable(_) | Row::Host(..) | Row::HostAlerts(..) | Row::Finding(..)
        );
        put_bytes(&mut self.facts, rows.key());
        for name in [
            names.part,
            names.server,
            names.tool,
            &names.detail,
            &names.machine,
        ] {
            put_text(&mut self.facts, name);
        }
        put_u64(&mut self.facts, columns.first);
        put_u64(&mut self.facts, columns.last);
        put_bytes(&mut self.facts, &columns.said);
        put_bytes(&mut self.facts, &columns.newest);
        put_bytes(&mut self.facts, &columns.service);
        put_u64(&mut self.facts, columns.event);
        let is_some = |numbers: &[u64; NUMBERS]| is_counted && *numbers != [0; NUMBERS];
        if let Some(numbers) = columns.numbers.filter(is_some) {
            put_bytes(&mut self.counts, rows.key());
            put_text(&mut self.counts, batch);
            for number in numbers {
                put_u64(&mut self.counts, number);
            }
        }
        Ok(())
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.seen.len() + self.facts.len() + self.counts.len() + self.events.len()
    }

    fn event(&mut self, event: &EventRecord<'_>, host: &str) {
        let micros = micros(event.time);
        let second = u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX);
        // Events come in order of time, so each month comes once. Months are distinguished roughly:
        // what counts is that there are not too many.
        let month = u64::from(second) / (28 * 86_400);
        if self.month.replace(month) != Some(month) {
            self.months += 1;
        }
        let out = &mut self.events;
        out.extend_from_slice(&second.to_le_bytes());
        put_u64(out, micros);
        put_text(out, &event.machine.to_string());
        let hash = event.definition.shown().unwrap_or_default();
        for text in [
            host,
            event.event,
            event.severity.map_or("", |severity| severity.as_str()),
            event.server,
            event.tool.unwrap_or_default(),
            &hash,
            event.category.unwrap_or_default(),
            event.pattern.unwrap_or_default(),
        ] {
            put_text(out, text);
        }
        self.rows += 1;
    }
}

/// What a row is about, for people's own questions.
struct Names<'a> {
    part: &'static str,
    server: &'a str,
    tool: &'a str,
    detail: String,
    machine: String,
}

fn names<'a>(row: &Row<'a>) -> Names<'a> {
    let of = |part, server, tool, detail: Option<String>, machine: Option<&Machine>| Names {
        part,
        server,
        tool,
        detail: detail.unwrap_or_default(),
        machine: machine.map(Machine::to_string).unwrap_or_default(),
    };
    let text = |text: &str| Some(text.to_owned());
    match row {
        Row::Unreadable(_) => of("unreadable", "", "", None, None),
        Row::Host(host, _) => of("host", "", "", None, Some(host)),
        Row::HostAlerts(host, severity, _) => {
            of("host_alerts", "", "", text(severity.as_str()), Some(host))
        }
        Row::Description(server, tool, hash, _) => {
            of("description", server, tool, hash.shown(), None)
        }
        Row::Change(server, tool, hash, _, _) => of("change", server, tool, hash.shown(), None),
        Row::LastDecision(server, tool, host, hash, _) => {
            of("decided", server, tool, hash.shown(), Some(host))
        }
        Row::Decision(decision) => of(
            "decision",
            decision.server,
            decision.item,
            text(decision.decision),
            Some(&decision.machine),
        ),
        // These have tables of their own.
        Row::HostServer(..)
        | Row::Server(..)
        | Row::Fingerprint(..)
        | Row::Version(..)
        | Row::Tool(..)
        | Row::Event(..) => of("", "", "", None, None),
        Row::Finding(finding, host, _) => of(
            "finding",
            finding.server,
            finding.tool.unwrap_or_default(),
            text(finding.category.unwrap_or(finding.event)),
            Some(host),
        ),
    }
}
