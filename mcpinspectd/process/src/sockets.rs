//! Which process holds a TCP socket with known addresses.
//!
//! The kernel lists the sockets of a network namespace with their inode numbers, and a process's descriptors name
//! theirs. Both are read only if nothing else says whose a socket is.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use mcpinspect_core::model::Pid;

use super::pids;

/// Bytes to read of a namespace's list of sockets: some 200,000 sockets.
const LIST_MAX: u64 = 32 << 20;
/// Most descriptors of one process to look at.
const FDS_MAX: usize = 65_536;

/// The two addresses of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Its own.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
}

/// The inode numbers of sockets in the network namespace of a process, in the order asked for.
pub fn inodes(near: Pid, wanted: &[Ends]) -> Vec<Option<u64>> {
    let mut found: HashMap<Ends, u64> = HashMap::new();
    let is_wanted: HashSet<Ends> = wanted.iter().copied().collect();
    for list in ["tcp", "tcp6"] {
        let Ok(file) = File::open(format!("/proc/{near}/net/{list}")) else {
            continue;
        };
        for line in BufReader::new(file.take(LIST_MAX)).lines() {
            let Ok(line) = line else { break };
            if let Some((ends, ino)) = parse(&line)
                && is_wanted.contains(&ends)
            {
                found.insert(ends, ino);
            }
        }
        if found.len() == is_wanted.len() {
            break;
        }
    }
    let of = |ends| found.get(ends).copied();
    wanted.iter().map(of).collect()
}

/// The processes that hold sockets, by inode number. If several hold one, as after a fork without a
/// new program, the one with the lowest number.
pub fn holders(wanted: &HashSet<u64>) -> HashMap<u64, Pid> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    let mut pids = pids();
    pids.sort_unstable();
    for pid in pids {
        let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for entry in fds.flatten().take(FDS_MAX) {
            if let Some(ino) = socket_of(&entry.path())
                && wanted.contains(&ino)
            {
                found.entry(ino).or_insert(pid);
            }
        }
        if found.len() == wanted.len() {
            break;
        }
    }
    found
}

/// The inode number of the socket that a descriptor refers to.
fn socket_of(link: &Path) -> Option<u64> {
    let target = std::fs::read_link(link).ok()?;
    let text = target.to_str()?;
    text.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// One line of the list. A socket without an inode number no longer belongs to a process.
fn parse(line: &str) -> Option<(Ends, u64)> {
    // NUMBER: LOCAL REMOTE STATE QUEUES TIMER RETRANSMITTED UID TIMEOUT INODE …
    let mut words = line.split_ascii_whitespace();
    let (_, local, remote) = (words.next()?, words.next()?, words.next()?);
    let ends = Ends {
        local: address(local)?,
        remote: address(remote)?,
    };
    let ino = words.nth(6)?.parse().ok().filter(|ino| *ino != 0)?;
    Some((ends, ino))
}

/// An address: 32-bit words as this machine stores them, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| -> Option<[u8; 4]> {
        let digits = ip.get(at * 8..(at + 1) * 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::own;

    #[test]
    fn a_line_of_the_kernels_list() {
        let list = "   0: 0100007F:1F90 0200007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1";
        let (ends, ino) = parse(list).unwrap();
        if cfg!(target_endian = "little") {
            assert_eq!(ends.local, "127.0.0.1:8080".parse().unwrap());
            assert_eq!(ends.remote, "127.0.0.2:40000".parse().unwrap());
        }
        assert_eq!(ino, 4711);
        assert_eq!(
            parse(&list.replace("4711", "0")),
            None,
            "it waits for its end"
        );
        assert_eq!(parse("  sl  local_address rem_address   st"), None);
        for odd in ["", "0100007F", "0100007F:", "01007F:1F90", "é100007F:1F90"] {
            assert_eq!(address(odd), None, "{odd}");
        }
    }

    #[test]
    fn both_ends_of_a_connection_are_this_processs() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // There may be no IPv6.
            let Ok(listener) = TcpListener::bind(host) else {
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let ends = [&client, &server].map(|socket| Ends {
                local: socket.local_addr().unwrap(),
                remote: socket.peer_addr().unwrap(),
            });
            let found = inodes(own(), &ends);
            let wanted: HashSet<u64> = found.iter().map(|ino| ino.unwrap()).collect();
            assert_eq!(wanted.len(), 2, "{found:?}");
            let holders = holders(&wanted);
            assert!(
                wanted.iter().all(|ino| holders[ino] == own()),
                "{holders:?}"
            );
        }
    }
}
