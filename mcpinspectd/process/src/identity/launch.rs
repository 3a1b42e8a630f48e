//! How a server was launched, as plain values.
//!
//! A server is rarely started directly: between the client and the server there are `npm exec`, a shell,
//! `uv run`. The launch is that chain of processes, and the invocation in it that says most.

use mcpinspect_core::model::Pid;
use nix::unistd::{Uid, User};

use super::bin_links::BinLinks;
use super::command::{self, Invocation};
use crate::info::{ProcessInfo, ProcessSnapshot};

/// How a server was launched: plain values, so that its identity is a pure function of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The server's process, then its ancestors upwards, up to but excluding the client.
    pub chain: Vec<ProcessSnapshot>,
    /// The client's process, if known. Its configuration is searched first.
    pub client: Option<ProcessSnapshot>,
    /// The home directory of the server's user.
    pub home: Option<String>,
}

impl Launch {
    /// Gathers the launch of a running server; `None` if the server is gone.
    ///
    /// If the client is unknown, the chain ends above the last known launcher (`npx`, `uv`, `sh -c`
    /// …), so that the result is the same as with a known client.
    pub fn gather(server: Pid, client: Option<Pid>) -> Option<Self> {
        let info = ProcessInfo::read(server)?;
        let home = home_of(info.process().uid);
        Some(Self::of(&info, client, home))
    }

    /// Builds the launch from what is known about the server's process.
    pub fn of(info: &ProcessInfo, client: Option<Pid>, home: Option<String>) -> Self {
        let known = client.and_then(|pid| info.ancestors().iter().position(|a| a.pid == pid));
        let end = known.unwrap_or_else(|| {
            info.ancestors()
                .iter()
                .take_while(|ancestor| command::is_wrapper(&ancestor.argv, &ancestor.exe))
                .count()
        });
        let mut chain = vec![info.process().clone()];
        let above = info.ancestors().iter().take(end);
        chain.extend(above.map(|process| ProcessSnapshot::clone(process)));
        Self {
            chain,
            client: info
                .ancestors()
                .get(end)
                .map(|client| ProcessSnapshot::clone(client)),
            home,
        }
    }

    /// The invocation that identifies the server: the outermost package (`npx @scope/pkg`, which the
    /// server cannot rewrite), or else what the server's own process runs.
    pub(super) fn decisive(&self, links: &BinLinks) -> Option<Invocation> {
        let (server, above) = self.chain.split_first()?;
        let own = invocation(server, links);
        // Stop at the first process that is not a launcher even if the client is known and is
        // further up: the result must not depend on whether the client is known.
        let outer = above
            .iter()
            .take_while(|process| command::is_wrapper(&process.argv, &process.exe))
            .filter_map(|process| invocation(process, links))
            .filter(|invocation| invocation.source.is_package())
            .last();
        match (outer, own) {
            (Some(outer), Some(own)) if outer.from_title => {
                // The title lost the boundaries between arguments; the server's own process has them.
                let same = own
                    .arguments
                    .join(" ")
                    .split_whitespace()
                    .eq(outer.arguments.iter().map(String::as_str));
                let arguments = if same { own.arguments } else { outer.arguments };
                Some(Invocation { arguments, ..outer })
            }
            (outer, own) => outer.or(own).or_else(|| nameless(server)),
        }
    }
}

/// The executable of a process whose command line says nothing.
fn nameless(process: &ProcessSnapshot) -> Option<Invocation> {
    command::recognise(&[], &process.exe, process.cwd.as_deref(), &BinLinks::none())
}

/// What a process runs.
pub(super) fn invocation(process: &ProcessSnapshot, links: &BinLinks) -> Option<Invocation> {
    command::recognise(&process.argv, &process.exe, process.cwd.as_deref(), links)
}

/// The home directory in the user database. May query a directory service, so it may block.
pub(super) fn home_of(uid: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    user.dir.into_os_string().into_string().ok()
}
