//! The process that runs a query, and the code that starts it.
//!
//! Each query has a process of its own: this program again, started with [`OPTION`]. It reads one request
//! from its input and writes one answer. It opens the files first, then gives up everything it could do harm
//! with, and only then looks at the statement. SQLite checks the clock between steps, and a single step (matching
//! a long pattern against a long text) can be long; so the waiting side ends the process.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use mcpinspect_engine::answer::{Answer, Queries, QueryError};
use mcpinspect_engine::history::Viewer;
use mcpinspect_runtime::priority::Priority;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::alarm;
use serde::{Deserialize, Serialize};

use super::run::late;
use super::stores::Stores;
use super::{DEADLINE, run};

/// The option that turns a program into such a process.
pub const OPTION: &str = "--query-worker";

/// Seconds until a process that does not stop on its own is ended.
const END: u64 = DEADLINE + 1;

/// Queries that one daemon runs at a time.
const AT_ONCE: usize = 3;

/// Most bytes of a request: the statement and two paths.
const MAX_REQUEST: u64 = 1 << 20;

/// Most bytes of an answer in transit: its values, escaped as JSON.
const MAX_ANSWER: u64 = 64 << 20;

/// Bytes of address space.
const MAX_MEMORY: u64 = 512 << 20;

/// The request to the process.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    sql: String,
    messages: PathBuf,
    registry: Option<PathBuf>,
    /// Whose rows may be read; everyone's if `None`.
    uid: Option<u32>,
}

/// Its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Answer(Answer),
    Error(QueryError),
}

/// Runs queries over two files, each in a separate process.
#[derive(Clone, Debug)]
pub struct Worker {
    program: PathBuf,
    messages: PathBuf,
    registry: Option<PathBuf>,
    running: Arc<AtomicUsize>,
}

/// One of the queries that may run.
struct QueryPermit<'a>(&'a AtomicUsize);

impl<'a> QueryPermit<'a> {
    fn acquire(running: &'a AtomicUsize) -> Option<Self> {
        let before = running.fetch_add(1, Ordering::SeqCst);
        let permit = Self(running);
        (before < AT_ONCE).then_some(permit)
    }
}

impl Drop for QueryPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Worker {
    /// Queries over the message store and the registry, which need not exist, by the running program.
    pub fn new(messages: &Path, registry: Option<&Path>) -> Self {
        // Even if the file was replaced by a newer version meanwhile.
        Self::of(Path::new("/proc/self/exe"), messages, registry)
    }

    /// The same, using another program that calls [`asked_for`].
    pub fn of(program: &Path, messages: &Path, registry: Option<&Path>) -> Self {
        Self {
            program: program.to_owned(),
            messages: messages.to_owned(),
            registry: registry.map(Path::to_owned),
            running: Arc::default(),
        }
    }
}

impl Queries for Worker {
    /// Blocks for at most six seconds, and a moment.
    fn query(&self, sql: &str, viewer: Viewer) -> Result<Answer, QueryError> {
        let Some(_permit) = QueryPermit::acquire(&self.running) else {
            return Err(QueryError::failed(
                "too many queries are running; try again",
            ));
        };
        let request = Request {
            sql: sql.to_owned(),
            messages: self.messages.clone(),
            registry: self.registry.clone(),
            uid: match viewer {
                Viewer::All => None,
                Viewer::User(uid) => Some(uid),
            },
        };
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| QueryError::failed(format!("{what}: {error}"))
        };
        let request =
            serde_json::to_vec(&request).map_err(|error| QueryError::failed(error.to_string()))?;
        let child = Command::new(&self.program)
            .arg(OPTION)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("cannot start a process for the query"))?;
        let text = exchange(child, &request)
            .map_err(failed("cannot communicate with the query's process"))?;
        match text {
            None => Err(late()),
            Some(text) => match serde_json::from_slice(&text) {
                Ok(Reply::Answer(answer)) => Ok(answer),
                Ok(Reply::Error(error)) => Err(error),
                Err(_) => Err(QueryError::failed(
                    "the query was aborted: it needed too much time or memory",
                )),
            },
        }
    }
}

/// Sends the request and waits for the answer. `None` if it took too long. The process is gone afterwards.
fn exchange(mut child: Child, request: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let (send, answer) = mpsc::sync_channel(1);
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let started = thread::Builder::new()
        .name("query".to_owned())
        .spawn(move || {
            let mut text = Vec::new();
            let read = output.map_or(Ok(0), |output| {
                output.take(MAX_ANSWER).read_to_end(&mut text)
            });
            // The receiver is gone if it took too long.
            let _ = send.send(read.map(|_| text));
        });
    let answered = started.and_then(|_| {
        // A process that ended has its reason in its answer, or none.
        let _ = input.map_or(Ok(()), |mut input| input.write_all(request));
        match answer.recv_timeout(Duration::from_secs(END)) {
            Ok(text) => text.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Ok(Some(Vec::new())),
        }
    });
    let _ = child.kill();
    child.wait()?;
    answered
}

/// Answers one query, if this process was started for that. Returns the program's exit code.
pub fn asked_for() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != OPTION) || arguments.next().is_some() {
        return None;
    }
    let reply = match serve() {
        Ok(answer) => Reply::Answer(answer),
        Err(error) => Reply::Error(error),
    };
    let written = serde_json::to_vec(&reply)
        .map_err(io::Error::from)
        .and_then(|text| io::stdout().lock().write_all(&text));
    Some(match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn serve() -> Result<Answer, QueryError> {
    let end = Instant::now() + Duration::from_secs(DEADLINE);
    // Ends the process by itself, even if the caller no longer waits.
    alarm::set(u32::try_from(END).unwrap_or(u32::MAX));
    Priority::Idle.claim();
    // If memory is short, this is what goes.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let mut request = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_REQUEST)
        .read_to_end(&mut request)
        .map_err(|error| QueryError::failed(error.to_string()))?;
    let Request {
        sql,
        messages,
        registry,
        uid,
    } = serde_json::from_slice(&request)
        .map_err(|_| QueryError::invalid("the statement is too long"))?;
    let viewer = uid.map_or(Viewer::All, Viewer::User);
    Stores::open(&messages, registry.as_deref(), viewer, end);
    confine().map_err(|error| {
        QueryError::failed(format!("cannot limit the resources of the query: {error}"))
    })?;
    run::run(&sql, end)
}

/// From here on, this process can open no file, grow none, start nothing, and take no more memory and
/// processor time than a query needs.
fn confine() -> nix::Result<()> {
    for (resource, most) in [
        (Resource::RLIMIT_AS, MAX_MEMORY),
        (Resource::RLIMIT_CPU, END),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_NPROC, 0),
        (Resource::RLIMIT_NOFILE, 0),
    ] {
        setrlimit(resource, most, most)?;
    }
    Ok(())
}
