//! Tables whose columns line up on a terminal.
//!
//! Names of servers and tools come in any script: a Chinese character takes two columns, a combining
//! accent none, and a colour's escape sequence none either. `tabwriter` measures all three.

use std::io::{self, Write};

use tabwriter::TabWriter;

/// Writes lines of cells separated by tabs, and aligns each column at its widest cell.
///
/// Cells must be escaped already: a tab or a line break in one would begin another.
///
/// # Errors
/// Failures of `out` and of `rows`.
pub fn aligned(
    out: &mut dyn Write,
    rows: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut table = TabWriter::new(out).ansi(true);
    rows(&mut table)?;
    table.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_what_a_terminal_shows() {
        let mut out = Vec::new();
        aligned(&mut out, |out| {
            writeln!(out, "ab\tx")?;
            writeln!(out, "文件\tx")?;
            writeln!(out, "\u{1b}[31mred\u{1b}[0m\tx")?;
            writeln!(out, "e\u{301}\tx")
        })
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "ab    x\n文件  x\n\u{1b}[31mred\u{1b}[0m   x\ne\u{301}     x\n"
        );
    }
}
