//! Tapes in files, compressed or not.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The start of zstd files.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Opens a file for reading, and decompresses it if it is zstd.
///
/// # Errors
/// It cannot be read.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = File::open(path)?;
    let mut beginning = Vec::new();
    (&mut file)
        .take(ZSTD.len() as u64)
        .read_to_end(&mut beginning)?;
    file.rewind()?;
    if beginning == ZSTD {
        let decoder = zstd::stream::read::Decoder::new(file)?;
        return Ok(Box::new(BufReader::new(decoder)));
    }
    Ok(Box::new(BufReader::new(file)))
}

/// A new file being written, which no one else may read, because tapes contain private files.
pub enum NewFile {
    /// Uncompressed.
    Plain(BufWriter<File>),
    /// Compressed with zstd.
    Compressed(zstd::stream::write::Encoder<'static, File>),
}

impl NewFile {
    /// Creates the file, which must not exist. One whose name ends in `.zst` is compressed.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        match path.extension() {
            Some(extension) if extension == "zst" => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                let encoder = zstd::stream::write::Encoder::new(file, level)?;
                Ok(Self::Compressed(encoder))
            }
            _ => Ok(Self::Plain(BufWriter::new(file))),
        }
    }

    /// Writes what is left to the disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.into_inner()?.sync_all(),
            Self::Compressed(encoder) => encoder.finish()?.sync_all(),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Compressed(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Compressed(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn both_kinds_come_back_and_nothing_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let text = "a line of a tape\n".repeat(1000);
        for (name, is_smaller) in [("a.jsonl", false), ("a.jsonl.zst", true)] {
            let path = directory.path().join(name);
            let mut file = NewFile::create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
            let metadata = path.metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
            assert_eq!(metadata.len() < text.len() as u64, is_smaller);
            let mut read = String::new();
            open(&path).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
            assert!(NewFile::create(&path).is_err());
        }
        std::fs::write(directory.path().join("short"), "x").unwrap();
        let mut read = String::new();
        let mut short = open(&directory.path().join("short")).unwrap();
        short.read_to_string(&mut read).unwrap();
        assert_eq!(read, "x");
    }
}
