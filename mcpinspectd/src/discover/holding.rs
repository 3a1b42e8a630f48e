//! Who holds the ends of a stream, by the process table.

use mcpinspect_common::{End, EndpointKey};

use super::streams::StreamTable;
use crate::process::fds::{Holder, Holders, InodeKey};

/// Whether a process holds an endpoint.
pub fn is_held(holders: &Holders, endpoint: EndpointKey) -> bool {
    holders.contains_key(&inode(endpoint))
}

/// Whether a process holds an end of a stream.
pub fn is_end_held(
    holders: &Holders,
    streams: &StreamTable,
    key: Option<EndpointKey>,
    end: End,
) -> bool {
    let Some(key) = key else { return false };
    let endpoint = match end {
        End::Reader => Some(key),
        End::Writer => streams.get(key).and_then(|stream| stream.written_at),
    };
    endpoint
        .and_then(|endpoint| holders.get(&inode(endpoint)))
        .is_some_and(|holders| {
            holders.iter().any(|holder| match end {
                End::Reader => holder.access.reads(),
                End::Writer => holder.access.writes(),
            })
        })
}

/// The descriptors through which a stream can be read.
pub fn readers(holders: &Holders, key: EndpointKey) -> Vec<Holder> {
    holders
        .get(&inode(key))
        .into_iter()
        .flatten()
        .filter(|holder| holder.access.reads())
        .copied()
        .collect()
}

/// How the process table names an endpoint.
fn inode(key: EndpointKey) -> InodeKey {
    InodeKey {
        dev: u64::from(key.dev),
        ino: key.ino,
    }
}
