//! What launchers do to their command lines, and what they stand for.

use super::*;

/// npm writes its title over its arguments. What it was launched as leads to the same server.
#[test]
fn a_launcher_is_the_same_by_its_arguments_and_by_its_title() {
    const NODE: &str = "/usr/bin/node";
    let server = seen(
        &[
            "node",
            "/h/.npm/_npx/0a/node_modules/.bin/x",
            "a b",
            "--port",
            "9",
        ],
        NODE,
    );
    let shell = seen(&["sh", "-c", "x \"a b\" --port 9"], "/usr/bin/dash");
    let titled = |title: &str| launched(&[server.clone(), shell.clone(), seen(&[title], NODE)]);
    let started = |argv: &[&str]| launched(&[server.clone(), shell.clone(), seen(argv, NODE)]);
    let before = titled("npm exec @a/server-x@1.2 a b --port 9");
    for argv in [
        &[
            "node",
            "/usr/bin/npx",
            "-y",
            "@a/server-x@1.2",
            "a b",
            "--port",
            "9",
        ][..],
        &[
            "node",
            "/usr/bin/npx",
            "--yes",
            "--",
            "@a/server-x",
            "a b",
            "--port",
            "9",
        ],
        &[
            "/usr/bin/node",
            "/usr/bin/npm",
            "exec",
            "--",
            "@a/server-x@1.2",
            "a b",
            "--port",
            "9",
        ],
        &["npx", "-y", "@a/server-x@1.2", "a b", "--port", "9"],
        &[
            "node",
            "/x/npx-cli.js",
            "--loglevel",
            "silent",
            "@a/server-x",
            "a b",
            "--port",
            "9",
        ],
    ] {
        assert_eq!(started(argv), before, "{argv:?}");
    }
    // The title does not say which package the command comes from.
    let before = titled("npm exec x a b --port 9");
    let now = started(&[
        "node",
        "/usr/bin/npx",
        "-y",
        "-p",
        "@a/server-x",
        "x",
        "a b",
        "--port",
        "9",
    ]);
    assert_eq!(&*now.server_id.0, "x");
    let former = now.former.unwrap();
    assert_eq!(
        (former.server_id, former.fingerprint),
        (before.server_id, before.fingerprint)
    );
}

/// Other launchers do not overwrite their arguments, so what they were launched as is what was seen.
#[test]
fn launchers_by_what_the_kernel_saw() {
    const PYTHON: &str = "/usr/bin/python3.11";
    let script = |name: &str| seen(&["/v/bin/python", &format!("/v/bin/{name}"), "--x"], PYTHON);
    let node = |path: &str| seen(&["node", path, "--x"], "/usr/bin/node");
    for (chain, id, source) in [
        (
            vec![
                node("/c/dlx/node_modules/.bin/x"),
                seen(
                    &["node", "/usr/bin/pnpm", "dlx", "@a/x", "--x"],
                    "/usr/bin/node",
                ),
            ],
            "x",
            "package:npm",
        ),
        (
            vec![
                node("/tmp/bunx-0/node_modules/.bin/x"),
                seen(&["bunx", "@a/x", "--x"], "/usr/bin/bun"),
            ],
            "x",
            "package:npm",
        ),
        (
            vec![
                script("mcp-server-git"),
                seen(
                    &["uv", "tool", "uvx", "mcp-server-git", "--x"],
                    "/usr/bin/uv",
                ),
            ],
            "git",
            "package:pypi",
        ),
        (
            vec![
                script("mcp-server-git"),
                seen(&["uv", "run", "mcp-server-git", "--x"], "/usr/bin/uv"),
            ],
            "git",
            "package:pypi",
        ),
        (
            vec![
                script("mcp-server-git"),
                seen(
                    &[PYTHON, "/usr/bin/pipx", "run", "mcp-server-git", "--x"],
                    PYTHON,
                ),
            ],
            "git",
            "package:pypi",
        ),
        (
            vec![seen(&["python3", "-m", "mcp_server_git"], PYTHON)],
            "git",
            "package:pypi",
        ),
        (
            vec![seen(
                &["/usr/bin/docker", "run", "-i", "--rm", "mcp/git"],
                "/usr/bin/docker",
            )],
            "git",
            "package:image",
        ),
        (
            vec![seen(&["deno", "run", "-A", "npm:@a/x"], "/usr/bin/deno")],
            "x",
            "package:npm",
        ),
        (
            vec![
                seen(&["python3", "server.py"], PYTHON),
                seen(&["sh", "-c", "python3 server.py"], "/usr/bin/dash"),
            ],
            "weather",
            "script",
        ),
        (
            vec![
                seen(&["python3", "server.py"], PYTHON),
                seen(
                    &["/usr/bin/env", "A=b", "python3", "server.py"],
                    "/usr/bin/env",
                ),
            ],
            "weather",
            "script",
        ),
        (
            vec![seen(
                &["/usr/local/bin/github-mcp-server", "stdio"],
                "/usr/local/bin/github-mcp-server",
            )],
            "github",
            "binary",
        ),
        // Nothing is left of the name it was called by.
        (
            vec![seen(&[], "/usr/local/bin/github-mcp-server")],
            "github",
            "binary",
        ),
        (
            vec![seen(&["npm", "server.py"], PYTHON)],
            "weather",
            "script",
        ),
    ] {
        let identity = launched(&chain);
        assert_eq!(
            (
                &*identity.server_id.0,
                identity.name_source.as_str(),
                identity.former
            ),
            (id, source, None),
            "{chain:?}"
        );
    }
}

#[test]
fn a_server_is_what_was_started_first_and_says_what_it_was_taken_for() {
    let info = |process: &ProcessSnapshot| ProcessInfo::new(process.clone(), Vec::new());
    let configs = ClientConfigs::default();
    let identify = |origin: &ProcessSnapshot, serving: &ProcessSnapshot| {
        let (origin, serving) = (info(origin), info(serving));
        of_server(
            Launched {
                origin: Some(&origin),
                serving: Some(&serving),
                client: None,
            },
            &configs,
        )
    };
    const PYTHON: &str = "/usr/bin/python3.11";
    let mut shim = seen(&["/bin/sh", "/opt/start.sh", "--x"], "/usr/bin/dash");
    let mut server = seen(&["python3", "/opt/app/server.py", "--x"], PYTHON);
    for process in [&mut shim, &mut server] {
        (process.pid, process.uid) = (Pid(u32::MAX), u32::MAX);
    }
    let alone = |process: &ProcessSnapshot| of_process(Some(&info(process)), None, &configs);
    let found = identify(&shim, &server);
    assert_eq!(found.fingerprint, alone(&shim).fingerprint);
    let former = found.former.unwrap();
    assert_eq!(former.fingerprint, alone(&server).fingerprint);
    // The same launch, whatever the program does next.
    assert_eq!(identify(&server, &server), alone(&server));
    let mut again = server.clone();
    again.argv.push("4711-made-up".to_owned());
    assert_eq!(
        identify(&server, &again).fingerprint,
        alone(&server).fingerprint
    );
    // If only what serves is known, it decides.
    let serving = info(&server);
    let only = Launched {
        serving: Some(&serving),
        ..Launched::default()
    };
    assert_eq!(of_server(only, &configs), alone(&server));
    assert_eq!(of_server(Launched::default(), &configs), unknown());
}

proptest! {
    #[test]
    fn any_launch_has_a_harmless_name(
        argv in prop::collection::vec(".*", 0..5),
        exe in ".*",
        cwd in proptest::option::of(".*"),
    ) {
        let mut one = process("x", "/home/me", 9);
        (one.argv, one.exe, one.cwd) = (argv, exe, cwd);
        let launch = Launch { chain: vec![one], client: None, home: None };
        let identity = of_launch(&launch);
        prop_assert!(identity.server_id.0.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')));
        prop_assert!(!identity.server_id.0.is_empty() && identity.server_id.0.len() <= 48);
        prop_assert_eq!(of_launch(&launch), identity);
    }
}

#[test]
fn a_real_launcher_is_part_of_the_launch_and_its_parent_is_not() {
    let me = Pid(std::process::id());
    let mut shell = std::process::Command::new("sh")
        .args(["-c", "sleep 61 --token=hunter22 2>/dev/null || sleep 61; :"])
        .env("LC_ALL", "C")
        .spawn()
        .unwrap();
    let shell_pid = Pid(shell.id());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let server = loop {
        let found = crate::info::all()
            .into_iter()
            .filter(|process| process.parent == shell_pid)
            .filter_map(|process| crate::snapshot(process.pid))
            .find(|process| process.argv == ["sleep", "61"]);
        if let Some(found) = found {
            break found.pid;
        }
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let launch = Launch::gather(server, None).unwrap();
    let known = Launch::gather(server, Some(me)).unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(server.0.cast_signed()),
        nix::sys::signal::SIGKILL,
    )
    .unwrap();
    shell.wait().unwrap();

    assert_eq!(
        launch.chain.iter().map(|p| p.pid).collect::<Vec<_>>(),
        [server, shell_pid]
    );
    assert_eq!(launch.client.as_ref().map(|client| client.pid), Some(me));
    assert_eq!(launch, known);
    assert!(!format!("{launch:?}").contains("hunter22"));
    let identity = super::super::of(&launch, &BinLinks::none(), &ClientConfigs::default());
    assert_eq!(
        (&*identity.server_id.0, identity.name_source.as_str()),
        ("sleep", "binary")
    );
    assert_eq!(Launch::gather(server, None), None);
}
