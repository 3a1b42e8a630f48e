//! Decisions, as lines of JSON.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use mcpinspect_cli::terminal;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_judge::policy::record::Record;

/// Characters of names to show.
const NAME: usize = 80;

/// Where decisions go.
pub struct Log {
    /// Standard error if it is `None`.
    file: Option<File>,
    has_failed: AtomicBool,
}

impl Log {
    /// Appends to a file, or writes to standard error.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let mut options = File::options();
            options.create(true).append(true);
            // It contains parts of messages: only the owner may read it.
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Self {
            file: path.map(open).transpose()?,
            has_failed: AtomicBool::new(false),
        })
    }

    /// Writes decisions, each with one call, so that lines of several guards do not mix.
    pub fn write(&self, records: &[Record]) {
        for record in records {
            if self.put(record).is_err() && !self.has_failed.swap(true, Ordering::SeqCst) {
                terminal::complain(format_args!("mcpinspect: cannot write decisions"));
            }
            if record.is_alert() && self.file.is_some() {
                let rules: Vec<&str> = record.rules.iter().map(|rule| rule.id.as_str()).collect();
                terminal::complain(format_args!(
                    "mcpinspect: alert: {}: {} {}",
                    rules.join(", "),
                    printable(record.method.as_deref().unwrap_or("message"), NAME),
                    printable(record.tool.as_deref().unwrap_or_default(), NAME),
                ));
            }
        }
    }

    fn put(&self, record: &Record) -> io::Result<()> {
        let line = terminal_safe(record)? + "\n";
        match &self.file {
            Some(file) => (&mut &*file).write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        }
    }
}
