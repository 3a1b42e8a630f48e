//! Who holds the wire, on which descriptors, in which process and thread, and since when.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient, oddpeers};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify::{self, Pids, TO_CLIENT, TO_SERVER};

use crate::{SESSION, each_exact, exact};

const PLAN: &str = "handshake; list; call 1 300 70000; ask; burst 10 200";

#[test]
fn threads_other_than_the_main_one() -> Result<()> {
    let mut sessions = Vec::new();
    for transport in ["pipe", "socketpairs", "socketpair"] {
        let client = ["--threads", "--transport", transport];
        let command = oddpeers(&client, PLAN, &["--threads"])?;
        sessions.push((transport.to_owned(), command));
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn descriptors_moved_away_from_the_standard_ones() -> Result<()> {
    let mut sessions = Vec::new();
    for transport in ["pipe", "socketpairs", "socketpair", "fifo"] {
        let client = ["--dup-high", "--transport", transport];
        let command = oddpeers(&client, PLAN, &["--dup-high"])?;
        sessions.push((transport.to_owned(), command));
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn a_process_that_was_handed_the_descriptors() -> Result<()> {
    let mut sessions = Vec::new();
    for method in ["scm", "scm-credentials", "scm-second", "pidfd"] {
        for transport in ["pipe", "socketpairs"] {
            let client = ["--transport", transport];
            let command = oddpeers(&client, PLAN, &["--hand-over", method])?;
            sessions.push((format!("{method}, {transport}"), command));
        }
    }
    each_exact(sessions, Pids::AtLast)
}

#[test]
fn a_server_that_executes_itself_anew() -> Result<()> {
    let plan = "handshake; list; call 300 300 300 70000";
    let mut sessions = Vec::new();
    for after in ["1", "3", "5"] {
        let command = oddpeers(&[], plan, &["--reexec-after", after])?;
        sessions.push((format!("after {after}"), command));
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn wrappers_around_the_server() -> Result<()> {
    let oddpeer = places::program("oddpeer")?;
    let server = format!("'{}' server", oddpeer.display());
    let chains: [&[&str]; 4] = [
        &["sh", "-c", &format!("env ODD=1 {server}; true")],
        &["sh", "-c", &format!("exec env ODD=1 {server}")],
        &["env", "ODD=1", "sh", "-c", &format!("{server}; exit $?")],
        &[
            "sh",
            "-c",
            &format!("sh -c \"sh -c \\\"{server}; true\\\"; true\"; true"),
        ],
    ];
    let mut sessions = Vec::new();
    for chain in chains {
        for transport in ["pipe", "socketpairs"] {
            let command = oddclient(&["--transport", transport], PLAN, chain)?;
            sessions.push((format!("{transport}, {}", chain.join(" ")), command));
        }
    }
    each_exact(sessions, Pids::AtLast)
}

#[test]
fn a_script_that_starts_the_server_and_execs() -> Result<()> {
    let files = tempfile::tempdir()?;
    let script = files.path().join("my-server");
    let oddpeer = places::program("oddpeer")?;
    std::fs::write(
        &script,
        format!("#!/bin/sh\nexec '{}' server\n", oddpeer.display()),
    )?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    exact(oddclient(&[], PLAN, &[&script])?, Pids::AtLast)?;
    Ok(())
}

/// A client in shell: its lines come from `printf`, its answers from `read`, a byte a call.
fn shell_client(shell: &str, script: &str) -> Result<Command> {
    let oddpeer = places::program("oddpeer")?;
    let mut command = Command::new(shell);
    command.arg("-c").arg(script).env("ODDPEER", oddpeer);
    Ok(command)
}

const SHELL_TALK: &str = r#"
    say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"shell","version":"1"}}}'
    hear
    say '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    for i in 2 3 4; do
        say '{"jsonrpc":"2.0","id":'$i',"method":"tools/call","params":{"name":"echo","arguments":{"size":500}}}'
        hear
    done
"#;

#[test]
fn a_bash_coprocess() -> Result<()> {
    let script = format!(
        r#"
        coproc SERVER {{ exec "$ODDPEER" server; }}
        say() {{ printf '%s\n' "$1" >&"${{SERVER[1]}}"; }}
        hear() {{ IFS= read -r line <&"${{SERVER[0]}}"; }}
        {SHELL_TALK}
        eval "exec ${{SERVER[1]}}>&-"
        wait
        "#
    );
    let truth = exact(shell_client("bash", &script)?, Pids::AtLast)?;
    ensure!(truth.to_server.len() == 5, "{truth:?}");
    Ok(())
}

#[test]
fn a_shell_script_with_named_pipes() -> Result<()> {
    let script = format!(
        r#"
        set -e
        mkfifo "$WIRE_LOG_DIR/in" "$WIRE_LOG_DIR/out"
        "$ODDPEER" server <"$WIRE_LOG_DIR/in" >"$WIRE_LOG_DIR/out" &
        exec 3>"$WIRE_LOG_DIR/in" 4<"$WIRE_LOG_DIR/out"
        say() {{ printf '%s\n' "$1" >&3; }}
        hear() {{ IFS= read -r line <&4; }}
        {SHELL_TALK}
        exec 3>&-
        wait
        "#
    );
    let truth = exact(shell_client("sh", &script)?, Pids::AtLast)?;
    ensure!(truth.to_server.len() == 5, "{truth:?}");
    Ok(())
}

/// Every line from another short-lived process: the client's side has no process that lasts.
#[test]
fn lines_from_short_lived_processes() -> Result<()> {
    let script = format!(
        r#"
        set -e
        mkfifo "$WIRE_LOG_DIR/in" "$WIRE_LOG_DIR/out"
        "$ODDPEER" server <"$WIRE_LOG_DIR/in" >"$WIRE_LOG_DIR/out" &
        exec 3>"$WIRE_LOG_DIR/in" 4<"$WIRE_LOG_DIR/out"
        say() {{ /bin/echo "$1" >&3; }}
        hear() {{ head -n 1 <&4 >/dev/null; }}
        {SHELL_TALK}
        exec 3>&-
        wait
        "#
    );
    let tap = Tap::start()?;
    let truth = Talk::start(shell_client("sh", &script)?)?.finish(SESSION)?;
    let finished = tap.finish()?;
    verify::exact(&truth, &finished.capture, Pids::AtLast)?;
    Ok(())
}

/// The daemon comes second: the server sits in `read()`, the session is half over.
#[test]
fn a_session_that_began_before_the_daemon() -> Result<()> {
    let oddpeer = places::program("oddpeer")?;
    let plain: &[OsString] = &[oddpeer.clone().into(), "server".into()];
    let high: &[OsString] = &[oddpeer.clone().into(), "server".into(), "--dup-high".into()];
    let wrapped = format!("'{}' server; true", oddpeer.display());
    let wrapped: &[OsString] = &["sh".into(), "-c".into(), wrapped.into()];
    let files = tempfile::tempdir()?;
    let (asleep, go) = (files.path().join("asleep"), files.path().join("go"));
    let mut talks = Vec::new();
    for (name, server) in [("plain", plain), ("high", high), ("wrapped", wrapped)] {
        for transport in ["pipe", "socketpairs", "socketpair"] {
            // Nothing tells whose sockets are connected to whose, so a wire on sockets that was moved
            // away from descriptors 0 and 1 before the daemon came is not found.
            if name == "high" && transport != "pipe" {
                continue;
            }
            for io in [&["--read", "read"][..], &["--threads"]] {
                let mark = asleep.with_file_name(format!("asleep-{}", talks.len()));
                let plan = format!(
                    "handshake; list; call 300; mark {}; wait {}; call 301 70000 302; burst 5 200; list",
                    mark.display(),
                    go.display()
                );
                let server = [server, &io.iter().map(Into::into).collect::<Vec<_>>()[..]].concat();
                // The shell takes its script's text, not our options.
                let server = if name == "wrapped" {
                    server[..3].to_vec()
                } else {
                    server
                };
                let client = [&["--transport", transport][..], io].concat();
                let mut talk = Talk::start(oddclient(&client, &plan, &server)?)?;
                talk.wait_for(&mark, SESSION)?;
                talks.push((format!("{name}, {transport}, {io:?}"), talk));
            }
        }
    }
    // Let every reader enter its blocking call, which no reader can announce.
    std::thread::sleep(Duration::from_millis(200));
    let tap = Tap::start()?;
    let before: Vec<_> = talks
        .iter()
        .map(|(_, t)| t.truth())
        .collect::<Result<_>>()?;
    std::fs::write(&go, "")?;
    let mut truths = Vec::new();
    for (name, talk) in talks {
        truths.push((name, talk.finish(SESSION)?));
    }
    let finished = tap.finish()?;
    let count = truths.len();
    let failures = truths
        .into_iter()
        .zip(before)
        .filter_map(|((name, mut truth), before)| {
            truth.to_server.drain(..before.to_server.len());
            truth.to_client.drain(..before.to_client.len());
            let error = verify::exact(&truth, &finished.capture, Pids::Always).err()?;
            Some(format!("{name}: {error:#}"))
        });
    crate::verdict(count, failures)
}

/// A message that is half written when the daemon attaches is not reported as a whole one.
#[test]
fn a_message_that_was_half_over_when_the_daemon_came() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (mark, go) = (files.path().join("mark"), files.path().join("go"));
    let whole = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"the tail of this looks like {\"jsonrpc\":\"2.0\",\"method\":\"x\"}"}}"#;
    let (head, tail) = whole.split_at(whole.find("{\\").context("the inner object")?);
    let (head_file, tail_file) = (files.path().join("head"), files.path().join("tail"));
    std::fs::write(&head_file, head)?;
    std::fs::write(&tail_file, format!("{tail}\n"))?;
    let plan = format!(
        "handshake; call 300; send {}; mark {}; wait {}; send {}; call 301 302",
        head_file.display(),
        mark.display(),
        go.display(),
        tail_file.display()
    );
    let mut talk = Talk::start(oddpeers(&[], &plan, &[])?)?;
    talk.wait_for(&mark, SESSION)?;
    let tap = Tap::start()?;
    std::fs::write(&go, "")?;
    let truth = talk.finish(SESSION)?;
    let finished = tap.finish()?;
    let session = verify::session_of(&truth, &finished.capture)?;
    let calls = &truth.to_server[truth.to_server.len() - 2..];
    verify::same(calls, &session.to_server)?;
    verify::in_order(&truth.to_client, &session.to_client)?;
    ensure!(session.to_client.len() == 2, "{:?}", session.to_client);
    Ok(())
}

#[test]
fn twenty_restarts_in_a_row() -> Result<()> {
    let sessions = (0..20)
        .map(|n| Ok((format!("start {n}"), oddpeers(&[], PLAN, &[])?)))
        .collect::<Result<_>>()?;
    each_exact(sessions, Pids::Always)
}

const HALF: &str = r#"{"jsonrpc":"2.0","method":"notifications/mess"#;

/// The server dies in the middle of a message; what it wrote before is reported, and the ledger
/// has every byte.
#[test]
fn a_server_that_is_killed() -> Result<()> {
    let files = tempfile::tempdir()?;
    let half = files.path().join("half");
    std::fs::write(&half, HALF)?;
    let mark = files.path().join("mark");
    let plan = format!(
        "handshake; call 300; trail {}; sleep 100; mark {}; wait {}/never",
        half.display(),
        mark.display(),
        files.path().display()
    );
    let tap = Tap::start()?;
    let mut talk = Talk::start(oddpeers(&[], &plan, &[])?)?;
    talk.wait_for(&mark, SESSION)?;
    let truth = talk.truth()?;
    let server = i32::try_from(truth.server_pid.context("the server's log")?)?;
    let server = nix::unistd::Pid::from_raw(server);
    nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGKILL)?;
    talk.kill()?;
    let finished = tap.finish()?;
    let session = verify::session_of(&truth, &finished.capture)?;
    verify::same(&truth.to_server, &session.to_server)?;
    // The unfinished line may be shown, as what it is, or not.
    let (last, whole) = session.to_client.split_last().context("messages")?;
    let unfinished = last.kind == "invalid" && last.raw.as_deref() == Some(HALF);
    let whole = if unfinished {
        whole
    } else {
        &session.to_client
    };
    verify::same(&truth.to_client, whole)?;
    for direction in [TO_SERVER, TO_CLIENT] {
        // The client may have read the unfinished line or not; nobody else has.
        let unread = match direction {
            TO_CLIENT => HALF.len() as u64,
            _ => 0,
        };
        let stream = session.stream(direction)?;
        // What nobody has read and nobody can is known to be lost, unless the daemon stopped before
        // that was clear; nothing else is.
        let never_read = stream.bytes_written - stream.bytes_read;
        ensure!(
            never_read <= unread
                && stream.bytes_lost <= never_read
                && stream.bytes_captured >= stream.bytes_read
                && stream.bytes_captured + stream.bytes_lost <= stream.bytes_written,
            "{stream:?}"
        );
    }
    Ok(())
}
