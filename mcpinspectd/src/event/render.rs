//! Events in words: the journal's `MESSAGE`, the title of a signal and of a desktop alert.
//!
//! A *title* travels to every user of the machine, so it holds names only: server, tool, kind of
//! finding. A *sentence* goes where contents may be read, and says what happened and what was
//! found. Names come from the other side, so both are escaped and bounded here, and nowhere later.

use crate::event::{Event, Subject};
use crate::model::{Action, ContainmentAction, Detection, FieldChange, Pid, Severity, ToolStatus};
use crate::text::escape::printable;

/// Longest title, characters.
pub const MAX_TITLE: usize = 160;
/// Longest sentence, characters.
pub const MAX_SENTENCE: usize = 1024;

const MAX_NAME: usize = 64;

/// One line of at most [`MAX_TITLE`] characters that names what the event is about.
pub fn title(event: &Event) -> String {
    let text = match event {
        Event::ToolSeen {
            subject,
            tool_name,
            status,
            max_severity,
            ..
        } => {
            let tool = name(tool_name);
            match (status, max_severity) {
                (_, Some(severity)) => {
                    format!(
                        "Tool {tool} of {} has findings ({})",
                        server(subject),
                        severity.as_str()
                    )
                }
                (ToolStatus::New, None) => format!("New tool {tool} on {}", server(subject)),
                (_, None) => format!("Tool {tool} of {} is as pinned", server(subject)),
            }
        }
        Event::ToolChanged {
            subject,
            tool_name,
            status,
            ..
        } => match status {
            ToolStatus::Removed => {
                format!("Tool {} is gone from {}", name(tool_name), server(subject))
            }
            _ => format!(
                "Tool {} of {} has changed",
                name(tool_name),
                server(subject)
            ),
        },
        Event::ServerChanged { subject, item, .. } => match item.as_str() {
            "instructions" => format!("Instructions of {} have changed", server(subject)),
            _ => format!("{} calls itself something else", server(subject)),
        },
        Event::Detection {
            subject,
            tool_name,
            detection,
            ..
        } => match tool_name {
            Some(tool) => format!(
                "{} in tool {} of {}",
                category(detection),
                name(tool),
                server(subject)
            ),
            None => format!("{} from {}", category(detection), server(subject)),
        },
        Event::SessionStarted {
            subject,
            joined_midstream,
            ..
        } => format!(
            "MCP session with {} {}",
            server(subject),
            if *joined_midstream {
                "joined under way"
            } else {
                "started"
            }
        ),
        Event::SessionIdentified {
            subject,
            protocol_version,
            ..
        } => format!(
            "{} speaks MCP {}",
            server(subject),
            protocol_version.as_deref().map_or_else(
                || "of an unknown revision".to_owned(),
                |v| printable(v, MAX_NAME)
            )
        ),
        Event::SessionEnded { subject, .. } => {
            format!("MCP session with {} ended", server(subject))
        }
        Event::CaptureGap {
            subject,
            bytes_lost,
            ..
        } => {
            format!("{bytes_lost} bytes of {} were lost", server(subject))
        }
        Event::BlindSpot {
            subject, mechanism, ..
        } => {
            format!(
                "{} moves data by {}",
                server(subject),
                printable(mechanism, MAX_NAME)
            )
        }
        Event::InvalidMessage { subject, .. } => {
            format!("Invalid message in a session with {}", server(subject))
        }
        Event::Policy {
            subject,
            item,
            tool_name,
            decision,
            ..
        } => match tool_name {
            Some(tool) => format!(
                "{} for tool {} of {}",
                printable(decision, MAX_NAME),
                name(tool),
                server(subject)
            ),
            None => format!(
                "{} for {} of {}",
                printable(decision, MAX_NAME),
                printable(item, MAX_NAME),
                server(subject)
            ),
        },
        Event::Contained {
            subject,
            measure,
            missed,
            ..
        } => format!(
            "{} was {}{}",
            server(subject),
            measure.done(),
            if missed.is_empty() { "" } else { " in part" }
        ),
        Event::EventsDropped {
            sink,
            server_id,
            dropped,
            ..
        } => match (sink, server_id) {
            (Some(sink), _) => format!(
                "{dropped} events did not reach the {} sink",
                printable(sink, MAX_NAME)
            ),
            (None, Some(server)) => format!(
                "{dropped} events about {} were left out",
                printable(&server.0, MAX_NAME)
            ),
            (None, None) => format!("{dropped} events were left out"),
        },
    };
    printable(&text, MAX_TITLE)
}

/// What happened, in one line of at most [`MAX_SENTENCE`] characters.
pub fn sentence(event: &Event) -> String {
    let mut text = title(event);
    match event {
        Event::ToolSeen {
            detections,
            tool_hash,
            ..
        } => match worst(detections) {
            Some(found) => push(&mut text, &findings(found, detections.len())),
            None => push(&mut text, &format!("sha256 {}", short(tool_hash))),
        },
        Event::ToolChanged {
            changes,
            previous_hash,
            new_hash,
            detections,
            ..
        } => {
            if let Some(new_hash) = new_hash {
                push(&mut text, &fields(changes));
                push(
                    &mut text,
                    &format!("pinned {}, now {}", short(previous_hash), short(new_hash)),
                );
            } else {
                push(&mut text, &format!("pinned {}", short(previous_hash)));
            }
            if let Some(found) = worst(detections) {
                push(&mut text, &findings(found, detections.len()));
            }
        }
        Event::ServerChanged {
            changes,
            previous_hash,
            new_hash,
            detections,
            ..
        } => {
            push(&mut text, &fields(changes));
            push(
                &mut text,
                &format!("pinned {}, now {}", short(previous_hash), short(new_hash)),
            );
            if let Some(found) = worst(detections) {
                push(&mut text, &findings(found, detections.len()));
            }
        }
        Event::Detection {
            detection, action, ..
        } => {
            push(
                &mut text,
                &format!(
                    "{}, asks for {}",
                    detection.severity.as_str(),
                    action_word(*action)
                ),
            );
            push(&mut text, &detection.explanation);
            push(&mut text, &format!("field {}", detection.field));
        }
        Event::SessionStarted {
            server,
            client,
            name_source,
            ..
        } => {
            for (role, party) in [("server", server), ("client", client)] {
                if let Some(party) = party {
                    push(
                        &mut text,
                        &format!("{role} pid {} uid {} {}", party.pid, party.uid, party.exe),
                    );
                }
            }
            push(&mut text, &format!("named by {name_source}"));
        }
        Event::SessionIdentified {
            server_info,
            client_info,
            ..
        } => {
            for (role, info) in [("server", server_info), ("client", client_info)] {
                if let Some(info) = info {
                    let part = |key| {
                        info.get(key)
                            .and_then(serde_json::Value::as_str)
                            .unwrap_or("?")
                    };
                    push(
                        &mut text,
                        &format!("{role} calls itself {} {}", part("name"), part("version")),
                    );
                }
            }
        }
        Event::SessionEnded {
            reason,
            messages,
            bytes,
            bytes_lost,
            unanswered,
            ..
        } => push(
            &mut text,
            &format!(
                "{reason}; {messages} messages, {bytes} bytes, {bytes_lost} bytes lost, {unanswered} requests unanswered"
            ),
        ),
        Event::CaptureGap {
            direction,
            position,
            reason,
            ..
        } => push(
            &mut text,
            &format!("{} from byte {position}: {reason}", direction.as_str()),
        ),
        Event::BlindSpot {
            pid,
            covered_by_other_end,
            ..
        } => push(
            &mut text,
            &format!(
                "pid {pid}; {}",
                if *covered_by_other_end {
                    "its bytes are still seen at the other end"
                } else {
                    "its bytes are not seen"
                }
            ),
        ),
        Event::InvalidMessage {
            direction,
            reason,
            bytes,
            excerpt,
            suppressed,
            ..
        } => {
            let what = format!("{}: {reason}, {bytes} bytes", direction.as_str());
            push(&mut text, &what);
            if *suppressed > 0 {
                push(
                    &mut text,
                    &format!("{suppressed} more before it were not told"),
                );
            }
            push(&mut text, &format!("begins {excerpt}"));
        }
        Event::Policy {
            uid, by, reason, ..
        } => {
            match uid {
                Some(uid) => push(&mut text, &format!("by uid {uid}")),
                None => push(&mut text, &format!("by {by}")),
            }
            if !reason.is_empty() {
                push(&mut text, reason);
            }
        }
        Event::Contained {
            cgroups,
            processes,
            missed,
            uid,
            pattern,
            ..
        } => {
            push(&mut text, &format!("processes {}", listed(processes)));
            if !cgroups.is_empty() {
                push(&mut text, &format!("as a whole: {}", cgroups.join(", ")));
            }
            if !missed.is_empty() {
                push(&mut text, &format!("not reached: {}", missed.join(", ")));
            }
            match (uid, pattern) {
                (Some(uid), _) => push(&mut text, &format!("by uid {uid}")),
                (None, Some(pattern)) => {
                    push(
                        &mut text,
                        &format!("by policy, after a finding of {pattern}"),
                    );
                }
                (None, None) => push(&mut text, "by policy"),
            }
        }
        Event::EventsDropped { reason, .. } => push(
            &mut text,
            match *reason {
                "flood" => "there were too many in too short a time",
                _ => "its queue was full",
            },
        ),
    }
    printable(&text, MAX_SENTENCE)
}

/// How bad the event is; `None` for the ordinary course of things.
pub fn severity(event: &Event) -> Option<Severity> {
    match event {
        Event::ToolSeen { max_severity, .. } => *max_severity,
        // A definition that is not what a person agreed to is worth a look without any finding.
        Event::ToolChanged { max_severity, .. } => {
            Some(max_severity.map_or(Severity::Medium, |found| found.max(Severity::Medium)))
        }
        // New instructions reach the model like a tool's description; a new version is an update.
        Event::ServerChanged {
            item, max_severity, ..
        } => {
            let least = match item.as_str() {
                "instructions" => Severity::Medium,
                _ => Severity::Low,
            };
            Some(max_severity.map_or(least, |found| found.max(least)))
        }
        Event::Detection { detection, .. } => Some(detection.severity),
        // Somebody wanted it so.
        Event::CaptureGap { reason, .. } if reason == "monitoring_paused" => Some(Severity::Low),
        Event::CaptureGap { .. } | Event::EventsDropped { .. } => Some(Severity::Medium),
        Event::Contained { measure, .. } => Some(match measure {
            ContainmentAction::Freeze | ContainmentAction::Kill => Severity::High,
            ContainmentAction::Thaw => Severity::Low,
        }),
        Event::BlindSpot {
            covered_by_other_end: true,
            ..
        } => Some(Severity::Low),
        Event::BlindSpot {
            covered_by_other_end: false,
            ..
        } => Some(Severity::High),
        Event::InvalidMessage { .. } => Some(Severity::Low),
        Event::SessionEnded { bytes_lost, .. } => (*bytes_lost > 0).then_some(Severity::Medium),
        Event::SessionStarted { .. } | Event::SessionIdentified { .. } | Event::Policy { .. } => {
            None
        }
    }
}

/// The word for an action that the outside knows.
pub fn action_word(action: Action) -> &'static str {
    match action {
        Action::None => "none",
        Action::Warn => "warn",
        Action::Alert => "alert",
        Action::Block => "block",
    }
}

/// The word for a status that the outside knows.
pub fn status_word(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::New => "new",
        ToolStatus::Unchanged => "unchanged",
        ToolStatus::Changed => "changed",
        ToolStatus::Removed => "removed",
    }
}

/// The first pids of a list, and how many more there are.
pub fn listed(pids: &[Pid]) -> String {
    const SHOWN: usize = 16;
    let mut text: Vec<String> = pids.iter().take(SHOWN).map(Pid::to_string).collect();
    if pids.len() > SHOWN {
        text.push(format!("and {} more", pids.len() - SHOWN));
    }
    text.join(" ")
}

/// The finding that decides: the first of the worst.
pub fn worst(detections: &[Detection]) -> Option<&Detection> {
    detections.iter().rev().max_by_key(|found| found.severity)
}

fn push(text: &mut String, more: &str) {
    text.push_str("; ");
    text.push_str(more);
}

fn findings(worst: &Detection, count: usize) -> String {
    match count {
        1 => format!("{}: {}", category(worst), worst.explanation),
        n => format!(
            "{n} findings, the worst {}: {}",
            category(worst),
            worst.explanation
        ),
    }
}

fn fields(changes: &[FieldChange]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = changes
        .iter()
        .take(SHOWN)
        .map(|change| printable(&change.field, MAX_NAME))
        .collect();
    match changes.len() {
        0 => "fields unknown".to_owned(),
        n if n > SHOWN => format!("fields {} and {} more", names.join(", "), n - SHOWN),
        1 => format!("field {}", names.join("")),
        _ => format!("fields {}", names.join(", ")),
    }
}

/// `hidden_instructions` as `Hidden instructions`.
fn category(detection: &Detection) -> String {
    let mut words = printable(&detection.category, MAX_NAME).replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

fn server(subject: &Subject) -> String {
    printable(&subject.server_id.0, MAX_NAME)
}

fn name(text: &str) -> String {
    format!("\"{}\"", printable(text, MAX_NAME))
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::testing::{examples, subject};
    use crate::text::escape::is_hidden;

    #[test]
    fn every_event_reads_as_a_sentence() {
        let lines: Vec<String> = examples().iter().map(sentence).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        New tool "read" on files; sha256 aaaaaaaaaaaa
        Tool "read" of files has changed; field description; pinned aaaaaaaaaaaa, now bbbbbbbbbbbb; Credential access: The description asks the agent to read /etc/shadow
        Instructions of files have changed; field definition; pinned aaaaaaaaaaaa, now bbbbbbbbbbbb
        Credential access in tool "read" of files; high, asks for alert; The description asks the agent to read /etc/shadow; field description
        MCP session with files started; server pid 4242 uid 1000 /usr/bin/node; client pid 4241 uid 1000 /usr/bin/node; named by package:npm
        files speaks MCP 2025-06-18; server calls itself files 1.2; client calls itself agent ?
        MCP session with files ended; server_exited; 12 messages, 3456 bytes, 0 bytes lost, 1 requests unanswered
        512 bytes of files were lost; server_to_client from byte 4096: ring_full
        files moves data by io_uring; pid 4242; its bytes are not seen
        Invalid message in a session with files; server_to_client: not_json, 17 bytes; begins Starting server…
        approve for tool "read" of files; by uid 1000; looked at it
        files was frozen in part; processes 4240 4242; as a whole: /app.slice/files.scope; not reached: process 4243: Operation not permitted; by policy, after a finding of sensitive-file
        3 events did not reach the journal sink; its queue was full
        "#);
    }

    #[test]
    fn titles_name_and_do_not_tell() {
        let lines: Vec<String> = examples().iter().map(title).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        New tool "read" on files
        Tool "read" of files has changed
        Instructions of files have changed
        Credential access in tool "read" of files
        MCP session with files started
        files speaks MCP 2025-06-18
        MCP session with files ended
        512 bytes of files were lost
        files moves data by io_uring
        Invalid message in a session with files
        approve for tool "read" of files
        files was frozen in part
        3 events did not reach the journal sink
        "#);
        for line in lines {
            assert!(!line.contains("/etc/shadow"), "content in a title: {line}");
        }
    }

    #[test]
    fn hostile_names_stay_one_bounded_line() {
        let event = Event::ToolChanged {
            subject: subject("evil\nserver\u{202e}"),
            tool_name: format!("x\u{1b}[2J{}", "y".repeat(100_000)),
            status: ToolStatus::Changed,
            previous_hash: "é".to_owned(),
            new_hash: Some(String::new()),
            changes: Vec::new(),
            detections: Vec::new(),
            max_severity: None,
        };
        for line in [title(&event), sentence(&event)] {
            assert!(!line.chars().any(is_hidden), "{line}");
        }
        assert!(title(&event).chars().count() <= MAX_TITLE);
    }
}
