//! What a client does, as text: `handshake; list; call 300 8388608; wait /tmp/go; call 1`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One thing that a client does.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `handshake [REVISION|stateless|fallback]`
    Handshake(String),
    /// `list`: asks for the tools.
    List,
    /// `call SIZE…`: one echo call of each size, each answered before the next.
    Call(usize),
    /// `calls COUNT SIZE`: that many echo calls, each answered before the next.
    Calls(usize, usize),
    /// `id JSON`: one small call with this id.
    Id(Value),
    /// `idlast`: one small call whose id is the object's last member.
    IdLast,
    /// `flight COUNT`: that many calls sent before any answer is read.
    Flight(usize),
    /// `unanswered COUNT`: that many calls that the server never answers.
    Unanswered(usize),
    /// `notify COUNT SIZE`: notifications to the server.
    Notify(usize, usize),
    /// `burst COUNT SIZE`: has the server send notifications.
    Burst(usize, usize),
    /// `batch COUNT`: that many calls in one array.
    Batch(usize),
    /// `ask`: has the server ask the client something first.
    Ask,
    /// `junk SIZE`: a line to the server that is not a message.
    Junk(usize),
    /// `emit-junk SIZE`: has the server write such a line.
    EmitJunk(usize),
    /// `send FILE`: sends the file's bytes to the server unchanged.
    Send(PathBuf),
    /// `emit FILE`: has the server write the file's bytes.
    Emit(PathBuf),
    /// `seep FILE`: the same at no more than 25 MB/s.
    Seep(PathBuf),
    /// `trail FILE`: has the server write the file's bytes after its answer.
    Trail(PathBuf),
    /// `mark FILE`: creates the file.
    Mark(PathBuf),
    /// `wait FILE`: waits until the file exists.
    Wait(PathBuf),
    /// `sleep MILLISECONDS`
    Sleep(u64),
}

/// The steps in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan(pub Vec<Step>);

impl FromStr for Plan {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut steps = Vec::new();
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            parse(part, &mut steps).with_context(|| format!("step `{part}`"))?;
        }
        Ok(Self(steps))
    }
}

fn parse(part: &str, steps: &mut Vec<Step>) -> Result<()> {
    let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
    let rest = rest.trim();
    let numbers = || -> Result<Vec<usize>> {
        rest.split_whitespace()
            .map(|n| n.parse().with_context(|| format!("`{n}` is no number")))
            .collect()
    };
    let one = || -> Result<usize> { numbers()?.first().copied().context("a number is missing") };
    let two = || -> Result<(usize, usize)> {
        match numbers()?[..] {
            [a, b] => Ok((a, b)),
            _ => bail!("two numbers are needed"),
        }
    };
    let path = || PathBuf::from(rest);
    steps.push(match word {
        "handshake" if rest.is_empty() => Step::Handshake("2025-06-18".to_owned()),
        "handshake" => Step::Handshake(rest.to_owned()),
        "list" => Step::List,
        "call" => {
            steps.extend(numbers()?.into_iter().map(Step::Call));
            return Ok(());
        }
        "calls" => two().map(|(count, size)| Step::Calls(count, size))?,
        "id" => Step::Id(serde_json::from_str(rest)?),
        "idlast" => Step::IdLast,
        "flight" => Step::Flight(one()?),
        "unanswered" => Step::Unanswered(one()?),
        "notify" => two().map(|(count, size)| Step::Notify(count, size))?,
        "burst" => two().map(|(count, size)| Step::Burst(count, size))?,
        "batch" => Step::Batch(one()?),
        "ask" => Step::Ask,
        "junk" => Step::Junk(one()?),
        "emit-junk" => Step::EmitJunk(one()?),
        "send" => Step::Send(path()),
        "emit" => Step::Emit(path()),
        "seep" => Step::Seep(path()),
        "trail" => Step::Trail(path()),
        "mark" => Step::Mark(path()),
        "wait" => Step::Wait(path()),
        "sleep" => Step::Sleep(u64::try_from(one()?)?),
        other => bail!("no such step: {other}"),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_as_written() -> Result<()> {
        let plan: Plan = "handshake; call 1 2; calls 3 4; id \"x\"; mark /a b".parse()?;
        assert_eq!(
            plan.0,
            [
                Step::Handshake("2025-06-18".to_owned()),
                Step::Call(1),
                Step::Call(2),
                Step::Calls(3, 4),
                Step::Id("x".into()),
                Step::Mark("/a b".into()),
            ]
        );
        assert!("calls 3".parse::<Plan>().is_err());
        assert!("dance".parse::<Plan>().is_err());
        Ok(())
    }
}
