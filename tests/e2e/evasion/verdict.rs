//! What was reported of a session, compared with the client's own account of it.

use anyhow::{Context, Result, bail, ensure};
use mcpinspect_tests::tap::Capture;
use mcpinspect_tests::verify::{self, Reported, TO_CLIENT, TO_SERVER};
use mcpinspect_tests::wirelog::Frame;

use super::server::SentFrames;

/// A session as it was.
pub struct ExpectedSession {
    /// What the server must be called.
    pub name: String,
    pub sent_frames: SentFrames,
}

/// What became of it.
#[derive(Debug)]
pub enum Outcome {
    /// All of it was reported, under the right name.
    FullyReported,
    /// Something is missing and reported: the mechanisms and reasons.
    LossReported(Vec<String>),
}

/// Says what became of a session.
///
/// # Errors
/// Something is missing and not reported, or is not as it was.
pub fn outcome(expected: &ExpectedSession, capture: &Capture) -> Result<Outcome> {
    match in_full(expected, capture) {
        Ok(()) => Ok(Outcome::FullyReported),
        Err(fault) => loss_reported(expected, capture)
            .map(Outcome::LossReported)
            .context(fault),
    }
}

/// The sessions in which something of this session was reported.
fn sessions<'a>(sent_frames: &SentFrames, capture: &'a Capture) -> Vec<Reported<'a>> {
    let is_marked = |session: &Reported<'_>| {
        let mut raw = session.messages().filter_map(|m| m.raw.as_deref());
        raw.any(|raw| raw.contains(&sent_frames.marker))
    };
    let mut sessions = verify::sessions(capture);
    sessions.retain(is_marked);
    sessions
}

fn in_full(expected: &ExpectedSession, capture: &Capture) -> Result<()> {
    let sent_frames = &expected.sent_frames;
    let sessions = sessions(sent_frames, capture);
    let [session] = &sessions[..] else {
        bail!("{} sessions were reported", sessions.len());
    };
    for (direction, sent, reported) in [
        (TO_SERVER, &sent_frames.to_server, &session.to_server),
        (TO_CLIENT, &sent_frames.to_client, &session.to_client),
    ] {
        same(sent, reported).context(direction)?;
    }
    let accused = capture
        .others
        .iter()
        .find(|event| event["type"] == "mcp_detection" && event["session_id"] == session.id);
    ensure!(accused.is_none(), "accused of {accused:?}");
    named(expected, session)
}

fn same(sent: &[Frame], reported: &[&mcpinspect_tests::tap::Message]) -> Result<()> {
    let wrong = sent.iter().zip(reported).position(|(frame, message)| {
        frame.sha256 != message.sha256 || frame.bytes != message.bytes || message.gap_before
    });
    ensure!(
        wrong.is_none() && sent.len() == reported.len(),
        "{} frames sent, {} reported, the first wrong one is {wrong:?}",
        sent.len(),
        reported.len()
    );
    Ok(())
}

/// Whether all of a session was reported under the right name.
fn named(expected: &ExpectedSession, session: &Reported<'_>) -> Result<()> {
    let wrong = session.messages().find(|message| {
        let name = message.server_id.split('#').next();
        name != Some(expected.name.as_str())
    });
    ensure!(
        wrong.is_none(),
        "called {:?} and not {}",
        wrong.map(|message| &message.server_id),
        expected.name
    );
    Ok(())
}

/// What was said to be missing: by blind spots and gaps of the session's own. What was reported must be
/// part of what was said all the same, and under the right name.
fn loss_reported(expected: &ExpectedSession, capture: &Capture) -> Result<Vec<String>> {
    let sent_frames = &expected.sent_frames;
    let sessions = sessions(sent_frames, capture);
    let mut words = Vec::new();
    for session in &sessions {
        named(expected, session)?;
        let spots = capture
            .others
            .iter()
            .filter(|event| event["type"] == "mcp_blind_spot" && event["session_id"] == session.id);
        let spots: Vec<_> = spots
            .filter_map(|event| event["mechanism"].as_str())
            .collect();
        for (direction, sent, reported) in [
            (TO_SERVER, &sent_frames.to_server, &session.to_server),
            (TO_CLIENT, &sent_frames.to_client, &session.to_client),
        ] {
            // Calls that were made up stand among those that were made.
            let missing = match spots.contains(&"seccomp_notify") {
                true => 0,
                false => verify::in_order(sent, reported).context(direction)?,
            };
            let gaps = session.gaps.iter().filter(|gap| gap.direction == direction);
            let gaps: Vec<_> = gaps.map(|gap| gap.reason.clone()).collect();
            ensure!(
                missing == 0 || !gaps.is_empty() || !spots.is_empty(),
                "{missing} frames {direction} are missing, and no event reports it"
            );
            words.extend(gaps);
        }
        words.extend(spots.into_iter().map(str::to_owned));
    }
    ensure!(!words.is_empty(), "no event reports it");
    Ok(words)
}
