//! Compares what the daemon reported with what the peers logged.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::talk::Truth;
use crate::tap::{Capture, Gap, Message, Stream};
use crate::wirelog::Frame;

/// The word for the direction to the server.
pub const TO_SERVER: &str = "client_to_server";
/// The word for the direction to the client.
pub const TO_CLIENT: &str = "server_to_client";

/// One session as reported.
#[derive(Clone, Debug, Default)]
pub struct Reported<'a> {
    /// Its name.
    pub id: &'a str,
    /// Its messages to the server, in the order reported, blank lines left out.
    pub to_server: Vec<&'a Message>,
    /// Its messages to the client, in the order reported, blank lines left out.
    pub to_client: Vec<&'a Message>,
    /// Its losses.
    pub gaps: Vec<&'a Gap>,
    /// Its ledger.
    pub streams: Vec<&'a Stream>,
}

impl<'a> Reported<'a> {
    fn involves(&self, truth: &Truth) -> bool {
        let same = |a: Option<u32>, b: Option<u32>| a.is_some() && a == b;
        self.messages()
            .any(|m| same(m.server_pid, truth.server_pid) || same(m.client_pid, truth.client_pid))
    }

    /// All its messages.
    pub fn messages(&self) -> impl Iterator<Item = &'a Message> + '_ {
        self.to_server.iter().chain(&self.to_client).copied()
    }

    /// Who took part and how much, in one line.
    fn outline(&self) -> String {
        let pids = |pid: fn(&Message) -> Option<u32>| {
            let mut pids: Vec<Option<u32>> = self.messages().map(pid).collect();
            pids.sort_unstable();
            pids.dedup();
            pids
        };
        format!(
            "{}: server {:?}, client {:?}, {} to the server, {} to the client",
            self.id,
            pids(|m| m.server_pid),
            pids(|m| m.client_pid),
            self.to_server.len(),
            self.to_client.len()
        )
    }

    /// One direction's ledger.
    pub fn stream(&self, direction: &str) -> Result<&'a Stream> {
        let mut found = self.streams.iter().filter(|s| s.direction == direction);
        let stream = found.next();
        ensure!(found.next().is_none(), "two ledgers for {direction}");
        stream
            .copied()
            .with_context(|| format!("no ledger for {direction} of {}", self.id))
    }
}

/// Groups a capture by session.
pub fn sessions(capture: &Capture) -> Vec<Reported<'_>> {
    let mut all: BTreeMap<&str, Reported<'_>> = BTreeMap::new();
    for message in &capture.messages {
        let blank = message.bytes == 0 || message.raw.as_deref() == Some("\r");
        let session = all.entry(&message.session_id).or_default();
        match message.direction.as_str() {
            _ if blank => {}
            TO_SERVER => session.to_server.push(message),
            _ => session.to_client.push(message),
        }
    }
    for gap in &capture.gaps {
        all.entry(&gap.session_id).or_default().gaps.push(gap);
    }
    for stream in capture.streams.iter().flatten() {
        all.entry(&stream.session_id)
            .or_default()
            .streams
            .push(stream);
    }
    for (id, session) in &mut all {
        session.id = id;
    }
    all.into_values().collect()
}

/// The one session that these peers held.
pub fn session_of<'a>(truth: &Truth, capture: &'a Capture) -> Result<Reported<'a>> {
    let mut all = sessions(capture);
    let count = all.iter().filter(|s| s.involves(truth)).count();
    if count == 1 {
        all.retain(|s| s.involves(truth));
        return all.pop().context("the session just counted");
    }
    // Those closest to it in time are the ones that it may have been mistaken for.
    let distance = |session: &Reported<'_>| {
        let pids = session.messages().filter_map(|m| m.server_pid);
        let from = truth.server_pid.or(truth.client_pid).unwrap_or_default();
        pids.map(|pid| pid.abs_diff(from)).min().unwrap_or(u32::MAX)
    };
    all.sort_by_key(distance);
    let seen: Vec<String> = all.iter().take(5).map(Reported::outline).collect();
    bail!(
        "{count} sessions reported for server {:?} and client {:?}, which exchanged {} and {} frames; {} sessions in all, the nearest: {seen:#?}",
        truth.server_pid,
        truth.client_pid,
        truth.to_server.len(),
        truth.to_client.len(),
        all.len()
    )
}

/// How strict [`exact`] is about who took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pids {
    /// Every message names the processes that moved the bytes.
    Always,
    /// Early messages may name a wrapper; in the end it is the process that moves the bytes.
    AtLast,
}

/// Every frame exactly once, in order, in the right direction, in one session, with a clean ledger.
pub fn exact<'a>(truth: &Truth, capture: &'a Capture, pids: Pids) -> Result<Reported<'a>> {
    let session = session_of(truth, capture)?;
    ensure!(session.gaps.is_empty(), "losses: {:?}", session.gaps);
    let accused = capture
        .others
        .iter()
        .find(|event| event["type"] == "mcp_detection" && event["session_id"] == session.id);
    ensure!(
        accused.is_none(),
        "an honest server was accused: {accused:?}"
    );
    for (direction, expected, reported) in [
        (TO_SERVER, &truth.to_server, &session.to_server),
        (TO_CLIENT, &truth.to_client, &session.to_client),
    ] {
        same(expected, reported).with_context(|| direction.to_owned())?;
        parties(truth, reported, pids).with_context(|| direction.to_owned())?;
        let stream = session.stream(direction)?;
        // Blank lines are on the wire and in no list, so the ledger has at least this much.
        let least: u64 = expected.iter().map(|frame| frame.bytes + 1).sum();
        ensure!(
            stream.bytes_written == stream.bytes_read
                && stream.bytes_read == stream.bytes_captured
                && stream.bytes_lost == 0
                && stream.bytes_captured >= least
                && stream.frames >= expected.len() as u64,
            "the ledger is off, {least} bytes in {} frames are known: {stream:?}",
            expected.len()
        );
    }
    Ok(session)
}

/// The same frames in the same order, each understood.
pub fn same(expected: &[Frame], reported: &[&Message]) -> Result<()> {
    let wrong = expected.iter().zip(reported).position(|(frame, message)| {
        frame.sha256 != message.sha256 || frame.bytes != message.bytes
    });
    if let Some(at) = wrong {
        bail!(
            "frame {at} of {} differs: sent {:?}, reported {:?}",
            expected.len(),
            expected[at],
            short(reported[at])
        );
    }
    if expected.len() != reported.len() {
        let common = expected.len().min(reported.len());
        bail!(
            "{} frames sent, {} reported; first without a partner: sent {:?}, reported {:?}",
            expected.len(),
            reported.len(),
            expected.get(common),
            reported.get(common).map(|m| short(m))
        );
    }
    for (at, (frame, message)) in expected.iter().zip(reported).enumerate() {
        understood(frame, message).with_context(|| format!("frame {at}: {frame:?}"))?;
    }
    Ok(())
}

/// What was reported is part of what was sent, in order; returns how many frames are missing.
pub fn in_order(expected: &[Frame], reported: &[&Message]) -> Result<usize> {
    let mut left = expected.iter();
    for (at, message) in reported.iter().enumerate() {
        ensure!(
            left.any(|frame| frame.sha256 == message.sha256),
            "reported frame {at} was never sent, or is out of order or doubled: {:?}",
            short(message)
        );
    }
    Ok(expected.len() - reported.len())
}

fn short(message: &Message) -> Message {
    let raw = message.raw.as_ref();
    Message {
        raw: raw.map(|raw| raw.chars().take(200).collect()),
        ..message.clone()
    }
}

fn understood(frame: &Frame, message: &Message) -> Result<()> {
    ensure!(!message.gap_before, "a gap where none was: {message:?}");
    let Some(text) = &frame.text else {
        return Ok(());
    };
    ensure!(
        message.raw.as_ref() == Some(text),
        "raw is {:?}",
        message.raw
    );
    let (kind, method, id) = meaning(text);
    ensure!(
        message.kind == kind && message.method == method && message.id == id,
        "should be {kind} {method:?} {id:?}, reported as {} {:?} {:?}",
        message.kind,
        message.method,
        message.id
    );
    Ok(())
}

/// What a JSON-RPC message is, judging by its members.
fn meaning(text: &str) -> (&'static str, Option<String>, Option<Value>) {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => return ("invalid", None, None),
    };
    if value.is_array() {
        return ("batch", None, None);
    }
    let id = value.get("id").filter(|id| !id.is_null()).cloned();
    let method = value["method"].as_str().map(str::to_owned);
    let answer = value.get("result").or(value.get("error")).is_some();
    let kind = match (&method, &id, answer) {
        (Some(_), Some(_), _) => "request",
        (Some(_), None, _) => "notification",
        (None, _, true) => "response",
        (None, _, false) => "invalid",
    };
    (kind, method, id)
}

fn parties(truth: &Truth, reported: &[&Message], pids: Pids) -> Result<()> {
    let wanted = (truth.server_pid, truth.client_pid);
    let fits = |message: &Message| {
        let same = |known: Option<u32>, said: Option<u32>| known.is_none() || known == said;
        same(wanted.0, message.server_pid) && same(wanted.1, message.client_pid)
    };
    let wrong = match pids {
        Pids::Always => reported.iter().position(|m| !fits(m)),
        Pids::AtLast => reported
            .last()
            .filter(|m| !fits(m))
            .map(|_| reported.len() - 1),
    };
    match wrong {
        None => Ok(()),
        Some(at) => bail!(
            "frame {at} of {} names server {:?} and client {:?}, the bytes were moved by {:?} and {:?}",
            reported.len(),
            reported[at].server_pid,
            reported[at].client_pid,
            wanted.0,
            wanted.1
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wirelog::Way;

    fn frames(texts: &[&str]) -> Vec<Frame> {
        let frame = |text: &&str| Frame::of(Way::Sent, text.as_bytes());
        texts.iter().map(frame).collect()
    }

    fn message(text: &str) -> Message {
        let frame = Frame::of(Way::Sent, text.as_bytes());
        let (kind, method, id) = meaning(text);
        Message {
            timestamp: String::new(),
            session_id: "s".to_owned(),
            server_id: "x".to_owned(),
            direction: TO_SERVER.to_owned(),
            server_pid: Some(2),
            client_pid: Some(1),
            kind: kind.to_owned(),
            method,
            id,
            bytes: frame.bytes,
            sha256: frame.sha256,
            raw: Some(text.to_owned()),
            gap_before: false,
        }
    }

    const A: &str = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    const B: &str = r#"{"jsonrpc":"2.0","method":"b"}"#;
    const C: &str = r#"{"result":{},"id":"1"}"#;

    #[test]
    fn a_lost_doubled_swapped_or_altered_frame_is_noticed() {
        let sent = frames(&[A, B, C]);
        let [a, b, c] = [A, B, C].map(message);
        let other = message(r#"{"jsonrpc":"2.0","id":2,"method":"a"}"#);
        assert!(same(&sent, &[&a, &b, &c]).is_ok());
        assert!(same(&sent, &[&a, &b]).is_err());
        assert!(same(&sent, &[&b, &c]).is_err());
        assert!(same(&sent, &[&a, &b, &b, &c]).is_err());
        assert!(same(&sent, &[&a, &c, &b]).is_err());
        assert!(same(&sent, &[&other, &b, &c]).is_err());
    }

    #[test]
    fn a_misunderstood_frame_is_noticed() {
        let sent = frames(&[A]);
        let wrong: [fn(&mut Message); 4] = [
            |m| m.kind = "notification".to_owned(),
            |m| m.method = None,
            |m| m.id = Some("1".into()),
            |m| m.gap_before = true,
        ];
        for change in wrong {
            let mut message = message(A);
            change(&mut message);
            assert!(same(&sent, &[&message]).is_err(), "{message:?}");
        }
    }

    #[test]
    fn a_part_in_order_passes_and_anything_else_does_not() {
        let sent = frames(&[A, B, C]);
        let [a, b, c] = [A, B, C].map(message);
        assert_eq!(in_order(&sent, &[&a, &c]).ok(), Some(1));
        assert!(in_order(&sent, &[&c, &a]).is_err());
        assert!(in_order(&sent, &[&a, &a]).is_err());
        assert!(in_order(&sent, &[&b, &message("{}")]).is_err());
    }

    #[test]
    fn a_wrong_process_is_noticed() {
        let truth = Truth {
            client_pid: Some(1),
            server_pid: Some(2),
            to_server: frames(&[A, B]),
            to_client: Vec::new(),
        };
        let [mut a, b] = [A, B].map(message);
        assert!(parties(&truth, &[&a, &b], Pids::Always).is_ok());
        a.server_pid = Some(9);
        assert!(parties(&truth, &[&a, &b], Pids::Always).is_err());
        assert!(parties(&truth, &[&a, &b], Pids::AtLast).is_ok());
        assert!(parties(&truth, &[&b, &a], Pids::AtLast).is_err());
    }
}
