//! What was seen, without the host that saw it: as columns, and as the parts of a key around the host.

use std::io::{self, Read};

use super::super::bytes::put_text;
use super::super::entry::Machine;
use super::super::row::{Definition, Row, key};
use super::super::value::SightingRange;
use super::columns::read_bytes;

/// A definition without a name, which differs from no definition. No text contains this.
const UNNAMED: &str = "\0";

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenItem {
    /// Of which server.
    pub server: Vec<u8>,
    /// The server itself is 0, how it is launched 1, its version 2, and a tool 3.
    pub part: u8,
    /// Which tool.
    pub tool: Vec<u8>,
    /// Which fingerprint, version or definition.
    pub detail: Vec<u8>,
}

impl SeenItem {
    /// What a row is about, which host saw it, and when; `None` for rows of other kinds.
    pub fn of(row: &Row<'_>) -> Option<(Self, Machine, SightingRange)> {
        let (server, part, tool, detail, machine, sighting) = match row {
            Row::Server(server, machine, sighting) => {
                (server, 0, "", String::new(), machine, sighting)
            }
            Row::Fingerprint(server, fingerprint, machine, sighting) => {
                (server, 1, "", (*fingerprint).to_owned(), machine, sighting)
            }
            Row::Version(server, version, machine, sighting) => {
                (server, 2, "", (*version).to_owned(), machine, sighting)
            }
            Row::Tool(server, tool, machine, definition, sighting) => {
                let detail = match definition.shown() {
                    None => String::new(),
                    Some(name) if name.is_empty() => UNNAMED.to_owned(),
                    Some(name) => name,
                };
                (server, 3, *tool, detail, machine, sighting)
            }
            _ => return None,
        };
        let item = Self {
            server: server.as_bytes().to_vec(),
            part,
            tool: tool.as_bytes().to_vec(),
            detail: detail.into_bytes(),
        };
        Some((item, *machine, *sighting))
    }

    /// Appends its columns.
    pub fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        put_text(out, std::str::from_utf8(&self.server).ok()?);
        out.push(self.part);
        put_text(out, std::str::from_utf8(&self.tool).ok()?);
        put_text(out, std::str::from_utf8(&self.detail).ok()?);
        Some(())
    }

    /// Reads its columns; `None` if the server is `end`. Nothing after them is skipped then.
    ///
    /// # Errors
    /// The answer ends.
    pub fn read(from: &mut impl Read, end: &[u8]) -> io::Result<Option<Self>> {
        let mut item = Self::default();
        read_bytes(from, &mut item.server)?;
        let mut part = [0];
        from.read_exact(&mut part)?;
        [item.part] = part;
        read_bytes(from, &mut item.tool)?;
        read_bytes(from, &mut item.detail)?;
        Ok((item.server != end).then_some(item))
    }

    /// Its key, before and after the host.
    ///
    /// # Errors
    /// It is damaged.
    pub fn key(&self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let server = std::str::from_utf8(&self.server).map_err(damaged)?;
        let tool = std::str::from_utf8(&self.tool).map_err(damaged)?;
        let detail = std::str::from_utf8(&self.detail).map_err(damaged)?;
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        match self.part {
            0 => key::server(&mut before, server),
            1 => key::fingerprint(&mut before, server, detail),
            2 => key::version(&mut before, server, detail),
            _ => {
                key::tool(&mut before, server, tool);
                let definition = match detail {
                    "" => Definition::Gone,
                    UNNAMED => Definition::Other(""),
                    name => Definition::of(Some(name)),
                };
                key::definition(&mut behind, definition);
            }
        }
        Ok((before, behind))
    }

    /// Whether both are definitions of one tool.
    pub fn is_same_tool(&self, other: &Self) -> bool {
        self.part == 3
            && (self.part, &self.server, &self.tool) == (other.part, &other.server, &other.tool)
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Timestamp;

    use super::*;

    #[test]
    fn columns_are_the_key_in_other_words() {
        let (machine, sighting) = (Machine([7; 16]), SightingRange::at(Timestamp(5_000)));
        for row in [
            Row::Server("ü s", machine, sighting),
            Row::Fingerprint("notes", "f1", machine, sighting),
            Row::Version("notes", "", machine, sighting),
            Row::Tool("notes", "", machine, Definition::Gone, sighting),
            Row::Tool("notes", "read", machine, Definition::Other(""), sighting),
            Row::Tool("notes", "read", machine, Definition::Other("v2"), sighting),
            Row::Tool(
                "notes",
                "read",
                machine,
                Definition::Hash([0xab; 32]),
                sighting,
            ),
        ] {
            let (item, seen_by, seen) = SeenItem::of(&row).unwrap();
            assert_eq!((seen_by, seen), (machine, sighting));
            let mut columns = Vec::new();
            item.put(&mut columns).unwrap();
            let read = SeenItem::read(&mut columns.as_slice(), &[0xff]).unwrap();
            assert_eq!(read.as_ref(), Some(&item));
            let (mut key, behind) = item.key().unwrap();
            key.extend_from_slice(&machine.0);
            key.extend_from_slice(&behind);
            let value = super::super::super::value::Value::SightingRange(sighting);
            assert_eq!(Row::read(&key, value), Some(row));
        }
    }
}
