//! Messages of a tape, written to the store as if they had been recorded here.

use std::path::Path;

use mcpinspect_engine::retention::RetentionRules;
use mcpinspect_engine::{MessageRecord, Output, OutputSink, Record};
use rusqlite::Connection;

use super::open;
use super::write::BatchWriter;

/// Records to write together.
const BATCH: usize = 1000;

/// Why a tape was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A session with its id is already in the store.
    #[error("the store already has a session {0}")]
    Known(String),
    /// The store cannot be written.
    #[error("cannot write the message store: {0}")]
    Store(String),
}

/// An output of the engine that writes to the store at once.
pub struct Import {
    connection: Connection,
    writer: BatchWriter,
    batch: Vec<Record>,
    messages: u64,
    error: Option<rusqlite::Error>,
}

impl Import {
    /// Writes to the store at `path`, or creates it. It must not contain a session with the id `session`.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub fn open(path: &Path, rules: RetentionRules, session: &str) -> Result<Self, ImportError> {
        let connection =
            open::create(path).map_err(|error| ImportError::Store(error.to_string()))?;
        let is_known: bool = connection
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM session WHERE session_id = ?)",
                [session],
                |row| row.get(0),
            )
            .map_err(|error| ImportError::Store(error.to_string()))?;
        if is_known {
            return Err(ImportError::Known(session.to_owned()));
        }
        let writer =
            BatchWriter::new(rules, true).map_err(|error| ImportError::Store(error.to_string()))?;
        Ok(Self {
            connection,
            writer,
            batch: Vec::new(),
            messages: 0,
            error: None,
        })
    }

    /// Writes what is left. Returns how many messages were written.
    ///
    /// # Errors
    /// The store cannot be written. Part of the tape may be in it.
    pub fn finish(mut self) -> Result<u64, ImportError> {
        self.write();
        match self.error {
            Some(error) => Err(ImportError::Store(error.to_string())),
            None => Ok(self.messages),
        }
    }

    fn push(&mut self, record: Record) {
        self.batch.push(record);
        if self.batch.len() == BATCH {
            self.write();
        }
    }

    fn write(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if self.error.is_none()
            && let Err(error) = self.writer.write(&mut self.connection, &batch)
        {
            self.error = Some(error);
        }
    }
}

impl OutputSink for Import {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                self.messages += 1;
                self.push(Record::Message(MessageRecord::message(message)));
            }
            Output::Member(member) => self.push(Record::Message(MessageRecord::member(member))),
            Output::Overdue(overdue) => self.push(Record::Overdue(overdue.clone())),
            Output::Event(event) => self.push(Record::Event(Box::new(event.clone()))),
            Output::Judged(..) => {}
        }
    }
}
