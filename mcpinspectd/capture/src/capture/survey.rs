//! A survey: the kernel tells which endpoints are held open, and which tracked processes hold one.
//!
//! What it finds at an endpoint is then in that endpoint's counters. Preparing a survey takes
//! the probes; running it may take a while on a large machine, but needs only the file, so
//! a thread that may wait can do it.

use std::fs::File;
use std::io::{ErrorKind, Read as _};

use mcpinspect_common::SurveyRow;

/// Bytes to read at a time.
const PIECE: usize = 4096 * size_of::<SurveyRow>();

/// A survey that is ready to run.
pub struct Survey(File);

impl Survey {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }

    /// Runs it, and returns the processes that hold a watched endpoint. All other tracked processes
    /// held none while their tables were read.
    ///
    /// # Errors
    /// The kernel ends the walk; nothing is known then.
    pub fn run(mut self) -> std::io::Result<Vec<u32>> {
        let mut busy = Vec::new();
        let mut bytes = vec![0; PIECE];
        let mut kept = 0;
        loop {
            let read = match self.0.read(&mut bytes[kept..]) {
                Ok(0) => return Ok(busy),
                Ok(read) => read,
                // After a million threads, the kernel wants another read.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (rows, rest) = bytes[..kept + read].as_chunks::<{ size_of::<SurveyRow>() }>();
            busy.extend(rows.iter().filter_map(busy_process));
            kept = rest.len();
            let from = rows.len() * size_of::<SurveyRow>();
            bytes.copy_within(from..from + kept, 0);
        }
    }
}

/// The process of a row, if it holds a watched endpoint.
fn busy_process(row: &[u8; size_of::<SurveyRow>()]) -> Option<u32> {
    let [a, b, c, d, busy @ ..] = *row;
    (u32::from_ne_bytes(busy) != 0).then_some(u32::from_ne_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn rows_are_read_across_the_borders_of_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        for tgid in 0..10_000u32 {
            file.write_all(&tgid.to_ne_bytes()).unwrap();
            file.write_all(&(tgid % 2).to_ne_bytes()).unwrap();
        }
        std::io::Seek::rewind(&mut file).unwrap();
        let busy = Survey::new(file).run().unwrap();
        let odd: Vec<u32> = (0..10_000).filter(|tgid| tgid % 2 == 1).collect();
        assert_eq!(busy, odd);
    }
}
