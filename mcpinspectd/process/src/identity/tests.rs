use proptest::prelude::*;

use super::*;
use crate::ProcessSnapshot;

mod launchers;

struct Case<'a> {
    lines: &'a [&'a str],
    home: &'a str,
}

fn process(line: &str, home: &str, pid: u32) -> ProcessSnapshot {
    let exe = match line.split(' ').next().unwrap() {
        "node" | "npm" => "/usr/bin/node",
        "python" => "/usr/bin/python3.11",
        "sh" => "/usr/bin/dash",
        _ => "",
    };
    ProcessSnapshot {
        pid: Pid(pid),
        start_time: u64::from(pid),
        parent: Pid(pid - 1),
        name: "x".to_owned(),
        exe: exe.to_owned(),
        exe_deleted: false,
        argv: if line.starts_with("npm exec") {
            vec![line.to_owned()]
        } else {
            line.split(' ').map(str::to_owned).collect()
        },
        cwd: Some(format!("{home}/src/weather")),
        uid: 1000,
        cgroup: "/".to_owned(),
    }
}

fn identity(case: &Case<'_>) -> ServerIdentity {
    let chain = case
        .lines
        .iter()
        .map(|line| process(line, case.home, 9))
        .collect();
    of_launch(&Launch {
        chain,
        client: None,
        home: Some(case.home.to_owned()),
    })
}

fn of(lines: &[&str]) -> ServerIdentity {
    identity(&Case {
        lines,
        home: "/home/me",
    })
}

#[test]
fn a_launch_shows_its_publisher() {
    for (line, publisher) in [
        (
            "npx -y @modelcontextprotocol/server-filesystem@1.2 /data",
            "npm:@modelcontextprotocol",
        ),
        ("uvx mcp-server-git", "pypi:mcp-server-git"),
        ("docker run -i --rm ghcr.io/acme/tickets:3", "ghcr.io/acme"),
        ("npx mcp-remote https://mcp.example/sse", "host:mcp.example"),
    ] {
        let found = identity(&Case {
            lines: &[line],
            home: "/home/me",
        });
        assert_eq!(found.publisher.as_deref(), Some(publisher), "{line}");
    }
}

#[test]
fn readable_names() {
    for (lines, id, source) in [
        (
            &[
                "node /home/me/.npm/_npx/0a1b2c/node_modules/.bin/mcp-server-filesystem /data",
                "sh -c mcp-server-filesystem",
                "npm exec @modelcontextprotocol/server-filesystem /data",
            ][..],
            "filesystem",
            "package:npm",
        ),
        (&["python -m mcp_server_time"], "time", "package:pypi"),
        (
            &[
                "python /home/me/.cache/uv/archive-v0/x/bin/mcp-server-git",
                "uvx mcp-server-git",
            ],
            "git",
            "package:pypi",
        ),
        (
            &["node /usr/lib/node_modules/@modelcontextprotocol/server-everything/dist/index.js"],
            "everything",
            "package:npm",
        ),
        (
            &["docker run -i --rm ghcr.io/github/github-mcp-server"],
            "github",
            "package:image",
        ),
        (&["node build/index.js"], "weather", "script"),
        (
            &["/usr/local/bin/github-mcp-server stdio"],
            "github",
            "binary",
        ),
        (
            &["npx -y mcp-remote https://mcp.linear.app/sse"],
            "mcp.linear.app",
            "package:npm",
        ),
        (&["sh -c true;cat"], "sh", "binary"),
    ] {
        let identity = of(lines);
        assert_eq!(
            (&*identity.server_id.0, identity.name_source.as_str()),
            (id, source),
            "{lines:?}"
        );
        assert_eq!(
            identity.fingerprint.len(),
            2 * fingerprint::FINGERPRINT_BYTES
        );
    }
    assert_eq!(&*of(&[""]).server_id.0, "unknown");
}

#[test]
fn the_same_server_on_another_host_for_another_user_at_another_time() {
    let same: &[&[Case<'_>]] = &[
        &[
            Case {
                lines: &[
                    "node /home/me/.npm/_npx/0a1b2c/node_modules/.bin/mcp-server-filesystem /home/me/a",
                    "sh -c mcp-server-filesystem",
                    "npm exec @modelcontextprotocol/server-filesystem@1.0.0 /home/me/a",
                ],
                home: "/home/me",
            },
            Case {
                lines: &[
                    "node /root/.npm/_npx/ffff/node_modules/.bin/mcp-server-filesystem /srv/b",
                    "npm exec @modelcontextprotocol/server-filesystem@latest /srv/b",
                ],
                home: "/root",
            },
            Case {
                lines: &["npx -y @modelcontextprotocol/server-filesystem /srv/b /srv/c"],
                home: "/root",
            },
            Case {
                lines: &[
                    "node /usr/lib/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js /x",
                ],
                home: "/root",
            },
        ],
        &[
            Case {
                lines: &[
                    "python /home/me/.cache/uv/archive-v0/1a/bin/mcp-server-git -r /a",
                    "uvx mcp-server-git@2 -r /a",
                ],
                home: "/home/me",
            },
            Case {
                lines: &["python -m mcp_server_git -r /b"],
                home: "/root",
            },
            Case {
                lines: &["python /opt/v/bin/mcp-server-git -r ."],
                home: "/root",
            },
        ],
        &[
            Case {
                lines: &["python server.py --key k --port 4711 --api-key abc"],
                home: "/home/me",
            },
            Case {
                lines: &[
                    "python /home/you/src/weather/server.py --key k --port 1147 --api-key xyz",
                ],
                home: "/home/you",
            },
        ],
        &[
            Case {
                lines: &["docker run -i --rm -e TOKEN=1 mcp/x:1 a"],
                home: "/home/me",
            },
            Case {
                lines: &["podman run -i -v /a:/b docker.io/mcp/x@sha256:00 a"],
                home: "/root",
            },
        ],
        &[
            Case {
                lines: &["/home/me/.cargo/bin/foo --x"],
                home: "/home/me",
            },
            Case {
                lines: &["/usr/bin/foo --x"],
                home: "/root",
            },
        ],
    ];
    let mut seen = Vec::new();
    for group in same {
        let first = identity(&group[0]);
        for case in *group {
            assert_eq!(identity(case), first, "{:?}", case.lines);
        }
        assert!(!seen.contains(&first.fingerprint));
        seen.push(first.fingerprint);
    }
}

#[test]
fn what_makes_another_server() {
    let fingerprint = |line: &str| of(&[line]).fingerprint;
    let base = fingerprint("npx -y @a/server-x --toolsets a");
    for other in [
        "npx -y @a/server-x --toolsets b",
        "npx -y @a/server-x",
        "npx -y @b/server-x --toolsets a",
        "uvx server-x --toolsets a",
    ] {
        assert_ne!(fingerprint(other), base, "{other}");
    }
    assert_ne!(
        fingerprint("npx mcp-remote https://a.example/mcp"),
        fingerprint("npx mcp-remote https://b.example/mcp")
    );
    assert_ne!(
        fingerprint("python a/server.py"),
        fingerprint("python b/server.py")
    );
    assert_ne!(
        fingerprint("x --config /a/one.json"),
        fingerprint("x --config /a/two.json")
    );
}

#[test]
fn the_fingerprint_is_an_interface() {
    // Pins depend on it: changing these values means changing the recipe's version.
    assert_eq!(
        of(&["npx -y @modelcontextprotocol/server-filesystem /data"]).fingerprint,
        fingerprint_of(
            "package:npm",
            &["@modelcontextprotocol/server-filesystem", "<path>"]
        )
    );
    assert_eq!(
        of(&["python server.py -v"]).fingerprint,
        fingerprint_of("script", &["~/src/weather/server.py", "-v"])
    );
}

fn fingerprint_of(kind: &str, parts: &[&str]) -> String {
    let text = format!("mcpinspect launch 1\n{kind}\0{}", parts.join("\0"));
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_command_is_the_package_that_it_leads_to_and_says_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("node_modules/.bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (command, target) in [
        ("mcp", "../@playwright/mcp/cli.js"),
        ("mcp-server-files", "../mcp-server-files/cli.js"),
        ("mcp-remote", "../@acme/remote/cli.js"),
    ] {
        std::os::unix::fs::symlink(target, bin.join(command)).unwrap();
    }
    let place = dir.path().to_str().unwrap();
    let identity = |lines: &[&str]| {
        let mut launch = Launch {
            chain: lines.iter().map(|line| process(line, "/x", 9)).collect(),
            client: None,
            home: None,
        };
        for process in &mut launch.chain {
            process.cwd = Some(place.to_owned());
        }
        let links = BinLinks::of(&crate::snapshot(Pid(std::process::id())).unwrap());
        super::of(&launch, &links, &ClientConfigs::default())
    };
    let former = |identity: &ServerIdentity| {
        let former = identity.former.as_ref();
        former.map(|former| (former.server_id.to_string(), former.fingerprint.clone()))
    };
    let package = of(&["npx -y @playwright/mcp --port 9"]);
    let as_before = of(&["npx -y mcp --port 9"]);
    assert_eq!(package.former, None);
    for lines in [
        &["node node_modules/.bin/mcp --port 9"][..],
        &["npx mcp --port 9"],
        &[
            "node node_modules/.bin/mcp --port 9",
            "npm exec mcp --port 9",
        ],
    ] {
        let found = identity(lines);
        assert_eq!(
            (&*found.server_id.0, found.name_source.as_str()),
            ("playwright", "package:npm")
        );
        assert_eq!(found.fingerprint, package.fingerprint, "{lines:?}");
        let before = (
            as_before.server_id.to_string(),
            as_before.fingerprint.clone(),
        );
        assert_eq!(former(&found), Some(before), "{lines:?}");
    }
    // Installed globally.
    std::fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
    std::os::unix::fs::symlink(
        "../lib/node_modules/@playwright/mcp/cli.js",
        dir.path().join("usr/bin/mcp"),
    )
    .unwrap();
    let found = identity(&["node ./usr/bin/mcp --port 9"]);
    assert_eq!(&*found.server_id.0, "playwright");
    assert_eq!(found.fingerprint, package.fingerprint);
    // With the package's own name, nothing changes; nor if npx runs a package other than the project's.
    for line in [
        "node node_modules/.bin/mcp-server-files",
        "npx mcp-server-files",
        "npx -y mcp@1",
        "pnpm dlx mcp",
        "node node_modules/.bin/../@playwright/mcp/cli.js",
    ] {
        let found = identity(&[line]);
        assert_eq!(
            found,
            ServerIdentity {
                former: None,
                ..found.clone()
            },
            "{line}"
        );
    }
    // What a command used to be named after: the host.
    let found = identity(&["npx mcp-remote https://mcp.example/sse"]);
    assert_eq!(&*found.server_id.0, "remote");
    assert_eq!(former(&found).unwrap().0, "mcp.example");
}

#[test]
fn blanks_in_arguments_survive_a_title() {
    let mut launch = Launch {
        chain: vec![
            process("node /n/node_modules/.bin/x A --say B", "/home/me", 9),
            process("npm exec @a/x hello world --say B", "/home/me", 8),
        ],
        client: None,
        home: None,
    };
    launch.chain[0].argv[2] = "hello world".to_owned();
    let exact = of(&["npx @a/x HELLO --say B"]);
    let mut direct = launch.clone();
    direct.chain[1].argv = ["npx", "@a/x", "hello world", "--say", "B"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(of_launch(&launch), of_launch(&direct));
    assert_ne!(of_launch(&launch), exact);
}

#[test]
fn the_chain_ends_below_the_client_known_or_not() {
    // The real ancestors of this test: cargo, a shell … none of them is part of a server.
    let me = Pid(std::process::id());
    let launch = Launch::gather(me, None).unwrap();
    assert_eq!(launch.chain[0].pid, me);
    let parent = launch.client.clone().map(|client| client.pid);
    if let Some(parent) = parent {
        assert_eq!(Launch::gather(me, Some(parent)).unwrap(), launch);
    }
    assert_eq!(Launch::gather(Pid(u32::MAX), None), None);
}

/// A process with the command line that the kernel saw, for this executable.
fn seen(argv: &[&str], exe: &str) -> ProcessSnapshot {
    ProcessSnapshot {
        argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
        exe: exe.to_owned(),
        ..process("x", "/home/me", 9)
    }
}

fn launched(chain: &[ProcessSnapshot]) -> ServerIdentity {
    of_launch(&Launch {
        chain: chain.to_vec(),
        client: None,
        home: Some("/home/me".to_owned()),
    })
}

/// Pins still apply when someone puts a guard in front of a server; what the guard says is pinned
/// separately.
#[test]
fn a_guard_is_named_after_its_server_and_pinned_apart() {
    let guard = [
        "/usr/bin/mcpinspect",
        "guard",
        "--policy=/home/me/p.toml",
        "--server=x",
        "--",
    ];
    for command in [
        &["npx", "-y", "@a/server-x", "--port", "9"][..],
        &["uvx", "mcp-server-time"],
        &["/opt/x/server", "--flag"],
        &["docker", "run", "-i", "--rm", "img/x"],
    ] {
        let own = seen(command, command[0]);
        let plain = launched(std::slice::from_ref(&own));
        let line: Vec<&str> = guard.iter().chain(command).copied().collect();
        let guarding = seen(&line, "/usr/bin/mcpinspect");
        assert_eq!(launched(&[own, guarding.clone()]), plain, "{command:?}");
        let in_front = launched(&[guarding]);
        assert_eq!(
            *in_front.server_id.0,
            format!("{}-guard", plain.server_id.0)
        );
        assert_ne!(in_front.fingerprint, plain.fingerprint);
        assert_eq!(in_front.publisher, plain.publisher);
        // The guard's options are not the server's.
        let other: Vec<&str> = [guard[0], "guard", "--"]
            .iter()
            .chain(command)
            .copied()
            .collect();
        assert_eq!(launched(&[seen(&other, guard[0])]), in_front);
    }
    // Anything that is not a guard of a command is an ordinary program.
    for other in [&["mcpinspect", "mcp"][..], &["mcpinspect", "guard", "--"]] {
        let other = launched(&[seen(other, "/usr/bin/mcpinspect")]);
        assert_eq!(&*other.server_id.0, "mcpinspect");
    }
}
