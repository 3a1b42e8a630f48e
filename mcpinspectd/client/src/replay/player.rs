//! A tape by itself: played, paused, stepped through, stopped where something happens.

use std::str::FromStr;
use std::time::Duration;

use mcpinspect_core::json_path::{PathError, Pattern, glob};
use mcpinspect_core::mcp::message::{Message, Outcome};
use mcpinspect_core::mcp::{Budget, json};
use serde_json::Value;
use thiserror::Error;

use super::TREE;
use super::recording::{Recording, TapeMessage};
use super::speed::{Speed, SpeedError};

/// Where to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breakpoint {
    /// At a request or notification of this method.
    Method(Pattern),
    /// At a call of this tool.
    Tool(String),
    /// At an answer that is an error, the protocol's or a tool's.
    Error,
}

/// A position on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapePosition {
    /// The message with this number.
    Message(u64),
    /// This long after the first one.
    After(Duration),
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Continue.
    Play,
    /// Stop.
    Pause,
    /// Show this many messages, and stop.
    Step(u64),
    /// Go somewhere else.
    Seek(TapePosition),
    /// Go faster or slower.
    Speed(Speed),
    /// Stop there.
    Break(Breakpoint),
    /// End.
    Quit,
}

/// Why a text is none of these.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlayerError {
    /// It is not a position.
    #[error("invalid position `{0}`: expected a message number or 1.5s")]
    Position(String),
    /// It is not a command.
    #[error(
        "unknown command `{0}`: expected play, pause, step [N], seek PLACE, speed SPEED, break WHERE or quit"
    )]
    Command(String),
    /// It is not a method.
    #[error(transparent)]
    Path(#[from] PathError),
    /// It is not a speed.
    #[error(transparent)]
    Speed(#[from] SpeedError),
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The message at this index in [`Recording::messages`], after this long.
    Show(usize, Duration),
    /// Nothing, until there is a command.
    Paused,
    /// Nothing any more.
    End,
}

/// Plays a recording.
#[derive(Debug)]
pub struct Player<'a> {
    recording: &'a Recording,
    at: usize,
    until: usize,
    speed: Speed,
    breaks: Vec<Breakpoint>,
    /// Messages to show before stopping; `None` plays on.
    steps: Option<u64>,
    /// Whether the next message is due without waiting.
    is_due: bool,
}

impl<'a> Player<'a> {
    /// Plays `recording` from one position to another, both inclusive.
    pub fn new(
        recording: &'a Recording,
        from: Option<TapePosition>,
        until: Option<TapePosition>,
        speed: Speed,
        breaks: Vec<Breakpoint>,
    ) -> Self {
        let end = recording.messages.len();
        let mut player = Self {
            recording,
            at: 0,
            until: end,
            speed,
            breaks,
            steps: None,
            is_due: true,
        };
        player.at = from.map_or(0, |from| player.position(from));
        player.until = match until {
            Some(TapePosition::Message(number)) => {
                player.position(TapePosition::Message(number.saturating_add(1)))
            }
            Some(TapePosition::After(after)) => player.position(TapePosition::After(
                after.saturating_add(Duration::from_nanos(1)),
            )),
            None => end,
        };
        player
    }

    /// Stops before the next message.
    pub fn pause(&mut self) {
        self.steps = Some(0);
    }

    /// What comes next.
    pub fn next(&self) -> Next {
        if self.at >= self.until {
            return Next::End;
        }
        if self.steps == Some(0) {
            return Next::Paused;
        }
        let messages = &self.recording.messages;
        let before = self
            .at
            .checked_sub(1)
            .and_then(|before| messages.get(before));
        let gap = match (before, messages.get(self.at)) {
            (Some(before), Some(recorded)) if !self.is_due => {
                recorded.time.nanos_since(before.time)
            }
            _ => 0,
        };
        Next::Show(self.at, self.speed.wait(Duration::from_nanos(gap)))
    }

    /// Notes that the next message was shown. Returns whether to stop at it.
    pub fn shown(&mut self) -> bool {
        let recorded = self.recording.messages.get(self.at);
        let stops =
            recorded.is_some_and(|recorded| self.breaks.iter().any(|one| one.is_at(recorded)));
        self.at += 1;
        self.is_due = self.steps.is_some();
        if let Some(steps) = &mut self.steps {
            *steps = steps.saturating_sub(1);
        }
        if stops {
            self.pause();
        }
        stops
    }

    /// Carries out a command. Returns false to end.
    pub fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Play => {
                self.is_due |= self.steps.is_some();
                self.steps = None;
            }
            Command::Pause => self.pause(),
            Command::Step(count) => {
                self.steps = Some(count);
                self.is_due = true;
            }
            Command::Seek(position) => {
                self.at = self.position(position);
                self.is_due = true;
            }
            Command::Speed(speed) => self.speed = speed,
            Command::Break(one) => self.breaks.push(one),
            Command::Quit => return false,
        }
        true
    }

    /// The index of a place: the first message that is not before it.
    fn position(&self, position: TapePosition) -> usize {
        let messages = &self.recording.messages;
        match position {
            TapePosition::Message(number) => {
                messages.partition_point(|recorded| recorded.number < number)
            }
            TapePosition::After(after) => {
                let start = messages
                    .first()
                    .map(|recorded| recorded.time)
                    .unwrap_or_default();
                messages.partition_point(|recorded| {
                    u128::from(recorded.time.nanos_since(start)) < after.as_nanos()
                })
            }
        }
    }
}

impl Breakpoint {
    fn is_at(&self, recorded: &TapeMessage) -> bool {
        let Some(message) = recorded.message() else {
            return false;
        };
        let params = || -> Option<Value> { json::value(message.params()?, &mut Budget::of(TREE)) };
        match self {
            Self::Method(pattern) => recorded
                .method()
                .is_some_and(|method| pattern.concerns(method, params().as_ref())),
            Self::Tool(name) => {
                recorded.method() == Some("tools/call")
                    && params().is_some_and(|params| {
                        params["name"].as_str().is_some_and(|tool| glob(name, tool))
                    })
            }
            Self::Error => is_error(&message),
        }
    }
}

/// Whether a message is an error, the protocol's or a tool's.
pub fn is_error(message: &Message<'_>) -> bool {
    let Message::Response(response) = message else {
        return false;
    };
    match response.outcome {
        Outcome::Error(_) => true,
        Outcome::Result(result) => {
            let mut failed = false;
            // Anything but an object has no such member.
            let _ = json::members(
                result.get(),
                |key| key == b"isError",
                |is_it, value| failed = if is_it { json::is_true(value) } else { failed },
            );
            failed
        }
    }
}

impl FromStr for Breakpoint {
    type Err = PlayerError;

    fn from_str(text: &str) -> Result<Self, PlayerError> {
        match (text, text.strip_prefix("tool=")) {
            ("error", _) => Ok(Self::Error),
            (_, Some(tool)) => Ok(Self::Tool(tool.to_owned())),
            _ => Ok(Self::Method(text.parse()?)),
        }
    }
}

impl FromStr for TapePosition {
    type Err = PlayerError;

    fn from_str(text: &str) -> Result<Self, PlayerError> {
        let wrong = || PlayerError::Position(text.to_owned());
        match text.strip_suffix('s') {
            Some(seconds) => {
                let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
                let after = Duration::try_from_secs_f64(seconds);
                after.map(Self::After).map_err(|_| wrong())
            }
            None => text.parse().map(Self::Message).map_err(|_| wrong()),
        }
    }
}

impl FromStr for Command {
    type Err = PlayerError;

    /// An empty line is a step.
    fn from_str(text: &str) -> Result<Self, PlayerError> {
        let text = text.trim();
        let wrong = || PlayerError::Command(text.to_owned());
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (word, rest.trim()) {
            ("" | "step", "") => Ok(Self::Step(1)),
            ("step", count) => count.parse().map(Self::Step).map_err(|_| wrong()),
            ("play", "") => Ok(Self::Play),
            ("pause", "") => Ok(Self::Pause),
            ("quit", "") => Ok(Self::Quit),
            ("seek", position) => Ok(Self::Seek(position.parse()?)),
            ("speed", speed) => Ok(Self::Speed(speed.parse()?)),
            ("break", position) => Ok(Self::Break(position.parse()?)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_tape::read::TapeReader;
    use serde_json::json;

    use super::*;

    /// Six messages, a second apart.
    fn recording() -> Recording {
        let mut lines = vec![
            json!({"format": "mcpinspect-tape", "version": 1, "session_id": "s",
            "server_id": "x", "fingerprint": "f", "name_source": "x", "transport": "stdio",
            "started": "2026-11-23T12:00:00Z"}),
        ];
        let call = |tool: &str| json!({"id": 1, "method": "tools/call", "params": {"name": tool}});
        let messages = [
            call("a"),
            json!({"id": 1, "result": {}}),
            call("b"),
            json!({"id": 1, "result": {"isError": true}}),
            json!({"method": "notifications/x"}),
            json!({"id": 2, "error": {"code": 1}}),
        ];
        for (at, message) in messages.iter().enumerate() {
            let direction = if at % 2 == 0 {
                "client_to_server"
            } else {
                "server_to_client"
            };
            lines.push(json!({"time": format!("2026-11-23T12:00:0{at}Z"), "direction": direction, "kind": "x",
                "sequence": at + 1, "transport": "stdio", "bytes": 0, "message": message}));
        }
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        Recording::read(TapeReader::new(lines.join("\n").as_bytes()).unwrap()).unwrap()
    }

    /// The numbers of what is shown until it stops or ends, and how long it took.
    fn shown(player: &mut Player<'_>) -> (Vec<usize>, Duration) {
        let (mut numbers, mut took) = (Vec::new(), Duration::ZERO);
        while let Next::Show(at, wait) = player.next() {
            numbers.push(at + 1);
            took += wait;
            player.shown();
        }
        (numbers, took)
    }

    #[test]
    fn it_plays_from_one_place_to_another_at_its_speed() {
        let recording = recording();
        let play = |from: Option<&str>, until: Option<&str>, speed: &str| {
            let position = |text: Option<&str>| text.map(|text| text.parse().unwrap());
            let speed = speed.parse().unwrap();
            shown(&mut Player::new(
                &recording,
                position(from),
                position(until),
                speed,
                Vec::new(),
            ))
        };
        assert_eq!(
            play(None, None, "2"),
            (vec![1, 2, 3, 4, 5, 6], Duration::from_millis(2500))
        );
        assert_eq!(
            play(Some("3"), Some("4"), "1"),
            (vec![3, 4], Duration::from_secs(1))
        );
        assert_eq!(play(Some("1.5s"), Some("3s"), "max").0, [3, 4]);
        assert_eq!(play(Some("9"), None, "1").0, [] as [usize; 0]);
        assert_eq!(play(Some("4"), Some("2"), "1").0, [] as [usize; 0]);
    }

    #[test]
    fn it_stops_and_goes_on() {
        let recording = recording();
        let breaks = ["tool=b", "error", "notifications/*"];
        let breaks = breaks.iter().map(|text| text.parse().unwrap()).collect();
        let mut player = Player::new(&recording, None, None, Speed::Times(1.0), breaks);
        assert_eq!(shown(&mut player).0, [1, 2, 3]);
        assert_eq!(player.next(), Next::Paused);
        for (command, numbers) in [
            ("play", vec![4]),
            ("", vec![5]),
            ("seek 1", vec![]),
            ("step 2", vec![1, 2]),
            ("seek 3.5s", vec![]),
            ("speed max", vec![]),
            ("play", vec![5]),
            ("play", vec![6]),
        ] {
            assert!(player.obey(command.parse().unwrap()));
            assert_eq!(shown(&mut player).0, numbers, "{command}");
        }
        assert_eq!(player.next(), Next::End);
        assert!(!player.obey(Command::Quit));
    }

    #[test]
    fn what_is_no_command_says_why() {
        for text in [
            "x", "step x", "seek", "seek -1s", "seek x", "speed 0", "break .a", "play now",
        ] {
            assert!(text.parse::<Command>().is_err(), "{text}");
        }
    }
}
