use super::*;
use proptest::prelude::*;

fn argv(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn of(line: &str, exe: &str) -> (LaunchSource, String, String) {
    let found = recognise(
        &argv(line),
        exe,
        Some("/home/me/src/weather"),
        &BinLinks::none(),
    );
    let Some(Invocation {
        source,
        name,
        called: None,
        arguments,
        from_title: _,
    }) = found
    else {
        unreachable!("nothing recognised in {line}");
    };
    (source, name, arguments.join(" "))
}

#[test]
fn command_lines_seen_in_practice() {
    for (line, exe, source, name, arguments) in [
        (
            "npx -y @a/server-x@1.2 /dir",
            "",
            LaunchSource::Npm,
            "@a/server-x",
            "/dir",
        ),
        (
            "node --no-warnings /usr/bin/npx --node-options --x --yes @a/x --flag",
            "/usr/bin/node",
            LaunchSource::Npm,
            "@a/x",
            "--flag",
        ),
        (
            // Node's launchers call themselves what they like; Python does not become one.
            "npm server.py",
            "/usr/bin/python3.11",
            LaunchSource::Script,
            "/home/me/src/weather/server.py",
            "",
        ),
        (
            "npm server.js",
            "/usr/bin/node",
            LaunchSource::Script,
            "/home/me/src/weather/server.js",
            "",
        ),
        (
            // What version managers put in an interpreter's place.
            "bash /home/me/.pyenv/shims/python server.py --x",
            "/usr/bin/bash",
            LaunchSource::Script,
            "/home/me/src/weather/server.py",
            "--x",
        ),
        (
            "/bin/sh /h/w/node_modules/.bin/server-x --x",
            "/usr/bin/dash",
            LaunchSource::Npm,
            "server-x",
            "--x",
        ),
        (
            "node /usr/bin/tsx src/index.ts --x",
            "/usr/bin/node",
            LaunchSource::Script,
            "/home/me/src/weather/src/index.ts",
            "--x",
        ),
        (
            "python3 /usr/bin/poetry run python server.py",
            "/usr/bin/python3.11",
            LaunchSource::Script,
            "/home/me/src/weather/server.py",
            "",
        ),
        (
            "node /usr/bin/npx -y @a/server-x /dir",
            "/usr/bin/node",
            LaunchSource::Npm,
            "@a/server-x",
            "/dir",
        ),
        ("npm exec -- @a/x -v", "", LaunchSource::Npm, "@a/x", "-v"),
        ("pnpm dlx @a/x@latest a", "", LaunchSource::Npm, "@a/x", "a"),
        ("bunx @a/x a", "", LaunchSource::Npm, "@a/x", "a"),
        (
            "bun x @a/x a",
            "/usr/bin/bun",
            LaunchSource::Npm,
            "@a/x",
            "a",
        ),
        (
            "bun run src/index.ts",
            "/usr/bin/bun",
            LaunchSource::Script,
            "/home/me/src/weather/src/index.ts",
            "",
        ),
        (
            "node /h/.npm/_npx/0a1b/node_modules/@a/server-x/dist/index.js /dir",
            "/usr/bin/node",
            LaunchSource::Npm,
            "@a/server-x",
            "/dir",
        ),
        (
            "node /h/node_modules/.bin/server-x /dir",
            "/usr/bin/node",
            LaunchSource::Npm,
            "server-x",
            "/dir",
        ),
        (
            // A command of pnpm's.
            "node /h/w/node_modules/.bin/../@a/server-x/dist/index.js /dir",
            "/usr/bin/node",
            LaunchSource::Npm,
            "@a/server-x",
            "/dir",
        ),
        (
            "node node_modules/.bin/../server-x/./x.js",
            "/usr/bin/node",
            LaunchSource::Npm,
            "server-x",
            "",
        ),
        (
            "node /h/w/node_modules/.bin/../../dist/x.js",
            "/usr/bin/node",
            LaunchSource::Script,
            "/h/w/dist/x.js",
            "",
        ),
        ("pnpm dlx foo x", "", LaunchSource::Npm, "foo", "x"),
        (
            "node --enable-source-maps build/index.js a",
            "/usr/bin/node",
            LaunchSource::Script,
            "/home/me/src/weather/build/index.js",
            "a",
        ),
        (
            "uvx mcp-server-git@1 --repository X",
            "",
            LaunchSource::PyPi,
            "mcp-server-git",
            "--repository X",
        ),
        (
            "uvx --from git+https://github.com/o/serena serena start",
            "",
            LaunchSource::PyPi,
            "https://github.com/o/serena",
            "start",
        ),
        (
            "/v/bin/uv tool uvx mcp-server-time --x",
            "/v/bin/uv",
            LaunchSource::PyPi,
            "mcp-server-time",
            "--x",
        ),
        (
            "uv tool run --python 3.12 mcp-server-time",
            "",
            LaunchSource::PyPi,
            "mcp-server-time",
            "",
        ),
        (
            "uv run --with mcp mcp run server.py",
            "",
            LaunchSource::Script,
            "/home/me/src/weather/server.py",
            "",
        ),
        (
            "uv --directory /srv/w run server.py --x",
            "",
            LaunchSource::Script,
            "/srv/w/server.py",
            "--x",
        ),
        (
            "uv run mcp-server-time --local",
            "",
            LaunchSource::PyPi,
            "mcp-server-time",
            "--local",
        ),
        (
            "uv run -m mcp_server_time",
            "",
            LaunchSource::PyPi,
            "mcp-server-time",
            "",
        ),
        (
            "pipx run mcp-server-time",
            "",
            LaunchSource::PyPi,
            "mcp-server-time",
            "",
        ),
        (
            "python3.11 -u -m mcp_server_time --x",
            "/usr/bin/python3.11",
            LaunchSource::PyPi,
            "mcp-server-time",
            "--x",
        ),
        (
            "/v/bin/python /v/bin/mcp-server-time --x",
            "/usr/bin/python3.11",
            LaunchSource::PyPi,
            "mcp-server-time",
            "--x",
        ),
        (
            "python server.py --x",
            "",
            LaunchSource::Script,
            "/home/me/src/weather/server.py",
            "--x",
        ),
        (
            "python /v/lib/python3.11/site-packages/mcp_x/server.py",
            "",
            LaunchSource::PyPi,
            "mcp-x",
            "",
        ),
        (
            "poetry run python server.py",
            "",
            LaunchSource::Script,
            "/home/me/src/weather/server.py",
            "",
        ),
        (
            "docker run -i --rm -e A=b --mount type=bind,src=/a,dst=/b mcp/x:1 /p",
            "",
            LaunchSource::Image,
            "mcp/x",
            "/p",
        ),
        (
            "podman run -it --name=q -v /a:/b reg:5000/o/x",
            "",
            LaunchSource::Image,
            "reg:5000/o/x",
            "",
        ),
        (
            "deno run -A npm:@a/x@1 b",
            "",
            LaunchSource::Npm,
            "@a/x",
            "b",
        ),
        (
            "deno run --allow-net jsr:@a/x b",
            "",
            LaunchSource::Deno,
            "@a/x",
            "b",
        ),
        (
            "java -Xmx1g -jar /opt/x/foo.jar --a",
            "/usr/bin/java",
            LaunchSource::Script,
            "/opt/x/foo.jar",
            "--a",
        ),
        (
            "/usr/local/bin/github-mcp-server stdio",
            "",
            LaunchSource::Binary,
            "/usr/local/bin/github-mcp-server",
            "stdio",
        ),
        ("env A=b C=d npx -y foo", "", LaunchSource::Npm, "foo", ""),
        ("timeout -k 3 10 uvx foo", "", LaunchSource::PyPi, "foo", ""),
        (
            "op run --env-file x -- npx foo",
            "",
            LaunchSource::Npm,
            "foo",
            "",
        ),
        (
            "bash run.sh",
            "/usr/bin/bash",
            LaunchSource::Script,
            "/home/me/src/weather/run.sh",
            "",
        ),
        (
            "/usr/share/code/code /x/y/server.js --z",
            "/usr/share/code/code",
            LaunchSource::Script,
            "/x/y/server.js",
            "--z",
        ),
        ("node", "/usr/bin/node", LaunchSource::Binary, "node", ""),
    ] {
        let expected = (source, name.to_owned(), arguments.to_owned());
        assert_eq!(of(line, exe), expected, "{line}");
    }
}

#[test]
fn a_command_of_another_package_says_what_it_was_called() {
    let line = argv("npx --yes --package @a/x@1 -- cmd --flag");
    let found = recognise(&line, "", None, &BinLinks::none()).unwrap();
    assert_eq!(
        (found.name.as_str(), found.called.as_deref()),
        ("@a/x", Some("cmd"))
    );
    assert_eq!(found.arguments, ["--flag"]);
}

#[test]
fn titles_and_shells() {
    let title = vec!["npm exec @a/server-x /my dir".to_owned()];
    let recognise = |argv: &[String], exe| recognise(argv, exe, None, &BinLinks::none());
    let found = recognise(&title, "/usr/bin/node").unwrap();
    assert_eq!(
        (found.source, found.name.as_str()),
        (LaunchSource::Npm, "@a/server-x")
    );
    assert_eq!(found.arguments, ["/my", "dir"]);
    assert!(found.from_title);

    let shell =
        |text: &str| recognise(&["sh".to_owned(), "-c".to_owned(), text.to_owned()], "").unwrap();
    assert_eq!(shell("A=b exec 'npx' -y \"foo bar\" x").name, "foo bar");
    assert_eq!(shell("cd /x && uvx foo").name, "foo");
    let script = shell("read x; echo $x | cat");
    assert_eq!(
        (script.source, script.name.as_str()),
        (LaunchSource::Binary, "sh")
    );
    assert_eq!(recognise(&[], "/usr/bin/foo").unwrap().name, "/usr/bin/foo");
    assert_eq!(recognise(&[], ""), None);
    assert_eq!(recognise(&[String::new()], ""), None);
}

#[test]
fn launchers_are_wrappers_and_clients_are_not() {
    for (line, exe) in [
        ("npx -y foo", ""),
        ("node /usr/bin/npx -y foo", "/usr/bin/node"),
        ("uv run x", ""),
        ("sh -c foo", ""),
        ("bash -lc foo", ""),
        ("env A=b foo", ""),
        ("timeout 3 foo", ""),
        ("node --no-warnings /usr/bin/npx -y foo", "/usr/bin/node"),
        ("node /x/corepack/dist/pnpm.js dlx foo", "/usr/bin/node"),
        ("node /x/.bin/cross-env A=b node x.js", "/usr/bin/node"),
        ("bash /home/me/.pyenv/shims/npx foo", "/usr/bin/bash"),
        (
            "python3 /usr/bin/poetry run python x.py",
            "/usr/bin/python3.11",
        ),
        ("python3 /v/bin/pipx run foo", "/usr/bin/python3.11"),
        ("python3 -m uv run foo", "/usr/bin/python3.11"),
        ("taskset -c 0 foo", "/usr/bin/taskset"),
    ] {
        assert!(is_wrapper(&argv(line), exe), "{line}");
    }
    assert!(is_wrapper(&["npm exec @a/x".to_owned()], "/usr/bin/node"));
    for (line, exe) in [
        ("bash", ""),
        ("-bash", ""),
        ("sh client.sh", ""),
        ("python client.py", ""),
        ("node /x/client.js", "/usr/bin/node"),
        ("claude", "/x/claude"),
        ("systemd --user", ""),
        ("npx client.py", "/usr/bin/python3.11"),
        ("uvx client.js", "/usr/bin/node"),
        (
            "bash /home/me/.pyenv/shims/python client.py",
            "/usr/bin/bash",
        ),
        ("python3 /v/bin/mcp run client.py", "/usr/bin/python3.11"),
        ("node /usr/bin/tsx client.ts", "/usr/bin/node"),
    ] {
        assert!(!is_wrapper(&argv(line), exe), "{line}");
    }
    assert!(!is_wrapper(&[], ""));
}

proptest! {
    #[test]
    fn any_command_line(
        args in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "npx", "uv", "uvx", "run", "python", "node", "-c", "-m", "--", "sh", "docker", "env", "exec",
                    "bun", "x", "deno", "--from", "-p", "timeout", "java", "-jar", "", "-", "node_modules/.bin/", "a=b",
                    "/node_modules/@a", "poetry", "op",
                ]).prop_map(str::to_owned),
                ".*",
            ],
            0..8,
        ),
        exe in prop::sample::select(vec!["", "/usr/bin/node", "/usr/bin/python3", "/bin/x"]),
    ) {
        let _ = recognise(&args, exe, Some("/home/me"), &BinLinks::none());
        let _ = is_wrapper(&args, exe);
    }
}
