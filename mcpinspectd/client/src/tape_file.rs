//! A tape named on a command line.

use std::io::BufRead;
use std::path::Path;

use anyhow::Context as _;
use mcpinspect_tape::file;
use mcpinspect_tape::read::TapeReader;

/// Opens a tape and reads its header.
pub fn open(path: &Path) -> anyhow::Result<TapeReader<Box<dyn BufRead>>> {
    let shown = || path.display().to_string();
    let input = file::open(path).with_context(|| format!("cannot read {}", shown()))?;
    TapeReader::new(input).with_context(shown)
}
