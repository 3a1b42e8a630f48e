//! Which server this is, tomorrow and on the next machine too.
//!
//! A pin on a tool is worth as much as the name under which it is kept. A pid, a pipe or the name that
//! a server gives itself will not do: the first two change at every start, and the attacker chooses
//! the third. What stays the same is *how the server is launched*, as the kernel saw it: command lines are
//! those at the time when a program was started, and the first program on the server's streams decides,
//! whatever it executes later. From the processes between client and server
//! (`npm exec` → `sh` → `node`), `command` finds the package and its own arguments; `normal` brings
//! them into a form that does not depend on user, host, version or secrets; their hash is the
//! **fingerprint**. The readable **name** is the one that a person gave the server in a client's
//! configuration, if an entry there describes this launch (see [`clients`]); otherwise it is derived
//! from the package or script. A command in `node_modules/.bin` stands for the package that it leads to
//! (see `bin_links`).
//!
//! A guard of ours in front of a server does not affect the server's name and fingerprint. What the guard says to
//! its client is another matter: a policy may hide tools and change what they say, which would look like a rug
//! pull. So the guard's own side counts as a separate server, `NAME-guard`, with its own pins.
//!
//! Anyone can claim a name, but not a fingerprint: a hostile repository may ship a `.mcp.json` that
//! calls its server `github`. The registry's `ServerNames` decides which server keeps
//! a name on this machine; across machines, servers are compared by fingerprint.

mod bin_links;
pub mod clients;
mod command;
mod config_file;
pub mod configured;
pub mod edit;
pub mod editable;
mod examiner;
mod fingerprint;
mod jsonc;
mod launch;
mod matching;
mod node_modules;
mod normal;
mod same_url;
mod url;

use mcpinspect_core::model::{FormerIdentity, Pid, ServerId, ServerIdentity, publisher};
use sha2::{Digest, Sha256};

use self::bin_links::BinLinks;
use self::clients::{ClientConfigs, ConfiguredName};
use self::command::{Invocation, LaunchSource};
pub use self::examiner::Examiner;
use self::fingerprint::shortened;
pub use self::launch::Launch;
pub use self::url::{of_url, of_url_alone};
use super::info::{ProcessInfo, ProcessSnapshot};
use super::launcher::{is_guard, upstream_of_guard};

/// The name of a server about which nothing is known, and the source of that name.
const UNKNOWN: &str = "unknown";

/// Identifies a server by its launch and the packages that its commands lead to; its name is looked up
/// in the clients' configurations.
fn of(launch: &Launch, links: &BinLinks, configs: &ClientConfigs) -> ServerIdentity {
    // The server's own commands first: what configurations name must not use up the look-ups.
    let decisive = launch.decisive(links);
    with_name(launch, decisive, configs.name_of(launch, links))
}

/// The known processes of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launched<'a> {
    /// What was started first on the server's streams, not counting launchers. It decides: what a server
    /// executes later is its own choice.
    pub origin: Option<&'a ProcessInfo>,
    /// What serves now.
    pub serving: Option<&'a ProcessInfo>,
    /// The client, which ends the chain of launchers.
    pub client: Option<Pid>,
}

/// Identifies a server by what it was launched as. If that is not what serves, its former identity
/// is that of what serves, because earlier versions used that. Blocks as [`of_process`] does.
pub fn of_server(server: Launched<'_>, configs: &ClientConfigs) -> ServerIdentity {
    let Launched {
        origin,
        serving,
        client,
    } = server;
    let mut identity = of_process(origin.or(serving), client, configs);
    if let (Some(origin), Some(serving)) = (origin, serving)
        && origin != serving
    {
        let before = of_process(Some(serving), client, configs);
        if before.fingerprint != identity.fingerprint && before.name_source != UNKNOWN {
            identity.former = Some(FormerIdentity {
                server_id: before.server_id,
                fingerprint: before.fingerprint,
            });
        }
    }
    identity
}

/// Whether a process is a launcher, such as `npx`, that starts another program in its place or below
/// itself.
pub fn is_launcher(process: &ProcessSnapshot) -> bool {
    command::is_wrapper(&process.argv, &process.exe)
}

/// Identifies a server by its process as it was at its start; [`unknown`] without one. Reads small
/// files, and the user database for the home directory, so it must not run on a thread that may not
/// block.
pub fn of_process(
    server: Option<&ProcessInfo>,
    client: Option<Pid>,
    configs: &ClientConfigs,
) -> ServerIdentity {
    match server {
        Some(info) => {
            let home = launch::home_of(info.process().uid);
            let links = BinLinks::of(info.process());
            of(&Launch::of(info, client, home), &links, configs)
        }
        None => unknown(),
    }
}

/// Identifies a server by its launch alone.
pub fn of_launch(launch: &Launch) -> ServerIdentity {
    with_name(launch, launch.decisive(&BinLinks::none()), None)
}

/// The identity of a server whose process ended before it could be examined.
pub fn unknown() -> ServerIdentity {
    ServerIdentity {
        server_id: ServerId(UNKNOWN.into()),
        fingerprint: shortened(&Sha256::digest(UNKNOWN)),
        name_source: UNKNOWN.to_owned(),
        publisher: None,
        former: None,
    }
}

fn with_name(
    launch: &Launch,
    decisive: Option<Invocation>,
    named: Option<ConfiguredName>,
) -> ServerIdentity {
    let Some(mut invocation) = decisive else {
        return unknown();
    };
    let home = launch.home.as_deref();
    let called = invocation.called.take();
    let identity = of_invocation(&invocation, home, named.as_ref());
    // Before links were followed, the command was taken for the package.
    let former = called.map(|name| {
        invocation.name = name;
        of_invocation(&invocation, home, named.as_ref())
    });
    let identity = ServerIdentity {
        former: former.map(|former| FormerIdentity {
            server_id: former.server_id,
            fingerprint: former.fingerprint,
        }),
        ..identity
    };
    let serving = launch.chain.first().map(|process| &*process.argv);
    let serving = serving.unwrap_or_default();
    if let Some(upstream) = upstream_of_guard(serving) {
        return of_guard(&of_url_alone(upstream));
    }
    match is_guard(serving) {
        true => of_guard(&identity),
        false => identity,
    }
}

/// The identity of a guard, from that of the server behind it.
fn of_guard(server: &ServerIdentity) -> ServerIdentity {
    let mut hash = Sha256::new();
    hash.update(b"mcpinspect guard 1\n");
    hash.update(server.fingerprint.as_bytes());
    ServerIdentity {
        server_id: ServerId(format!("{}-guard", server.server_id.0).into()),
        fingerprint: shortened(&hash.finalize()),
        former: None,
        ..server.clone()
    }
}

fn of_invocation(
    invocation: &Invocation,
    home: Option<&str>,
    named: Option<&ConfiguredName>,
) -> ServerIdentity {
    let is_file = matches!(
        invocation.source,
        LaunchSource::Script | LaunchSource::Binary
    );
    let location = match is_file {
        true => normal::location(&invocation.name, home),
        false => invocation.name.clone(),
    };
    let fingerprint = fingerprint(invocation.source, &location, &invocation.arguments);
    let configured = named.and_then(|named| {
        let id = normal::clean_id(&named.name)?;
        Some((id, format!("config:{}", named.client)))
    });
    let (id, name_source) = configured.unwrap_or_else(|| {
        let own = match is_file {
            true => normal::path_id(&location),
            false => normal::package_id(&location),
        };
        let id = bridge_target(invocation).or(own);
        (
            id.unwrap_or_else(|| "server".to_owned()),
            invocation.source.as_str().to_owned(),
        )
    });
    ServerIdentity {
        server_id: ServerId(id.into()),
        fingerprint,
        name_source,
        publisher: publisher_of(invocation, &location),
        former: None,
    }
}

/// The publisher of what is launched. A bridge stands for the host that it leads to.
fn publisher_of(invocation: &Invocation, location: &str) -> Option<Box<str>> {
    if is_bridge(invocation) {
        return normal::first_host(&invocation.arguments).map(|host| format!("host:{host}").into());
    }
    let source = invocation.source.as_str();
    let source = source.strip_prefix("package:").unwrap_or("file");
    publisher(&format!("{source}:{location}"))
}

/// The host that a bridge to a remote server leads to: bridges are named after it.
fn bridge_target(invocation: &Invocation) -> Option<String> {
    is_bridge(invocation).then(|| normal::first_host(&invocation.arguments))?
}

/// Whether it is a known bridge to servers of any vendor.
fn is_bridge(invocation: &Invocation) -> bool {
    const BRIDGES: [&str; 3] = ["mcp-remote", "mcp-proxy", "supergateway"];
    let name = normal::location(&invocation.name, None);
    BRIDGES.contains(&name.as_str())
}

fn fingerprint(source: LaunchSource, location: &str, arguments: &[String]) -> String {
    // The first line is the version of this recipe: changing it changes every fingerprint.
    let mut hash = Sha256::new();
    hash.update(b"mcpinspect launch 1\n");
    hash.update(source.as_str().as_bytes());
    for part in
        std::iter::once(location).chain(normal::arguments(arguments).iter().map(String::as_str))
    {
        hash.update(b"\0");
        hash.update(part.as_bytes());
    }
    shortened(&hash.finalize())
}

#[cfg(test)]
mod tests;
