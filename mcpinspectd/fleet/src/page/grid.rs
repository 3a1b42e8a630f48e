//! Hosts and servers, as a drawing: a row per host, a column per server, and what is where.
//!
//! No screen has room for ten thousand hosts. Those that need attention come first, and likewise the servers on
//! the most hosts; how many are left out is stated below.

use std::collections::HashMap;

use mcpinspect_core::html::{Text, put};
use mcpinspect_core::mcp::json::cut;

use super::super::report::{HostReport, ServerReport, State, ToolReport};
use super::words::word;

/// Hosts and servers to draw.
const HOSTS: usize = 60;
const SERVERS: usize = 40;
/// Bytes of a label.
const LABEL: usize = 28;
/// Where the squares begin, and their spacing.
const LEFT: usize = 210;
const TOP: usize = 150;
const STEP: usize = 18;

/// What is known about a server on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    /// It is there.
    There,
    /// One of its tools is defined differently than on most hosts.
    Differs,
}

#[derive(Debug)]
struct Row {
    name: String,
    state: State,
    wants_a_look: bool,
}

#[derive(Debug)]
struct Column {
    name: String,
    host_count: u64,
    cells: HashMap<usize, Cell>,
}

/// Gathers what to draw.
#[derive(Debug, Default)]
pub(super) struct Grid {
    rows: Vec<Row>,
    host_count: u64,
    /// Rows by their names, once all are known.
    row_indices: HashMap<String, usize>,
    columns: Vec<Column>,
    server_count: u64,
    server: Option<Column>,
    /// Whether a list of hosts was shorter than its number.
    is_cut: bool,
}

impl Grid {
    pub(super) fn host(&mut self, host: &HostReport) {
        self.host_count += 1;
        let row = Row {
            name: host.host.clone(),
            state: host.state,
            wants_a_look: host.wants_a_look(),
        };
        if self.rows.len() < HOSTS {
            self.rows.push(row);
        } else if row.wants_a_look
            && let Some(other) = self.rows.iter_mut().rev().find(|row| !row.wants_a_look)
        {
            *other = row;
        }
    }

    pub(super) fn server(&mut self, server: &ServerReport) {
        if self.row_indices.is_empty() {
            self.rows
                .sort_by(|a, b| (b.wants_a_look, &a.name).cmp(&(a.wants_a_look, &b.name)));
            let names = self.rows.iter().map(|row| row.name.clone());
            self.row_indices = names.zip(0..).collect();
        }
        self.server_count += 1;
        self.is_cut |= (server.hosts.len() as u64) < server.host_count;
        let row_indices = server
            .hosts
            .iter()
            .filter_map(|host| self.row_indices.get(host));
        self.server = Some(Column {
            name: server.server.clone(),
            host_count: server.host_count,
            cells: row_indices
                .map(|row_index| (*row_index, Cell::There))
                .collect(),
        });
    }

    /// A tool of that server. Its first definition is the one that most hosts see.
    pub(super) fn tool(&mut self, tool: &ToolReport) {
        let Some(server) = &mut self.server else {
            return;
        };
        let others = tool.definitions.iter().skip(1);
        for host in others.flat_map(|seen| &seen.hosts) {
            if let Some(row_index) = self.row_indices.get(host) {
                server.cells.insert(*row_index, Cell::Differs);
            }
        }
    }

    pub(super) fn server_end(&mut self) {
        let Some(server) = self.server.take() else {
            return;
        };
        self.columns.push(server);
        if self.columns.len() > SERVERS {
            // Those in which hosts differ stay, then those on the most hosts.
            let rank = |column: &Column| {
                let differs = column.cells.values().any(|cell| *cell == Cell::Differs);
                (differs, column.host_count)
            };
            let least = (0..self.columns.len()).min_by_key(|at| self.columns.get(*at).map(rank));
            if let Some(least) = least {
                self.columns.remove(least);
            }
        }
    }

    pub(super) fn put(&self, out: &mut String) {
        if self.rows.is_empty() || self.columns.is_empty() {
            out.push_str("<p>No servers were seen.</p>\n");
            return;
        }
        let width = LEFT + STEP * self.columns.len() + 120;
        let height = TOP + STEP * self.rows.len() + 8;
        put!(
            out,
            "<div class=\"wide\"><svg class=\"grid\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"hosts and servers\">\n"
        );
        for (at, column) in self.columns.iter().enumerate() {
            let x = LEFT + STEP * at + STEP / 2;
            let y = TOP - 8;
            put!(
                out,
                "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-50 {x} {y})\">{}<title>{} on {}</title></text>\n",
                Text(&label(&column.name)),
                Text(&column.name),
                column.host_count
            );
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = TOP + STEP * at;
            let class = match row.state {
                State::Watched if row.wants_a_look => "some",
                State::Watched => "fine",
                _ => "bad",
            };
            put!(
                out,
                "<text class=\"host {class}\" x=\"{}\" y=\"{}\">{}<title>{}: {}</title></text>\n",
                LEFT - 8,
                y + 12,
                Text(&label(&row.name)),
                Text(&row.name),
                word(row.state)
            );
            for (column_at, column) in self.columns.iter().enumerate() {
                let cell = column.cells.get(&at);
                let (class, says) = match cell {
                    None => ("none", "not there"),
                    Some(Cell::There) => ("there", "there"),
                    Some(Cell::Differs) => ("differs", "differs from most hosts"),
                };
                put!(
                    out,
                    "<rect class=\"{class}\" x=\"{}\" y=\"{y}\" width=\"14\" height=\"14\" rx=\"2\">",
                    LEFT + STEP * column_at
                );
                match cell {
                    None => out.push_str("</rect>\n"),
                    Some(_) => put!(
                        out,
                        "<title>{} on {}: {says}</title></rect>\n",
                        Text(&column.name),
                        Text(&row.name)
                    ),
                }
            }
        }
        out.push_str("</svg></div>\n<p class=\"note\"><span class=\"key there\"></span> there <span class=\"key differs\"></span> a definition differs from the one on most hosts");
        let hosts = self.host_count - self.rows.len() as u64;
        let servers = self.server_count - self.columns.len() as u64;
        if hosts + servers > 0 {
            put!(
                out,
                ". Not drawn: {hosts} hosts that need less attention, {servers} servers on fewer hosts"
            );
        }
        if self.is_cut {
            out.push_str(
                ". Of some servers not all hosts are known here, because --list cut their names",
            );
        }
        out.push_str(".</p>\n");
    }
}

fn label(name: &str) -> String {
    match name.len() > LABEL {
        true => format!("{}…", cut(name, LABEL)),
        false => name.to_owned(),
    }
}
