//! Whom a TLS connection is for, as its client says in its first message.
//!
//! That message is not encrypted, and names the server (RFC 6066, section 3; the messages are those of RFC 8446,
//! section 4.1.2). Only this one name is wanted, also of a message that is cut short: libraries that parse whole
//! messages would refuse it, and bring a lot else into a process that reads what anyone sends.

/// The message's type.
const CLIENT_HELLO: u8 = 1;
/// Bytes of its version and its random part.
const FIXED: usize = 2 + 32;
/// The extension that names the server, and the type of name in it.
const SERVER_NAME: usize = 0;
const HOST_NAME: usize = 0;
/// Longest name of a host, in bytes.
const HOST_MAX: usize = 253;

/// The host that a client's greeting names, in lower case. `message` begins with its type, and may end
/// anywhere.
pub fn server_name(message: &[u8]) -> Option<String> {
    let mut rest = Rest(message);
    if rest.take(1)? != [CLIENT_HELLO] {
        return None;
    }
    // The message is as long as it says, or cut short.
    let length = rest.number(3)?;
    rest.truncate(length);
    rest.take(FIXED)?;
    let _session = rest.counted(1)?;
    let _ciphers = rest.counted(2)?;
    let _compressions = rest.counted(1)?;
    let length = rest.number(2)?;
    rest.truncate(length);
    loop {
        let kind = rest.number(2)?;
        let extension = rest.counted(2)?;
        if kind == SERVER_NAME {
            return host(extension);
        }
    }
}

/// The host in a list of names.
fn host(list: &[u8]) -> Option<String> {
    let mut names = Rest(Rest(list).counted(2)?);
    loop {
        let kind = names.number(1)?;
        let name = names.counted(2)?;
        if kind == HOST_NAME {
            let is_host = (1..=HOST_MAX).contains(&name.len())
                && name
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(byte));
            let name = std::str::from_utf8(name).ok().filter(|_| is_host)?;
            return Some(name.to_ascii_lowercase());
        }
    }
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of at most four bytes, the highest first.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let digits = self.take(bytes)?.iter();
        Some(digits.fold(0, |number, digit| number << 8 | usize::from(*digit)))
    }

    /// As many bytes as the number before them says, which has `bytes` bytes.
    fn counted(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        self.take(length)
    }

    /// Leaves out what comes after `length` bytes.
    fn truncate(&mut self, length: usize) {
        self.0 = self.0.get(..length).unwrap_or(self.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[4 - bytes..], content].concat()
    }

    fn greeting(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let extensions: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, content)| [kind.to_be_bytes().to_vec(), counted(2, content)].concat())
            .collect();
        let body = [
            [3; 34].to_vec(),
            counted(1, &[7; 32]),
            counted(2, &[0x13, 1, 0x13, 2]),
            counted(1, &[0]),
            counted(2, &extensions),
        ];
        [vec![1], counted(3, &body.concat())].concat()
    }

    fn names(name: &[u8]) -> (u16, Vec<u8>) {
        (0, counted(2, &[vec![0], counted(2, name)].concat()))
    }

    #[test]
    fn the_name_is_found_wherever_it_is() {
        let others = [(10, vec![0, 29]), (51, vec![5; 1216])];
        let first = [&[names(b"MCP.example.org")], &others[..]].concat();
        let last = [&others[..], &[names(b"mcp.example.org")]].concat();
        let expected = Some("mcp.example.org".to_owned());
        assert_eq!(server_name(&greeting(&first)), expected);
        assert_eq!(server_name(&greeting(&last)), expected);
        assert_eq!(server_name(&greeting(&others)), None);
        let more = [greeting(&last), vec![0; 100]].concat();
        assert_eq!(server_name(&more), expected, "what follows does not matter");
    }

    #[test]
    fn a_greeting_that_is_cut_short_may_have_the_name() {
        let whole = greeting(&[names(b"a.example"), (51, vec![5; 5000])]);
        assert_eq!(server_name(&whole[..4096]), Some("a.example".to_owned()));
        let whole = greeting(&[(51, vec![5; 5000]), names(b"a.example")]);
        assert_eq!(server_name(&whole[..4096]), None);
    }

    #[test]
    fn what_is_no_host_is_not_taken_for_one() {
        for name in [&b""[..], b"a b", b"a\x1b[31m", b"\xff", &[b'a'; 254]] {
            assert_eq!(server_name(&greeting(&[names(name)])), None, "{name:?}");
        }
        assert_eq!(server_name(&[2; 100]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(mut message: Vec<u8>, place: prop::sample::Index, byte: u8) {
            let _ = server_name(&message);
            message.insert(0, CLIENT_HELLO);
            let _ = server_name(&message);
            let mut damaged = greeting(&[names(b"a.example")]);
            let place = place.index(damaged.len());
            damaged[place] = byte;
            if let Some(name) = server_name(&damaged) {
                prop_assert!((1..=HOST_MAX).contains(&name.len()) && name.is_ascii());
            }
        }
    }
}
