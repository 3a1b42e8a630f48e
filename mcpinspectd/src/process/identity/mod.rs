//! Which server is it, tomorrow and on the next machine too.
//!
//! A pin on a tool is worth as much as the name it is kept under. A pid, a pipe or the name that the
//! server gives itself will not do: the first two are new at every start, and the third is the
//! attacker's to choose. What stays is *how the server is launched*. From the processes between
//! client and server (`npm exec` → `sh` → `node`) the package and its own arguments are found
//! (see `command`), brought into a form that does not depend on user, host, version or secret
//! (see `normal`), and hashed: that is the **fingerprint**. The readable **name** is the one
//! that a person gave the server in a client's configuration where one describes this launch (see
//! [`clients`]), else it is made from the package or script.
//!
//! Names are claimed, fingerprints are not: a hostile repository may ship a `.mcp.json` that calls
//! its server `github`. So a name belongs to the first fingerprint that is seen under it on this
//! machine, and every other server of that name is called `github#ab12` after its fingerprint
//! ([`ServerIdentity::settle`]). Which of two is the plain one is remembered with the pins; across
//! machines, servers are compared by fingerprint.

use std::collections::HashMap;
use std::sync::Arc;

use nix::unistd::{Uid, User};
use sha2::{Digest, Sha256};

use super::info::{ProcessInfo, ProcessSnapshot};
use crate::model::{Pid, ServerId, ServerIdentity};

pub mod clients;
mod command;
mod jsonc;
mod matching;
mod normal;

use clients::ClientConfigs;
use command::{Invocation, Kind};

/// Bytes of the hash that are kept: sixteen, printed as 32 hexadecimal digits.
const FINGERPRINT_BYTES: usize = 16;

/// How a server was launched: plain values, so that identity is a pure function of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The server's process first, then its ancestors upwards, up to but without the client.
    pub chain: Vec<ProcessSnapshot>,
    /// The client's process, where known: tells whose configuration to ask first.
    pub client: Option<ProcessSnapshot>,
    /// The home directory of the server's user.
    pub home: Option<String>,
}

impl Launch {
    /// Gathers the launch of a running server. Where the client is not known, the chain ends above
    /// the last known launcher (`npx`, `uv`, `sh -c` …), so that it comes out the same when it is.
    /// `None` where the server is gone.
    pub fn gather(server: Pid, client: Option<Pid>) -> Option<Self> {
        let info = ProcessInfo::read(server)?;
        Some(Self::of(&info, client, home_of(info.process().uid)))
    }

    /// The launch in what is known of the server's process.
    pub fn of(info: &ProcessInfo, client: Option<Pid>, home: Option<String>) -> Self {
        let known = client.and_then(|pid| info.ancestors().iter().position(|a| a.pid == pid));
        let end = known.unwrap_or_else(|| {
            info.ancestors()
                .iter()
                .take_while(|ancestor| command::is_wrapper(&ancestor.argv, &ancestor.exe))
                .count()
        });
        let mut chain = vec![info.process().clone()];
        chain.extend_from_slice(&info.ancestors()[..end]);
        Self {
            chain,
            client: info.ancestors().get(end).cloned(),
            home,
        }
    }
}

/// The home directory in the user database. May ask a directory service, hence may wait.
fn home_of(uid: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    user.dir.into_os_string().into_string().ok()
}

impl ServerIdentity {
    /// Who a server is by its launch, its name looked up in the clients' configurations. Reads small
    /// files: not for a thread that must not wait.
    pub fn of(launch: &Launch, configs: &ClientConfigs) -> Self {
        let named = configs.name_of(launch);
        Self::with_name(launch, named)
    }

    /// Who a server is by its process as it was when it started; a server of which nothing is known
    /// without one. Reads small files, and the user database for the home directory.
    pub fn of_process(
        server: Option<&ProcessInfo>,
        client: Option<Pid>,
        configs: &ClientConfigs,
    ) -> Self {
        match server {
            Some(info) => {
                let home = home_of(info.process().uid);
                Self::of(&Launch::of(info, client, home), configs)
            }
            None => Self::unknown(),
        }
    }

    /// Who a server is by its launch alone.
    pub fn of_launch(launch: &Launch) -> Self {
        Self::with_name(launch, None)
    }

    fn with_name(launch: &Launch, named: Option<clients::Named>) -> Self {
        let Some(invocation) = decisive(launch) else {
            return Self::unknown();
        };
        let home = launch.home.as_deref();
        let place = match invocation.kind {
            Kind::Script | Kind::Binary => normal::location(&invocation.name, home),
            _ => invocation.name.clone(),
        };
        let fingerprint = fingerprint(invocation.kind, &place, &invocation.arguments);
        let named = named.and_then(|named| {
            Some((
                normal::clean_id(&named.name)?,
                format!("config:{}", named.client),
            ))
        });
        let (id, name_source) = named.unwrap_or_else(|| {
            let own = match invocation.kind {
                Kind::Script | Kind::Binary => normal::path_id(&place),
                _ => normal::package_id(&place),
            };
            let bridged = bridge_target(&invocation);
            (
                bridged.or(own).unwrap_or_else(|| "server".to_owned()),
                invocation.kind.source().to_owned(),
            )
        });
        Self {
            server_id: ServerId(id.into()),
            fingerprint,
            name_source,
        }
    }

    /// A server of which nothing is known: its process was gone before it could be looked at.
    pub fn unknown() -> Self {
        Self {
            server_id: ServerId("unknown".into()),
            fingerprint: fingerprint_of(&Sha256::digest(b"unknown")),
            name_source: "unknown".to_owned(),
        }
    }

    /// The identity under the name that it has on this machine: its own where the name is free or
    /// its own already, else with as many digits of the fingerprint behind it as it takes.
    /// `owner_of` tells the fingerprint that a name belongs to.
    pub fn settle(mut self, owner_of: impl Fn(&str) -> Option<Arc<str>>) -> Self {
        let base = Arc::clone(&self.server_id.0);
        let mut name = base.to_string();
        let mut digits = 4;
        while owner_of(&name).is_some_and(|owner| *owner != *self.fingerprint) {
            // All digits tell any two apart.
            let shown = self.fingerprint.get(..digits).unwrap_or(&self.fingerprint);
            name = format!("{base}#{shown}");
            if digits >= self.fingerprint.len() {
                break;
            }
            digits += 4;
        }
        self.server_id = ServerId(name.into());
        self
    }
}

/// Which name belongs to which fingerprint on this machine.
#[derive(Clone, Debug, Default)]
pub struct NameBook {
    owners: HashMap<Arc<str>, Arc<str>>,
}

impl NameBook {
    /// Most names that are remembered; whoever comes after is always told apart by fingerprint.
    pub const MAX_NAMES: usize = 16_384;

    /// A book with names that were given out before, as `(name, fingerprint)`.
    pub fn with(names: impl IntoIterator<Item = (String, String)>) -> Self {
        let owners = names
            .into_iter()
            .take(Self::MAX_NAMES)
            .map(|(name, fingerprint)| (name.into(), fingerprint.into()))
            .collect();
        Self { owners }
    }

    /// Gives a server its name on this machine, and remembers it.
    pub fn settle(&mut self, identity: ServerIdentity) -> ServerIdentity {
        let full = self.owners.len() >= Self::MAX_NAMES;
        let settled = identity.settle(|name| match self.owners.get(name) {
            Some(owner) => Some(Arc::clone(owner)),
            None if full && !name.contains('#') => Some("".into()),
            None => None,
        });
        if !full {
            self.owners.insert(
                Arc::clone(&settled.server_id.0),
                settled.fingerprint.as_str().into(),
            );
        }
        settled
    }
}

/// The invocation that says most about a launch: the outermost package (`npx @scope/pkg`, which the
/// server itself cannot rewrite), else what the server's own process runs.
fn decisive(launch: &Launch) -> Option<Invocation> {
    let (server, above) = launch.chain.split_first()?;
    let own = server.invocation();
    // Also where the client is known and more stands below it: the result must not depend on that.
    let outer = above
        .iter()
        .take_while(|process| command::is_wrapper(&process.argv, &process.exe))
        .filter_map(ProcessSnapshot::invocation)
        .filter(|invocation| invocation.kind.is_package())
        .last();
    match (outer, own) {
        (Some(outer), Some(own)) if outer.from_title => {
            // The title lost the borders between arguments; the server's own process has them.
            let same = own
                .arguments
                .join(" ")
                .split_whitespace()
                .eq(outer.arguments.iter().map(String::as_str));
            let arguments = if same { own.arguments } else { outer.arguments };
            Some(Invocation { arguments, ..outer })
        }
        (outer, own) => outer.or(own),
    }
}

/// Bridges to remote servers are called after where they lead.
fn bridge_target(invocation: &Invocation) -> Option<String> {
    const BRIDGES: [&str; 3] = ["mcp-remote", "mcp-proxy", "supergateway"];
    let name = normal::location(&invocation.name, None);
    BRIDGES
        .contains(&name.as_str())
        .then(|| normal::first_host(&invocation.arguments))?
}

impl ProcessSnapshot {
    fn invocation(&self) -> Option<Invocation> {
        command::recognise(&self.argv, &self.exe, self.cwd.as_deref())
    }
}

fn fingerprint(kind: Kind, place: &str, arguments: &[String]) -> String {
    // The first line is the version of this recipe: a change to it changes every fingerprint.
    let mut hash = Sha256::new();
    hash.update(b"mcpinspect launch 1\n");
    hash.update(kind.source().as_bytes());
    for part in
        std::iter::once(place).chain(normal::arguments(arguments).iter().map(String::as_str))
    {
        hash.update(b"\0");
        hash.update(part.as_bytes());
    }
    fingerprint_of(&hash.finalize())
}

/// The part of a digest that is kept, in hexadecimal digits.
fn fingerprint_of(digest: &[u8]) -> String {
    hex::encode(&digest[..FINGERPRINT_BYTES])
}

#[cfg(test)]
mod tests;
