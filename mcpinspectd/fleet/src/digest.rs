//! What people read of a report: the start of each answer, and how long it is.
//!
//! The terminal and the page show the same lists, so they are picked here once. A list ends after a number
//! of rows, and says how many there are.

use std::collections::BTreeSet;
use std::io;

use mcpinspect_core::model::{Severity, Timestamp};

use super::report::{
    AlertReport, DecisionReport, Definition, HostReport, Output, ServerReport, ToolReport,
};

/// Names of hosts and tools to keep in one row.
pub const NAMED: usize = 24;

/// The first of many.
#[derive(Debug)]
pub struct Truncated<T> {
    /// Those shown.
    pub shown: Vec<T>,
    /// How many there are.
    pub count: u64,
    max: usize,
}

impl<T> Truncated<T> {
    fn new(max: usize) -> Self {
        Self {
            shown: Vec::new(),
            count: 0,
            max,
        }
    }

    fn add(&mut self, one: T) {
        if self.shown.len() < self.max {
            self.shown.push(one);
        }
        self.count += 1;
    }

    /// How many are not shown.
    pub fn more(&self) -> u64 {
        self.count - self.shown.len() as u64
    }
}

/// A server with the names of its tools.
#[derive(Debug)]
pub struct Server {
    /// The server.
    pub head: ServerReport,
    /// Its first tools.
    pub tools: Vec<String>,
    /// How many it has.
    pub tool_count: u64,
}

/// A tool that some hosts see differently, or whose definition changed.
#[derive(Debug)]
pub struct DifferingTool {
    /// The server's name.
    pub server: String,
    /// Whether it is launched the same way everywhere, and so is one server.
    pub is_one: bool,
    /// The tool.
    pub tool: ToolReport,
}

/// A definition of a tool.
#[derive(Debug)]
pub struct DefinitionEntry {
    /// The server's name.
    pub server: String,
    /// The tool's name.
    pub tool: String,
    /// The definition.
    pub seen: Definition,
}

/// The lists.
#[derive(Debug)]
pub struct Digest {
    /// All hosts.
    pub hosts: Truncated<HostReport>,
    /// Hosts that need attention.
    pub conspicuous: Truncated<HostReport>,
    /// Tools that hosts see differently.
    pub differences: Truncated<DifferingTool>,
    /// Tools that all hosts now see alike, after a change.
    pub changed: Truncated<DifferingTool>,
    /// Servers.
    pub servers: Truncated<Server>,
    /// Servers that are new in the fleet.
    pub new_servers: Truncated<ServerReport>,
    /// Definitions that are new in the fleet.
    pub new_definitions: Truncated<DefinitionEntry>,
    /// Definitions that most hosts approved, but some did not.
    pub not_approved: Truncated<DefinitionEntry>,
    /// Servers with nothing approved, and how many hosts have them.
    pub nobody_approved: Truncated<(String, u64)>,
    /// Decisions, the newest first.
    pub decisions: Truncated<DecisionReport>,
    /// Alerts by severity and time, the lowest first.
    pub alerts: BTreeSet<(Severity, Timestamp, String, String)>,
    /// How many alerts there are.
    pub alert_count: u64,
    /// Hosts by number of alerts, the lowest first, and how many of them per day.
    pub alerting: BTreeSet<(u64, String, u64)>,
    /// How many hosts have alerts.
    pub alerting_count: u64,
    server: Option<Server>,
    max: usize,
}

impl Digest {
    /// Lists of up to `max` rows.
    pub fn new(max: usize) -> Self {
        Self {
            hosts: Truncated::new(max),
            conspicuous: Truncated::new(max),
            differences: Truncated::new(max),
            changed: Truncated::new(max),
            servers: Truncated::new(max),
            new_servers: Truncated::new(max),
            new_definitions: Truncated::new(max),
            not_approved: Truncated::new(max),
            nobody_approved: Truncated::new(max),
            decisions: Truncated::new(max),
            alerts: BTreeSet::new(),
            alert_count: 0,
            alerting: BTreeSet::new(),
            alerting_count: 0,
            server: None,
            max,
        }
    }
}

impl Output for Digest {
    fn host(&mut self, host: HostReport) -> io::Result<()> {
        let alerts = host.alerts.values().sum();
        if alerts > 0 {
            self.alerting_count += 1;
            self.alerting
                .insert((alerts, host.host.clone(), host.alerts_per_day));
            if self.alerting.len() > self.max {
                self.alerting.pop_first();
            }
        }
        if host.wants_a_look() {
            self.conspicuous.add(host.clone());
        }
        self.hosts.add(host);
        Ok(())
    }

    fn server(&mut self, mut head: ServerReport) -> io::Result<()> {
        head.hosts.truncate(NAMED);
        for version in &mut head.versions {
            version.hosts.truncate(NAMED);
        }
        if head.is_new {
            self.new_servers.add(head.clone());
        }
        self.server = Some(Server {
            head,
            tools: Vec::new(),
            tool_count: 0,
        });
        Ok(())
    }

    fn tool(&mut self, mut tool: ToolReport) -> io::Result<()> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let name = &server.head.server;
        if server.tools.len() < NAMED {
            server.tools.push(tool.tool.clone());
        }
        server.tool_count += 1;
        for definition in &mut tool.definitions {
            definition.hosts.truncate(NAMED);
            definition.not_approved.truncate(NAMED);
        }
        for seen in &tool.definitions {
            let defined = || DefinitionEntry {
                server: name.clone(),
                tool: tool.tool.clone(),
                seen: seen.clone(),
            };
            if seen.is_new && seen.hash.is_some() && !server.head.is_new {
                self.new_definitions.add(defined());
            }
            if seen.is_not_approved_by_some() {
                self.not_approved.add(defined());
            }
        }
        let has_changed = tool.definitions.iter().any(|seen| !seen.changes.is_empty());
        if !tool.agreed || has_changed {
            let list = match tool.agreed {
                true => &mut self.changed,
                false => &mut self.differences,
            };
            list.add(DifferingTool {
                server: name.clone(),
                is_one: server.head.fingerprints.len() < 2,
                tool,
            });
        }
        Ok(())
    }

    fn server_end(&mut self, is_approved: bool) -> io::Result<()> {
        if let Some(server) = self.server.take() {
            if !is_approved {
                let head = &server.head;
                self.nobody_approved
                    .add((head.server.clone(), head.host_count));
            }
            self.servers.add(server);
        }
        Ok(())
    }

    fn decision(&mut self, decision: DecisionReport) -> io::Result<()> {
        self.decisions.add(decision);
        Ok(())
    }

    fn alert(&mut self, alert: AlertReport) -> io::Result<()> {
        let what = alert.what;
        let times = if alert.count > 1 {
            format!(" ({} times)", alert.count)
        } else {
            String::new()
        };
        let parts = [
            what.server.as_str(),
            what.tool.as_deref().unwrap_or(""),
            what.category.as_deref().unwrap_or(&what.event),
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let sentence = format!("{}{times}", parts.join(" "));
        self.alert_count += 1;
        self.alerts
            .insert((what.severity, alert.time, alert.host, sentence));
        if self.alerts.len() > self.max {
            self.alerts.pop_first();
        }
        Ok(())
    }
}
