//! The two addresses of a connection: the same at both of its ends.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use mcpinspect_common::{ConnectionReport, End, UNIX_ADDRESS};

/// An address as this machine sees it. That of a Unix socket is made up: see [`ConnectionReport::local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    ip: Ipv6Addr,
    port: u16,
    /// The network namespace, if the same address means another machine in each; otherwise 0.
    network: u32,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that sends requests.
    Client,
    /// The end that sends responses.
    Server,
}

impl Side {
    /// The side of a socket at which requests cross this end.
    pub fn of(requests_at: u32) -> Self {
        if requests_at == End::Writer as u32 {
            Self::Client
        } else {
            Self::Server
        }
    }

    /// Its index in a pair.
    pub fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Who connected.
    pub client: Address,
    /// Who was connected to.
    pub server: Address,
}

impl Pair {
    /// The addresses that a socket on `side` has.
    pub fn of(report: &ConnectionReport, side: Side) -> Self {
        let address = |ip: [u8; 16], port| {
            let ip = Ipv6Addr::from(ip);
            let network = if is_loopback(ip) { report.network } else { 0 };
            Address { ip, port, network }
        };
        let local = address(report.local, report.local_port);
        let remote = address(report.remote, report.remote_port);
        match side {
            Side::Client => Self {
                client: local,
                server: remote,
            },
            Side::Server => Self {
                client: remote,
                server: local,
            },
        }
    }
}

impl Pair {
    /// Whether both ends are on this machine, in one network namespace.
    pub fn is_within(self) -> bool {
        self.client.ip == self.server.ip || is_loopback(self.client.ip)
    }

    /// The address of a side.
    pub fn at(self, side: Side) -> Address {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

fn is_loopback(ip: Ipv6Addr) -> bool {
    ip.to_canonical().is_loopback()
}

impl Address {
    /// In the standard form.
    pub fn socket(self) -> SocketAddr {
        SocketAddr::new(self.ip.to_canonical(), self.port)
    }

    /// The address without the port, which differs from connection to connection.
    pub fn host(self) -> (Ipv6Addr, u32) {
        (self.ip, self.network)
    }
}

impl fmt::Display for Address {
    /// As it appears in a URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ip.octets().starts_with(&UNIX_ADDRESS) {
            return f.write_str("unix");
        }
        match self.ip.to_canonical() {
            std::net::IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            std::net::IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

/// Where the server of a Unix socket listens: a path, or an abstract name, which begins with a zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Arc<[u8]>);

/// Bytes in `sun_path` (unix(7)).
const PLACE_MAX: usize = 108;

impl Location {
    /// The place in a report; `None` for TCP.
    pub fn of(report: &ConnectionReport) -> Option<Self> {
        if !report.local.starts_with(&UNIX_ADDRESS) {
            return None;
        }
        let length = usize::try_from(report.place_length).unwrap_or(usize::MAX);
        let bytes = report.place.iter().flat_map(|word| word.to_ne_bytes());
        let mut place: Vec<u8> = bytes.take(length.min(PLACE_MAX)).collect();
        // A path ends with a zero; in a name it means something.
        if place.last() == Some(&0) && place.first() != Some(&0) {
            place.pop();
        }
        Some(Self(place.into()))
    }
}

impl fmt::Display for Location {
    /// As the authority of a URL, percent-encoded (RFC 3986, section 2.1).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &*self.0 {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    write!(f, "{}", char::from(*byte))?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::tests::connections::unix;

    fn v4(last: u8) -> [u8; 16] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last]
    }

    #[test]
    fn connections_to_one_unix_socket_differ_by_their_clients() {
        let [first, second] =
            [7, 8].map(|ino| Pair::of(&unix(0xdead, ino, b"/run/mcp\0"), Side::Server));
        assert_eq!(first.server, second.server);
        assert_ne!(first.client, second.client);
        assert_eq!(
            first.server.to_string(),
            "unix",
            "its number is a kernel address"
        );
        assert!(
            !first.is_within(),
            "no table of the kernel has such addresses"
        );
    }

    #[test]
    fn the_place_of_a_socket_is_part_of_a_url() {
        for (place, shown) in [
            (&b"/run/my mcp.sock\0"[..], "%2Frun%2Fmy%20mcp.sock"),
            (b"/tmp/a", "%2Ftmp%2Fa"),
            (b"\0name", "%00name"),
            (b"\0name\0", "%00name%00"),
            (b"", ""),
        ] {
            let place = Location::of(&unix(1, 2, place)).map(|place| place.to_string());
            assert_eq!(place.as_deref(), Some(shown));
        }
        let mut endless = unix(1, 2, &[b'a'; 112]);
        endless.place_length = u64::MAX;
        let place = Location::of(&endless).map(|place| place.to_string());
        assert_eq!(place.map(|place| place.len()), Some(PLACE_MAX));
        assert_eq!(Location::of(&ConnectionReport::default()), None);
    }

    #[test]
    fn both_ends_have_the_same_addresses() {
        let client = ConnectionReport {
            local: v4(1),
            remote: v4(2),
            local_port: 40_000,
            remote_port: 80,
            network: 7,
            ..ConnectionReport::default()
        };
        let server = ConnectionReport {
            local: v4(2),
            remote: v4(1),
            local_port: 80,
            remote_port: 40_000,
            ..client
        };
        let pair = Pair::of(&client, Side::Client);
        assert_eq!(pair, Pair::of(&server, Side::Server));
        assert_eq!(pair.server.to_string(), "127.0.0.2:80");
        assert_eq!(
            pair.at(Side::Client).socket().to_string(),
            "127.0.0.1:40000"
        );
        assert!(pair.is_within());
        let elsewhere = ConnectionReport {
            network: 8,
            ..server
        };
        assert_ne!(pair, Pair::of(&elsewhere, Side::Server), "another loopback");
        let mut far = client;
        far.local = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets();
        far.remote = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).octets();
        let seen_elsewhere = ConnectionReport { network: 8, ..far };
        let pair = Pair::of(&far, Side::Client);
        assert_eq!(pair, Pair::of(&seen_elsewhere, Side::Client));
        assert_eq!(pair.server.to_string(), "[2001:db8::2]:80");
        assert!(!pair.is_within());
    }
}
