//! How long answers took, by method and tool, and over the session.

use std::collections::BTreeMap;

use mcpinspect_core::html::{Text, put};
use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::session::latency::Histogram;
use mcpinspect_core::text::human::duration;

use crate::Entry;

/// Methods and tools with a row of their own; the others share one.
const KINDS: usize = 200;
/// Bytes of their names.
const NAME: usize = 128;

/// Answers, counted.
#[derive(Debug, Default)]
pub(super) struct Latencies(BTreeMap<(String, String), Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    errors: u64,
    longest: u64,
    times: Histogram,
}

impl Latencies {
    /// Counts a message.
    pub(super) fn add(&mut self, entry: &Entry) {
        let is_request = entry.kind == "request";
        if !is_request && entry.latency_ns.is_none() {
            return;
        }
        let name =
            |text: &Option<String>| cut(text.as_deref().unwrap_or_default(), NAME).to_owned();
        let mut key = (name(&entry.method), name(&entry.tool));
        if self.0.len() >= KINDS && !self.0.contains_key(&key) {
            key = ("others".to_owned(), String::new());
        }
        let counts = self.0.entry(key).or_default();
        counts.requests += u64::from(is_request);
        counts.errors += u64::from(entry.is_error);
        if let Some(nanos) = entry.latency_ns {
            counts.times.add(nanos);
            counts.longest = counts.longest.max(nanos);
        }
    }

    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a table, the slowest first; the bars share one scale.
    pub(super) fn put(&self, out: &mut String) {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.times.quantile(0.5)));
        let widest = rows.iter().map(|(_, counts)| counts.longest).max();
        let widest = widest.unwrap_or_default().max(1);
        out.push_str(
            "<table><thead><tr><th>call</th><th>requests</th><th>errors</th><th>median</th><th>90 %</th>\
             <th>99 %</th><th>longest</th><th></th></tr></thead><tbody>\n",
        );
        for ((method, tool), counts) in rows {
            let at = |part| {
                let nanos = counts.times.quantile(part);
                nanos.map_or_else(
                    || "–".to_owned(),
                    |nanos| duration(nanos.min(counts.longest)),
                )
            };
            put!(out, "<tr><td>{}", Text(method));
            if !tool.is_empty() {
                put!(out, " <b>{}</b>", Text(tool));
            }
            put!(
                out,
                "</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                counts.requests,
                counts.errors,
                at(0.5),
                at(0.9),
                at(0.99),
                at(1.0),
                bar(counts, widest)
            );
        }
        out.push_str("</tbody></table>\n");
    }
}

/// A bar from the median to the longest time, of `widest` nanoseconds in all.
fn bar(counts: &Counts, widest: u64) -> String {
    const WIDTH: u64 = 160;
    let x = |nanos: u64| u128::from(nanos) * u128::from(WIDTH) / u128::from(widest);
    let Some(median) = counts.times.quantile(0.5) else {
        return String::new();
    };
    let (median, longest) = (x(median.min(counts.longest)), x(counts.longest));
    format!(
        "<svg class=\"bar\" width=\"{WIDTH}\" height=\"10\" role=\"img\" aria-label=\"median and longest\">\
         <rect class=\"longest\" width=\"{}\" height=\"10\"/><rect class=\"median\" width=\"{}\" height=\"10\"/></svg>",
        longest.max(1),
        median.max(1)
    )
}
