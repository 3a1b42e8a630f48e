//! The report as one JSON object, written as its parts come.

use std::io::{self, Write};

use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_fleet::report::{
    AlertReport, DecisionReport, HostReport, Output, ServerReport, Summary, ToolReport,
};
use serde::Serialize;

/// The lists of the object, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Hosts,
    Servers,
    Decisions,
    Alerts,
    End,
}

const LISTS: [(List, &str); 4] = [
    (List::Hosts, "{\"hosts\":["),
    (List::Servers, "],\"servers\":["),
    (List::Decisions, "],\"decisions\":["),
    (List::Alerts, "],\"alerts\":["),
];

/// Writes the object.
pub struct Json<'a> {
    out: &'a mut dyn Write,
    list: List,
    /// Whether the list, or the list of tools in it, has members.
    has_members: bool,
}

impl<'a> Json<'a> {
    pub fn new(out: &'a mut dyn Write) -> io::Result<Self> {
        write!(out, "{}", LISTS[0].1)?;
        Ok(Self {
            out,
            list: List::Hosts,
            has_members: false,
        })
    }

    /// Ends the object. What is only known now comes last.
    pub fn finish(mut self, summary: &Summary, complete: bool) -> io::Result<()> {
        self.go_to(List::End)?;
        let mut rest = serde_json::to_value(summary)?;
        rest["complete"] = complete.into();
        let rest = terminal_safe(&rest)?;
        let rest = rest.strip_prefix('{').unwrap_or(&rest);
        writeln!(self.out, "],{rest}")
    }

    /// Begins each list up to this one.
    fn go_to(&mut self, list: List) -> io::Result<()> {
        for (next, begin) in LISTS {
            if next > self.list && next <= list {
                write!(self.out, "{begin}")?;
                self.has_members = false;
            }
        }
        self.list = self.list.max(list);
        Ok(())
    }

    fn member(&mut self, list: List, member: &impl Serialize) -> io::Result<()> {
        self.go_to(list)?;
        self.comma()?;
        let member = terminal_safe(&serde_json::to_value(member)?)?;
        write!(self.out, "{member}")
    }

    fn comma(&mut self) -> io::Result<()> {
        if self.has_members {
            write!(self.out, ",")?;
        }
        self.has_members = true;
        Ok(())
    }
}

impl Output for Json<'_> {
    fn host(&mut self, host: HostReport) -> io::Result<()> {
        self.member(List::Hosts, &host)
    }

    fn server(&mut self, server: ServerReport) -> io::Result<()> {
        self.go_to(List::Servers)?;
        self.comma()?;
        let server = terminal_safe(&serde_json::to_value(&server)?)?;
        let server = server.strip_suffix('}').unwrap_or(&server);
        self.has_members = false;
        write!(self.out, "{server},\"tools\":[")
    }

    fn tool(&mut self, tool: ToolReport) -> io::Result<()> {
        self.member(List::Servers, &tool)
    }

    fn server_end(&mut self, is_approved: bool) -> io::Result<()> {
        self.has_members = true;
        write!(self.out, "],\"approved\":{is_approved}}}")
    }

    fn decision(&mut self, decision: DecisionReport) -> io::Result<()> {
        self.member(List::Decisions, &decision)
    }

    fn alert(&mut self, alert: AlertReport) -> io::Result<()> {
        self.member(List::Alerts, &alert)
    }
}
