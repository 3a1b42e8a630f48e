//! `mcpinspect guard --listen`: servers on HTTP behind a policy, as a reverse or forward proxy.
//!
//! Clients use the gateway's address in place of the server's, with the same paths, or use it as their proxy.
//! What they post is judged before it goes to the server, and what the server answers before it goes to them, be
//! it JSON or a stream of events. What no rule concerns passes byte for byte, except what belongs to the connection.
//!
//! Two peers are hostile here: the server, as everywhere, and anything that can reach the port, such as a page in
//! a browser. What two HTTP readers may read differently is refused, just like what two JSON readers may read
//! differently.
//!
//! - `serve`: connections, and their end
//! - `wire`: the bytes of a connection
//! - `gate`: who is admitted
//! - `exchange`, `admitted`, `answer`, `stream`: one request, its response, and a stream of events
//! - `heads`, `params`, `body`, `blocks`, `body_summary`, `reply`: fields, bodies, events, and what they say
//! - `refusals`: what is not admitted
//! - `sessions`, `memory`: what is remembered, and how much
//! - `front`, `upstream`: which server, and the way to it
//! - `hub`: what all connections share

mod admitted;
mod answer;
mod blocks;
mod body;
mod body_summary;
mod exchange;
mod front;
mod gate;
mod heads;
mod hub;
mod memory;
mod params;
mod refusals;
mod reply;
mod serve;
mod sessions;
mod stream;
mod upstream;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hyper::Uri;
use mcpinspect_cli::terminal;
use mcpinspect_judge::policy::situation::Parties;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::Builder;
use tokio::sync::watch;

use self::front::{Forward, Front};
use self::gate::Gate;
use self::hub::{Hub, Shared};
use self::memory::MemoryPool;
use self::upstream::Upstream;
use super::judge::SharedPolicy;
use crate::policy::zone;

/// Longest time for connecting to the server.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a forward proxy itself never goes.
const NOWHERE: &str = "http://localhost/";

/// The options of the gateway.
#[derive(clap::Args)]
pub struct Options {
    /// Guard a server on HTTP: listen at this address and port, such as `127.0.0.1:8700`.
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "target",
        conflicts_with = "command"
    )]
    pub listen: Option<SocketAddr>,
    /// The server's URL, with `--listen`. Clients use its path at the address of `--listen`.
    #[arg(long, value_name = "URL", requires = "listen", group = "target")]
    upstream: Option<String>,
    /// With `--listen`, be a forward proxy: clients that use it as their proxy for http URLs (`http_proxy`) reach
    /// the servers that they name, each under the name of its host.
    #[arg(long, requires = "listen", group = "target", conflicts_with = "server")]
    forward: bool,
    /// A server that clients of `--forward` may reach, as `HOST` or `HOST:PORT`. Default: all servers.
    #[arg(long, value_name = "SERVER", requires = "forward")]
    to: Vec<String>,
    /// Allow listening at an address that other machines can reach. The gateway neither
    /// authenticates clients nor encrypts.
    #[arg(long, requires = "listen")]
    allow_remote: bool,
    /// A host name under which clients reach the gateway, besides `localhost` and IP addresses.
    #[arg(long, value_name = "NAME", requires = "listen")]
    allow_host: Vec<String>,
    /// An origin whose web pages may use the gateway, such as `https://app.example`.
    #[arg(long, value_name = "ORIGIN", requires = "listen")]
    allow_origin: Vec<String>,
    /// Maximum number of sessions at a time.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 2000,
        requires = "listen"
    )]
    max_sessions: usize,
    /// Maximum memory for messages in transit, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512, requires = "listen")]
    max_memory: usize,
    /// Timeout until the server's answer begins, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        requires = "listen"
    )]
    timeout: u64,
}

impl Options {
    /// The host of the server, which names it if nothing else does.
    pub fn host(&self) -> Option<String> {
        let url: Uri = self.upstream.as_deref()?.parse().ok()?;
        Some(front::bare(url.host()?).to_owned())
    }

    /// Serves until asked to stop.
    pub fn run(
        self,
        listen: SocketAddr,
        shared_policy: Arc<SharedPolicy>,
        server: &str,
    ) -> anyhow::Result<ExitCode> {
        if !listen.ip().is_loopback() && !self.allow_remote {
            bail!(
                "other machines can reach {}; use `--allow-remote` to allow this",
                listen.ip()
            );
        }
        if self.forward && self.allow_remote && self.to.is_empty() {
            bail!(
                "other machines could reach every server that this one can reach; name the allowed servers with `--to`"
            );
        }
        let url = self.upstream.as_deref().unwrap_or(NOWHERE);
        let upstream = Upstream::new(url, CONNECT, Duration::from_secs(self.timeout))?;
        let endpoint = upstream.endpoint().clone();
        let parties = Parties {
            zone: zone(),
            ..Parties::of(server)
        };
        let socket = TcpListener::bind(listen);
        let socket = socket.with_context(|| format!("cannot listen at {listen}"))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        have_many_descriptors();
        let (end, ending) = watch::channel(false);
        let shared = Shared {
            memory: MemoryPool::new(self.max_memory.max(1) << 20),
            sessions: self.max_sessions.max(1),
            shared_policy,
            ending: ending.clone(),
        };
        let front = if self.forward {
            let origins = &self.allow_origin;
            let forward = Forward::new(shared, upstream, &self.to, origins, parties);
            Front::Forward(Box::new(forward))
        } else {
            let gate = Gate::new(&self.allow_host, &self.allow_origin);
            Front::Reverse(Arc::new(Hub::new(upstream, gate, &shared, parties)))
        };
        let runtime = Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime for HTTP")?;
        let served = runtime.block_on(async move {
            let signals = serve::Signals::new().context("cannot handle signals")?;
            let path = match self.forward {
                true => "",
                false => endpoint.path_and_query().map_or("/", |path| path.as_str()),
            };
            terminal::print(|out| writeln!(out, "http://{address}{path}"))?;
            serve::serve(socket, Arc::new(front), &ending, signals, end).await
        });
        // What does not end in time is not waited for.
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }
}

/// Each session has at least two connections.
fn have_many_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With fewer, fewer sessions fit.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
