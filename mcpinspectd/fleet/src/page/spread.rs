//! How definitions of a tool spread, as a drawing: how many hosts had seen each one, day by day.

use mcpinspect_core::html::{Text, put};
use mcpinspect_core::model::Timestamp;

use super::super::report::{Definition, ToolReport};

/// Definitions to draw, each in a different colour.
pub(super) const DRAWN: usize = 6;
/// A day, in nanoseconds.
const DAY: u64 = 86_400_000_000_000;
/// The position of the drawing.
const LEFT: u64 = 56;
const RIGHT: u64 = 690;
const TOP: u64 = 12;
const BOTTOM: u64 = 172;
const WIDTH: u64 = 720;
const HEIGHT: u64 = 200;

/// A line: the definition's number, and after which days how many hosts had seen it.
struct Line {
    number: usize,
    points: Vec<(u64, u64)>,
}

/// Adds the drawing, unless everything happened on one day.
pub(super) fn put(tool: &ToolReport, out: &mut String) {
    let shown = tool.definitions.iter().take(DRAWN).enumerate();
    let lines: Vec<Line> = shown.map(|(number, seen)| line(number, seen)).collect();
    let days = || lines.iter().flat_map(|line| &line.points);
    let (Some(first), Some(last)) = (
        days().map(|(day, _)| *day).min(),
        days().map(|(day, _)| *day).max(),
    ) else {
        return;
    };
    let most = days().map(|(_, hosts)| *hosts).max().unwrap_or(1).max(1);
    if first == last {
        return;
    }
    let span = last - first;
    let x = |day: u64| LEFT + (day - first) * (RIGHT - LEFT) / span;
    let y = |hosts: u64| {
        // Numbers of hosts are far below what would not fit.
        BOTTOM - hosts.saturating_mul(BOTTOM - TOP) / most
    };
    put!(
        out,
        "<svg class=\"spread\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
         aria-label=\"hosts that had seen each definition, by day\">\n\
         <line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\n\
         <line class=\"axis\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{BOTTOM}\"/>\n"
    );
    for hosts in [0, most] {
        put!(
            out,
            "<text class=\"number\" x=\"{}\" y=\"{}\">{hosts}</text>\n",
            LEFT - 6,
            y(hosts) + 4
        );
    }
    for (day, class) in [(first, "begin"), (last, "end")] {
        put!(
            out,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>\n",
            x(day),
            BOTTOM + 18,
            Text(&name(day))
        );
    }
    for line in &lines {
        let mut path = String::new();
        let mut hosts = 0;
        for (day, seen) in &line.points {
            let command = if path.is_empty() { 'M' } else { 'L' };
            put!(&mut path, "{command}{} {} L", x(*day), y(hosts));
            put!(&mut path, "{} {} ", x(*day), y(*seen));
            hosts = *seen;
        }
        put!(&mut path, "L{RIGHT} {}", y(hosts));
        put!(out, "<path class=\"d{}\" d=\"{path}\"/>\n", line.number);
    }
    out.push_str("</svg>\n");
}

fn line(number: usize, seen: &Definition) -> Line {
    let mut hosts = 0;
    let days = seen.spread.iter().filter_map(|day| {
        let at = number_of(&day.day)?;
        hosts += day.hosts;
        Some((at, hosts))
    });
    Line {
        number,
        points: days.collect(),
    }
}

/// A day as a number, such as `2026-01-31`.
fn number_of(day: &str) -> Option<u64> {
    let begin = Timestamp::parse(&format!("{day}T00:00:00Z"))?;
    Some(begin.0 / DAY)
}

fn name(day: u64) -> String {
    let begin = Timestamp(day.saturating_mul(DAY)).to_string();
    begin.split('T').next().unwrap_or_default().to_owned()
}
