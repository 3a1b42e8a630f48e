//! What all formats have in common: one step takes some input and makes some output.

use flate2::{Decompress, FlushDecompress, Status};

/// It cannot be decompressed: the bytes are wrong, something follows their end, or the receiver had enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// What one step consumed and produced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
    pub(super) is_over: bool,
}

/// A step of deflate.
pub(super) fn inflated(
    inflate: &mut Decompress,
    input: &[u8],
    output: &mut [u8],
) -> Result<Step, Failed> {
    let (read, written) = (inflate.total_in(), inflate.total_out());
    let status = inflate
        .decompress(input, output, FlushDecompress::None)
        .map_err(|_| Failed)?;
    let since = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(0);
    Ok(Step {
        read: since(inflate.total_in(), read),
        written: since(inflate.total_out(), written),
        is_over: status == Status::StreamEnd,
    })
}
