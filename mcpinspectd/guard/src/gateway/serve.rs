//! Connections: accepted while there is room, and ended when the gateway ends.

use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcpinspect_cli::terminal;
use tokio::net::TcpStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::body::Flow;
use super::exchange;
use super::front::Front;
use super::refusals;
use super::wire::CheckedConnection;

/// Most connections at a time; others wait.
const CONNECTIONS: usize = 8192;
/// How long a client may take for the head of a request, and between two of them.
const HEAD: Duration = Duration::from_secs(60);
/// How long requests in progress may take at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How often to check sessions.
const SWEEP: Duration = Duration::from_secs(60);

/// The signals that end the gateway.
pub struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
            _ = self.hup.recv() => {}
        }
    }
}

/// Serves until a signal comes, and then ends what is in progress. A second signal ends it at once.
pub async fn serve(
    socket: TcpListener,
    front: Arc<Front>,
    ending: &watch::Receiver<bool>,
    mut signals: Signals,
    end: watch::Sender<bool>,
) -> anyhow::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket).context("cannot listen")?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, socket.accept().await)
        };
        tokio::select! {
            () = signals.next() => break,
            _ = sweep.tick() => front.sweep(),
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (permit, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let (front, ending) = (Arc::clone(&front), ending.clone());
                    connections.spawn(async move {
                        connection(stream, front, ending).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    // Usually there are no descriptors left, and soon there will be.
                    terminal::complain(format_args!("mcpinspect: cannot accept a connection: {error}"));
                    sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    drop(socket);
    let _ = end.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        _ = timeout(GRACE, all) => {}
        () = signals.next() => {}
    }
    Ok(())
}

async fn connection(stream: TcpStream, front: Arc<Front>, mut ending: watch::Receiver<bool>) {
    let Ok(peer) = stream.peer_addr() else { return };
    // Each write is a whole message or event.
    let _ = stream.set_nodelay(true);
    let own = Arc::clone(&front);
    let service = service_fn(move |request: Request<Incoming>| {
        let front = Arc::clone(&front);
        async move { Ok::<Response<Flow>, io::Error>(exchange::serve(&front, peer.ip(), request).await) }
    });
    let wire = CheckedConnection::new(stream);
    let anomaly = wire.anomaly();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(128 << 10)
        .serve_connection(TokioIo::new(wire), service);
    let mut connection = pin!(connection);
    // Its end is the client's business: it is gone, or knows what it did.
    tokio::select! {
        _ = connection.as_mut() => {
            if let Some(anomaly) = anomaly.get() {
                own.refused(&refusals::RefusedRequest::unread(anomaly), "ambiguous_request");
            }
            return;
        }
        _ = ending.wait_for(|is_ending| *is_ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
