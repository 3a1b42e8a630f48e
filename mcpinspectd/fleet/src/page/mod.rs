//! The report as one page: what needs attention first, with drawings of what a list cannot show.
//!
//! - `grid`: hosts and servers
//! - `spread`: how definitions spread from day to day
//! - `lists`: tables
//! - `words`: times, hashes and names in few words

mod grid;
mod lists;
mod spread;
#[cfg(test)]
mod tests;
mod words;

use std::io;

use mcpinspect_core::html;
use mcpinspect_core::html::{Text, put};

use self::words::{counted, minute, named, short, word};
use super::digest::{DefinitionEntry, DifferingTool, Digest};
use super::report::{
    AlertReport, DecisionReport, Definition, HostReport, Output, ServerReport, Settings, Summary,
    ToolReport,
};

/// Rows of a list.
const SHOWN: usize = 200;
/// Changes of a definition to describe.
const CHANGES: usize = 8;
/// Definitions of one tool to describe.
const DEFINITIONS: usize = 12;
/// Longest quoted description, in characters.
const QUOTED: usize = 300;

const STYLE: &str = include_str!("style.css");

/// Gathers the page.
#[derive(Debug)]
pub struct Page {
    digest: Digest,
    grid: grid::Grid,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            digest: Digest::new(SHOWN),
            grid: grid::Grid::default(),
        }
    }
}

impl Output for Page {
    fn host(&mut self, host: HostReport) -> io::Result<()> {
        self.grid.host(&host);
        self.digest.host(host)
    }

    fn server(&mut self, server: ServerReport) -> io::Result<()> {
        self.grid.server(&server);
        self.digest.server(server)
    }

    fn tool(&mut self, tool: ToolReport) -> io::Result<()> {
        self.grid.tool(&tool);
        self.digest.tool(tool)
    }

    fn server_end(&mut self, is_approved: bool) -> io::Result<()> {
        self.grid.server_end();
        self.digest.server_end(is_approved)
    }

    fn decision(&mut self, decision: DecisionReport) -> io::Result<()> {
        self.digest.decision(decision)
    }

    fn alert(&mut self, alert: AlertReport) -> io::Result<()> {
        self.digest.alert(alert)
    }
}

impl Page {
    /// The whole page.
    pub fn html(&self, summary: &Summary, settings: &Settings, complete: bool) -> String {
        let digest = &self.digest;
        let mut page = String::new();
        let out = &mut page;
        let title = match digest.hosts.count {
            1 => "MCP servers of 1 host".to_owned(),
            hosts => format!("MCP servers of {hosts} hosts"),
        };
        html::begin(out, &title, STYLE);
        out.push_str(
            "<nav><a href=\"#differences\">Differences</a><a href=\"#new\">New</a><a href=\"#where\">Hosts and servers</a>\
             <a href=\"#hosts\">Hosts</a><a href=\"#approvals\">Approvals</a><a href=\"#alerts\">Alerts</a></nav>\n",
        );
        overview(digest, summary, settings, complete, out);
        out.push_str("<h2 id=\"differences\">Different between hosts</h2>\n");
        if digest.differences.count == 0 {
            out.push_str("<p>All hosts see the same definitions of shared tools.</p>\n");
        }
        for differing in &digest.differences.shown {
            put_differing(differing, out);
        }
        lists::more(&digest.differences, out);
        if digest.changed.count > 0 {
            out.push_str("<h2 id=\"changed\">Changed, and the same everywhere now</h2>\n");
            for differing in &digest.changed.shown {
                put_differing(differing, out);
            }
            lists::more(&digest.changed, out);
        }
        put_new(digest, summary, settings, out);
        out.push_str("<h2 id=\"where\">Hosts and servers</h2>\n");
        self.grid.put(out);
        lists::servers(digest, out);
        out.push_str("<h2 id=\"hosts\">Hosts that need attention</h2>\n");
        lists::hosts(&digest.conspicuous, out);
        out.push_str("<h2 id=\"approvals\">Approvals</h2>\n");
        lists::approvals(digest, out);
        out.push_str("<h2 id=\"alerts\">Alerts</h2>\n");
        lists::alerts(digest, summary, out);
        out.push_str("</body></html>\n");
        page
    }
}

fn overview(
    digest: &Digest,
    summary: &Summary,
    settings: &Settings,
    complete: bool,
    out: &mut String,
) {
    out.push_str("<dl>");
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            put!(out, "<dt>{name}</dt><dd>{}</dd>\n", Text(value));
        }
    };
    if let Some(now) = settings.now {
        row("as of", &minute(now));
    }
    row("begins", &minute(summary.oldest));
    let states = summary.states.iter();
    let states: Vec<String> = states
        .map(|(state, count)| format!("{count} {}", word(*state)))
        .collect();
    row("hosts", &states.join(", "));
    row("servers", &digest.servers.count.to_string());
    row("tools that differ", &summary.differences.to_string());
    let alerts = summary.alert_counts.iter().rev();
    let alerts: Vec<String> = alerts
        .map(|(severity, count)| format!("{count} {}", severity.as_str()))
        .collect();
    row("alerts", &alerts.join(", "));
    let left = summary.left_out;
    if left.forged > 0 {
        row(
            "forged entries",
            &format!(
                "{} claim to be from mcpinspectd but were not written by root",
                left.forged
            ),
        );
    }
    if left.unreadable > 0 {
        row("unreadable entries", &left.unreadable.to_string());
    }
    if !complete {
        row("incomplete", "not everything was read");
    }
    out.push_str("</dl>\n");
}

fn put_differing(differing: &DifferingTool, out: &mut String) {
    let tool = &differing.tool;
    put!(
        out,
        "<div class=\"finding {}\"><b>{} / {}</b>",
        if tool.agreed { "none" } else { "high" },
        Text(&differing.server),
        Text(&tool.tool)
    );
    if !differing.is_one {
        out.push_str("<p class=\"note\">It is launched in different ways and may not be the same server.</p>");
    }
    spread::put(tool, out);
    for (number, seen) in tool.definitions.iter().take(DEFINITIONS).enumerate() {
        put_definition(number, seen, out);
    }
    let more = tool.definitions.len().saturating_sub(DEFINITIONS);
    if more > 0 {
        put!(
            out,
            "<p class=\"note\">… and {more} more definitions; --json has them</p>"
        );
    }
    out.push_str("</div>\n");
}

fn put_definition(number: usize, seen: &Definition, out: &mut String) {
    out.push_str("<div class=\"definition\">");
    if number < spread::DRAWN {
        put!(out, "<span class=\"key d{number}\"></span> ");
    }
    put!(
        out,
        "<code>{}</code> {}, since {}",
        Text(seen.hash.as_deref().map_or("(gone)", short)),
        Text(&named(&seen.hosts, seen.host_count)),
        Text(&minute(seen.since))
    );
    match seen.approved_count {
        0 => {}
        all if all == seen.host_count => out.push_str("; approved"),
        some => put!(out, "; approved on {some}"),
    }
    for change in seen.changes.iter().take(CHANGES) {
        let previous = change.previous_hash.as_deref().map_or("", short);
        put!(
            out,
            "<br>differs from <code>{}</code> in {}",
            Text(previous),
            Text(&change.fields)
        );
    }
    if let Some(description) = &seen.description {
        let quoted: String = description.chars().take(QUOTED).collect();
        let more = match quoted.len() < description.len() {
            true => "…",
            false => "",
        };
        put!(out, "<q>{}{more}</q>", Text(&quoted));
    }
    out.push_str("</div>");
}

fn put_new(digest: &Digest, summary: &Summary, settings: &Settings, out: &mut String) {
    let hours = settings.new_within / 3_600_000_000_000;
    put!(
        out,
        "<h2 id=\"new\">First seen in the last {hours} hours</h2>\n"
    );
    if digest.new_servers.count + digest.new_definitions.count == 0 {
        out.push_str("<p>Nothing.</p>\n");
        return;
    }
    let begin = minute(summary.oldest);
    put!(
        out,
        "<p class=\"note\">The collection begins at {}.</p>\n<ul>\n",
        Text(&begin)
    );
    for server in &digest.new_servers.shown {
        put!(
            out,
            "<li>{} server <b>{}</b>, first on {}; now on {}</li>\n",
            Text(&minute(server.first_seen)),
            Text(&server.server),
            Text(&server.first_host),
            counted(server.host_count)
        );
    }
    for DefinitionEntry { server, tool, seen } in &digest.new_definitions.shown {
        put!(
            out,
            "<li>{} <b>{} / {}</b> <code>{}</code>, first on {}; now on {}</li>\n",
            Text(&minute(seen.since)),
            Text(server),
            Text(tool),
            Text(seen.hash.as_deref().map_or("", short)),
            Text(&seen.first_host),
            counted(seen.host_count)
        );
    }
    out.push_str("</ul>\n");
    lists::more(&digest.new_servers, out);
    lists::more(&digest.new_definitions, out);
}
