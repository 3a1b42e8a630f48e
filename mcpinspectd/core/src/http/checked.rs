//! Whether a peer's requests can be read in only one way, for a gateway that passes them on.
//!
//! A server's HTTP library takes what it can: given both a length and a transfer coding, it drops one. A program
//! that read the same bytes before it may have dropped the other, and has seen different requests. An observer
//! reports such a place; a gateway reads no further.

use super::anomaly::Anomaly;
use super::limits::Limits;
use super::one::{Side, Waiting};
use super::part::{Left, Part, Role};

/// The requests of one connection of HTTP/1, from its first byte on.
pub struct RequestCheck {
    side: Side,
    waiting: Waiting,
    wrong: Option<Anomaly>,
}

impl RequestCheck {
    /// A new connection.
    pub fn new(limits: Limits) -> Self {
        let mut waiting = Waiting::new(limits.max_exchanges);
        // Responses are not examined, so it does not matter which one answers which request.
        waiting.lose();
        Self {
            side: Side::new(Role::Requests, 0, limits),
            waiting,
            wrong: None,
        }
    }

    /// Takes in the next bytes.
    ///
    /// # Errors
    /// Two readers may disagree about these bytes, or they are not HTTP/1. Whatever follows is wrong too.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Anomaly> {
        let wrong = &mut self.wrong;
        if wrong.is_none() {
            let switch = self.side.push(bytes, &mut self.waiting, &mut |part| {
                let anomaly = match part {
                    Part::Anomaly { anomaly, .. } => anomaly,
                    Part::Head { head, .. } if head.is_repeated => Anomaly::RepeatedField,
                    Part::Left {
                        reason: Left::NotHttp,
                        ..
                    } => Anomaly::MalformedHead,
                    _ => return,
                };
                wrong.get_or_insert(anomaly);
            });
            if switch.is_some() {
                self.wrong.get_or_insert(Anomaly::MalformedHead);
            }
        }
        self.wrong.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pieces: &[&[u8]]) -> Result<(), Anomaly> {
        let mut check = RequestCheck::new(Limits::default());
        pieces.iter().try_for_each(|piece| check.push(piece))
    }

    const GOOD: &str = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}\
        POST /mcp HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n\
        GET /mcp HTTP/1.1\r\nHost: h\r\nMcp-Session-Id: a\r\n\r\n";

    #[test]
    fn what_has_one_reading_passes() {
        assert_eq!(check(&[GOOD.as_bytes()]), Ok(()));
    }

    #[test]
    fn what_has_two_does_not() {
        for (head, wrong) in [
            (
                "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                Anomaly::LengthAndCoding,
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
                Anomaly::LengthAndCoding,
            ),
            (
                "Content-Length: 2\r\nContent-Length: 2\r\n",
                Anomaly::SeveralLengths,
            ),
            ("Content-Length: 2, 2\r\n", Anomaly::SeveralLengths),
            ("Content-Length: +2\r\n", Anomaly::MalformedLength),
            (
                "Transfer-Encoding: chunked, identity\r\n",
                Anomaly::UnknownTransferCoding,
            ),
            (
                "Transfer-Encoding: xchunked\r\n",
                Anomaly::UnknownTransferCoding,
            ),
            ("Content-Length : 2\r\n", Anomaly::SpaceInFieldName),
            ("A: b\r\n Content-Length: 2\r\n", Anomaly::FoldedField),
            ("A: b\nContent-Length: 2\r\n", Anomaly::BareLineFeed),
            (
                "Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n",
                Anomaly::RepeatedField,
            ),
            ("Mcp-Method: a\r\nmcp-method: b\r\n", Anomaly::RepeatedField),
        ] {
            // The first request of a connection may not be HTTP at all, so it comes second.
            let text = format!(
                "{GOOD}POST / HTTP/1.1\r\nHost: h\r\n{head}\r\n0\r\n\r\nGET /admin HTTP/1.1\r\n"
            );
            assert_eq!(check(&[text.as_bytes()]), Err(wrong), "{head}");
            let alone = format!("POST / HTTP/1.1\r\nHost: h\r\n{head}\r\n{{}}");
            assert!(check(&[alone.as_bytes()]).is_err(), "{head}");
        }
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert!(check(&[preface]).is_err());
        assert!(check(&[b"\x16\x03\x01\x02\x00 hello, this is TLS\r\n\r\n"]).is_err());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(cut in 0..GOOD.len(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (one, other) = GOOD.as_bytes().split_at(cut);
            prop_assert_eq!(check(&[one, other]), Ok(()));
            let _ = check(&[one, &bytes]);
        }
    }
}
