//! Sorted rows, in memory or on disk.
//!
//! A row shares most of its key with the previous one: the server and the tool at its start, the
//! definition's hash at its end. So only what is between them is written; a tool on a host takes some
//! twenty bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use super::bytes::{self, NUMBER_MAX, put_number};
use super::row::KEY_MAX;

/// Longest value.
const VALUE_MAX: usize = 8 << 10;
/// Longest key or value.
pub const KEY_AND_VALUE_MAX: usize = if KEY_MAX > VALUE_MAX {
    KEY_MAX
} else {
    VALUE_MAX
};
/// Longest row.
const ROW_MAX: usize = KEY_MAX + VALUE_MAX + 4 * NUMBER_MAX;
/// How much to read at once.
const BLOCK: usize = 2 * ROW_MAX;

/// Sorted rows.
#[derive(Clone, Debug)]
pub struct Run(Place);

#[derive(Clone, Debug)]
enum Place {
    Memory(Arc<Vec<u8>>),
    File {
        file: Arc<File>,
        begin: u64,
        end: u64,
    },
}

impl Run {
    /// The rows in this part of a file.
    pub fn in_file(file: File, begin: u64, end: u64) -> Self {
        let file = Arc::new(file);
        Self(Place::File { file, begin, end })
    }

    /// Whether it is on disk.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.0, Place::File { .. })
    }

    /// Its rows.
    pub fn rows(&self) -> Rows {
        let at = match &self.0 {
            Place::Memory(_) => 0,
            Place::File { begin, .. } => *begin,
        };
        Rows {
            place: self.0.clone(),
            at,
            block: Vec::new(),
            used: 0,
            key: Vec::new(),
            value: (0, 0),
        }
    }
}

/// Reads rows in order.
#[derive(Debug)]
pub struct Rows {
    place: Place,
    /// Where the next block begins.
    at: u64,
    block: Vec<u8>,
    /// How much of the block was read.
    used: usize,
    key: Vec<u8>,
    /// Where in the block the value is.
    value: (usize, usize),
}

impl Rows {
    /// Moves to the next row; `false` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold rows.
    pub fn advance(&mut self) -> io::Result<bool> {
        if self.block.len() - self.used < ROW_MAX {
            self.fill()?;
        }
        let rest = self.block.get(self.used..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let length = rest.len();
        let mut row = bytes::Reader(rest);
        let read = read(&mut row, &mut self.key);
        let value = read.ok_or_else(damaged)?;
        let end = self.used + length - row.0.len();
        self.value = (end - value, end);
        self.used = end;
        Ok(true)
    }

    /// The row's key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The row's value.
    pub fn value(&self) -> &[u8] {
        self.block
            .get(self.value.0..self.value.1)
            .unwrap_or_default()
    }

    fn fill(&mut self) -> io::Result<()> {
        self.block.drain(..self.used);
        self.used = 0;
        let old = self.block.len();
        match &self.place {
            Place::Memory(rows) => {
                let rest = usize::try_from(self.at).ok().and_then(|at| rows.get(at..));
                let rest = rest.unwrap_or_default();
                let more = rest.get(..rest.len().min(BLOCK)).unwrap_or_default();
                self.block.extend_from_slice(more);
            }
            Place::File { file, end, .. } => {
                let left = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
                self.block.resize(old + left.min(BLOCK), 0);
                let more = self.block.get_mut(old..).unwrap_or_default();
                file.read_exact_at(more, self.at)?;
            }
        }
        self.at += (self.block.len() - old) as u64;
        Ok(())
    }
}

/// Reads a row: completes the key, skips the value and returns its length.
fn read(row: &mut bytes::Reader<'_>, key: &mut Vec<u8>) -> Option<usize> {
    let (begin, end) = (row.length()?, row.length()?);
    let length = row.length()?;
    let middle = row.take(length)?;
    if begin.checked_add(end)? > key.len() || begin + length + end > KEY_MAX {
        return None;
    }
    key.splice(begin..key.len() - end, middle.iter().copied());
    let length = row.length().filter(|length| *length <= VALUE_MAX)?;
    row.take(length)?;
    Some(length)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the rows are damaged")
}

/// Writes rows, which have to come in order.
#[derive(Debug)]
pub struct RunWriter {
    out: Out,
    last: Vec<u8>,
    row: Vec<u8>,
}

#[derive(Debug)]
enum Out {
    Memory(Vec<u8>),
    File {
        file: BufWriter<File>,
        begin: u64,
        written: u64,
    },
}

impl RunWriter {
    /// Into memory.
    pub fn in_memory() -> Self {
        Self::new(Out::Memory(Vec::new()))
    }

    /// Into a file without a name in `directory`. The kernel removes it when the program ends, however
    /// it does.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn in_directory(directory: &Path) -> io::Result<Self> {
        Ok(Self::in_file(tempfile::tempfile_in(directory)?, 0))
    }

    /// Into a file, from its position on, which is `begin`.
    pub fn in_file(file: File, begin: u64) -> Self {
        Self::new(Out::File {
            file: BufWriter::with_capacity(BLOCK, file),
            begin,
            written: 0,
        })
    }

    fn new(out: Out) -> Self {
        Self {
            out,
            last: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let pairs = key.iter().zip(&self.last);
        let begin = pairs.take_while(|(one, other)| one == other).count();
        let (new, old) = (key.get(begin..), self.last.get(begin..));
        let (new, old) = (new.unwrap_or_default(), old.unwrap_or_default());
        let pairs = new.iter().rev().zip(old.iter().rev());
        let end = pairs.take_while(|(one, other)| one == other).count();
        let middle = new.get(..new.len() - end).unwrap_or_default();
        self.row.clear();
        put_number(&mut self.row, begin as u64);
        put_number(&mut self.row, end as u64);
        put_number(&mut self.row, middle.len() as u64);
        self.row.extend_from_slice(middle);
        put_number(&mut self.row, value.len() as u64);
        self.row.extend_from_slice(value);
        self.last.clear();
        self.last.extend_from_slice(key);
        match &mut self.out {
            Out::Memory(rows) => rows.extend_from_slice(&self.row),
            Out::File { file, written, .. } => {
                file.write_all(&self.row)?;
                *written += self.row.len() as u64;
            }
        }
        Ok(())
    }

    /// The rows.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> io::Result<Run> {
        Ok(match self.out {
            Out::Memory(mut rows) => {
                rows.shrink_to_fit();
                Run(Place::Memory(Arc::new(rows)))
            }
            Out::File {
                file,
                begin,
                written,
            } => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                Run::in_file(file, begin, begin + written)
            }
        })
    }
}

/// Passes on the rows of several runs in one order; rows with the same key become one.
///
/// # Errors
/// A run cannot be read, or `each` fails.
pub fn merge(runs: &[Run], mut each: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
    use super::value::Value;

    let mut sources = Vec::new();
    for run in runs {
        let mut rows = run.rows();
        if rows.advance()? {
            sources.push(rows);
        }
    }
    // A heap: no row sorts before the one at half its index.
    let mut heap: Vec<usize> = (0..sources.len()).collect();
    for at in (0..heap.len() / 2).rev() {
        sift(&mut heap, &sources, at);
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut several: Option<Value> = None;
    let mut any = false;
    while let Some(first) = heap.first().copied() {
        let Some(source) = sources.get_mut(first) else {
            break;
        };
        if any && source.key() == key {
            let other = Value::read(source.value()).ok_or_else(damaged)?;
            match &mut several {
                Some(value) => value.and(other),
                None => {
                    let mut one = Value::read(&value).ok_or_else(damaged)?;
                    one.and(other);
                    several = Some(one);
                }
            }
        } else {
            if any {
                pass(&key, &mut value, several.take(), &mut each)?;
            }
            any = true;
            key.clear();
            key.extend_from_slice(source.key());
            value.clear();
            value.extend_from_slice(source.value());
        }
        if !source.advance()? {
            heap.swap_remove(0);
        }
        sift(&mut heap, &sources, 0);
    }
    if any {
        pass(&key, &mut value, several, &mut each)?;
    }
    Ok(())
}

fn pass(
    key: &[u8],
    value: &mut Vec<u8>,
    several: Option<super::value::Value>,
    each: &mut impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(several) = several {
        value.clear();
        several.write(value);
    }
    each(key, value)
}

/// Moves the row at `at` down to its place.
fn sift(heap: &mut [usize], sources: &[Rows], mut at: usize) {
    let key = |place: Option<&usize>| place.and_then(|&source| sources.get(source)).map(Rows::key);
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < heap.len() && key(heap.get(child)) < key(heap.get(least)) {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use proptest::prelude::*;

    use super::super::value::Value;
    use super::*;

    fn all(run: &Run) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = run.rows();
        let mut all = Vec::new();
        while rows.advance().unwrap() {
            all.push((rows.key().to_vec(), rows.value().to_vec()));
        }
        all
    }

    fn written(mut writer: RunWriter, keys: &[Vec<u8>]) -> Run {
        for key in keys {
            let mut value = Vec::new();
            Value::Count(1).write(&mut value);
            writer.add(key, &value).unwrap();
        }
        writer.finish().unwrap()
    }

    proptest! {
        #[test]
        fn merged_runs_hold_every_key_once(
            parts in prop::collection::vec(
                prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..6), 0..40), 0..6)
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut expected = std::collections::BTreeMap::<Vec<u8>, u64>::new();
            let mut runs = Vec::new();
            for (index, part) in parts.iter().enumerate() {
                let keys: Vec<Vec<u8>> = part.iter().cloned().collect();
                for key in &keys {
                    *expected.entry(key.clone()).or_default() += 1;
                }
                let run = if index % 2 == 0 {
                    written(RunWriter::in_memory(), &keys)
                } else {
                    written(RunWriter::in_directory(directory.path()).unwrap(), &keys)
                };
                prop_assert_eq!(all(&run).len(), keys.len());
                runs.push(run);
            }
            let mut merged = Vec::new();
            merge(&runs, |key, value| {
                merged.push((key.to_vec(), Value::read(value).unwrap()));
                Ok(())
            }).unwrap();
            let expected: Vec<_> = expected.into_iter().map(|(key, n)| (key, Value::Count(n))).collect();
            prop_assert_eq!(merged, expected);
        }

        #[test]
        fn damaged_rows_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let run = Run(Place::Memory(Arc::new(bytes)));
            let mut rows = run.rows();
            while let Ok(true) = rows.advance() {
                let _ = Value::read(rows.value());
                if let Some(value) = Value::read(rows.value()) {
                    let _ = super::super::row::Row::read(rows.key(), value);
                }
            }
        }
    }
}
