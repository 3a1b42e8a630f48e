//! Texts of messages, read from the compressed blocks that contain them.

use rusqlite::Connection;

use super::block::decompress;

/// Texts of messages, read from their blocks.
pub(crate) struct Texts<'c> {
    connection: &'c Connection,
    /// The last block read: a session's messages follow each other in it.
    block: Option<(i64, Vec<u8>)>,
}

impl<'c> Texts<'c> {
    /// Reads the store behind `connection`.
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            block: None,
        }
    }

    /// The text of a message: which block it is in, its offset and its length. `None` if it was not kept.
    ///
    /// # Errors
    /// The store cannot be read, or is damaged.
    pub(crate) fn read(
        &mut self,
        block: Option<i64>,
        position: Option<usize>,
        length: Option<usize>,
    ) -> rusqlite::Result<Option<Vec<u8>>> {
        let (Some(block), Some(position), Some(length)) = (block, position, length) else {
            return Ok(None);
        };
        if self
            .block
            .as_ref()
            .is_none_or(|(number, _)| *number != block)
        {
            let mut statement = self
                .connection
                .prepare_cached("SELECT data, dictionary, size FROM block WHERE id = ?")?;
            let text = statement.query_row([block], |row| {
                let data = row.get_ref(0)?.as_blob()?;
                decompress(data, row.get(1)?, row.get(2)?).map_err(damaged)
            })?;
            self.block = Some((block, text));
        }
        let text = self.block.as_ref().and_then(|(_, text)| {
            let end = position.checked_add(length)?;
            text.get(position..end)
        });
        match text {
            Some(text) => Ok(Some(text.to_vec())),
            None => Err(damaged(std::io::Error::other(
                "a message is missing from its block",
            ))),
        }
    }
}

fn damaged(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, error.into())
}
