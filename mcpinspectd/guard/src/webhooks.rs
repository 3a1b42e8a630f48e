//! Decisions, posted to URLs that rules name.
//!
//! Nothing waits for it: records go to a thread with bounded room. What cannot be delivered in a few tries is
//! given up, which standard error reports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use mcpinspect_cli::terminal;
use mcpinspect_client::http_server::client::Client;
use mcpinspect_client::http_server::endpoint::{Endpoint, shown};
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_judge::policy::record::Record;
use mcpinspect_judge::policy::{Action, Policy};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::ending::wait_for;

/// Records that wait to be posted.
const QUEUE: usize = 256;
/// How long one try may take, and its connection.
const TRY: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
/// How long to wait before each further try.
const AGAIN: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
];

/// All URLs of a policy.
pub struct Webhooks {
    by_rule: HashMap<String, Endpoint>,
    lost: Arc<AtomicU64>,
    poster: Mutex<Option<Poster>>,
}

/// The posting thread, and its queue.
struct Poster {
    queue: mpsc::Sender<(Endpoint, String)>,
    thread: JoinHandle<()>,
}

impl Webhooks {
    /// Starts the thread that posts, if a rule wants it.
    ///
    /// # Errors
    /// A URL is invalid, or TLS cannot be set up.
    pub fn start(policy: &Policy) -> anyhow::Result<Self> {
        let mut by_rule = HashMap::new();
        for rule in policy.rules() {
            if let Action::Webhook(url) = &rule.action {
                let endpoint = Endpoint::new(url, &[]);
                let endpoint = endpoint.with_context(|| format!("rule `{}`", rule.id))?;
                by_rule.insert(rule.id.clone(), endpoint);
            }
        }
        let lost = Arc::<AtomicU64>::default();
        let mut poster = None;
        if !by_rule.is_empty() {
            let (queue, waiting) = mpsc::channel(QUEUE);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("cannot start the runtime for HTTP")?;
            let client = Client::new(CONNECT)?;
            let lost = Arc::clone(&lost);
            let thread = std::thread::spawn(move || {
                runtime.block_on(post_each(&client, waiting, &lost));
            });
            poster = Some(Poster { queue, thread });
        }
        Ok(Self {
            by_rule,
            lost,
            poster: Mutex::new(poster),
        })
    }

    /// Hands records to the URLs of their rules.
    pub fn post(&self, records: &[Record]) {
        let poster = self.poster.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Poster { queue, .. }) = &*poster else {
            return;
        };
        for record in records {
            let hooks = record.rules.iter().filter(|rule| rule.action == "webhook");
            for endpoint in hooks.filter_map(|rule| self.by_rule.get(&rule.id)) {
                let text = terminal_safe(record).unwrap_or_default();
                if queue.try_send((endpoint.clone(), text)).is_err() {
                    self.lost.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Waits until everything is posted, but not forever.
    pub fn finish(&self) {
        let mut poster = self.poster.lock().unwrap_or_else(PoisonError::into_inner);
        let poster = poster.take();
        if let Some(Poster { queue, thread }) = poster {
            drop(queue);
            wait_for(&[thread]);
        }
    }
}

/// Posts one record after another.
async fn post_each(
    client: &Client,
    mut waiting: mpsc::Receiver<(Endpoint, String)>,
    lost: &AtomicU64,
) {
    let mut is_silent = false;
    while let Some((endpoint, text)) = waiting.recv().await {
        let posted = post(client, &endpoint, text).await;
        if let (Err(why), false) = (&posted, is_silent) {
            terminal::complain(format_args!(
                "mcpinspect: cannot post a decision to {}: {why}",
                shown(endpoint.uri())
            ));
        }
        is_silent = posted.is_err();
        let lost = lost.swap(0, Ordering::SeqCst);
        if lost > 0 {
            terminal::complain(format_args!(
                "mcpinspect: {lost} decisions were not posted, because too many were waiting"
            ));
        }
    }
}

/// Posts a record, in several tries.
async fn post(client: &Client, endpoint: &Endpoint, text: String) -> Result<(), String> {
    let body = Bytes::from(text);
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
    let mut pauses = AGAIN.iter();
    loop {
        let sent = client.send(&Method::POST, endpoint, headers.clone(), body.clone());
        let why = match timeout(TRY, sent).await {
            Ok(Ok(response)) if response.status().is_success() => return Ok(()),
            Ok(Ok(response)) => {
                let status = response.status();
                let may_work_later =
                    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                if !may_work_later {
                    return Err(format!("the server answered with status {status}"));
                }
                format!("the server answered with status {status}")
            }
            Ok(Err(failure)) => failure.message,
            Err(_) => "the server did not answer in time".to_owned(),
        };
        match pauses.next() {
            Some(pause) => sleep(*pause).await,
            None => return Err(why),
        }
    }
}
