//! Starts the configured sinks, and ends them in time.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mcpinspect_core::model::SinkTally;
use mcpinspect_runtime::priority::Priority;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::control::Control;
use crate::service as bus;
use crate::service::Endpoint;
use crate::sink::queue::QueueReceiver;
use crate::sink::{SinkLimits, Sinks, journal, jsonl};

/// Which sinks to start.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Structured entries in the journal.
    pub journal: bool,
    /// Signals and questions on a bus.
    pub bus: Option<Endpoint>,
    /// JSON lines, and where to.
    pub jsonl: Option<jsonl::Target>,
    /// How much may wait, and how much is remembered.
    pub limits: SinkLimits,
}

/// Why the sinks did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The output of JSON lines cannot be opened.
    #[error("cannot write JSON lines to {target}: {error}")]
    Open {
        /// The file.
        target: String,
        /// The system's error.
        error: io::Error,
    },
    /// A sink's thread cannot be started.
    #[error("cannot start a thread for the {sink} sink: {error}")]
    Thread {
        /// The sink.
        sink: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

/// Running sinks.
#[derive(Debug)]
pub struct Running {
    sinks: Sinks,
    ends: Vec<oneshot::Receiver<()>>,
}

impl Running {
    /// Starts what `settings` asks for; `control` carries out what callers on the bus decide. Must
    /// be called on a tokio runtime, which then runs the bus.
    ///
    /// # Errors
    /// An output that cannot be opened now. The journal and the bus may come later.
    pub fn start(
        settings: Settings,
        control: Option<Arc<dyn Control>>,
    ) -> Result<Self, StartError> {
        let sinks = Sinks::new(&settings.limits);
        let mut ends = Vec::new();
        if let Some(target) = settings.jsonl {
            let name = target.to_string();
            let lines = jsonl::Lines::open(target).map_err(|error| StartError::Open {
                target: name,
                error,
            })?;
            ends.push(on_thread("jsonl", sinks.add("jsonl"), move |receiver| {
                lines.run(receiver)
            })?);
        }
        if settings.journal {
            ends.push(on_thread("journal", sinks.add("journal"), journal::run)?);
        }
        if let Some(endpoint) = settings.bus {
            let (receiver, view) = (sinks.add("bus"), sinks.view());
            let (ended, end) = oneshot::channel();
            tokio::spawn(async move {
                bus::run(endpoint, receiver, view, control).await;
                let _ = ended.send(());
            });
            ends.push(end);
        }
        Ok(Self { sinks, ends })
    }

    /// Where events go in: clone it for each publisher.
    pub fn sinks(&self) -> Sinks {
        self.sinks.clone()
    }

    /// Lets every sink write what waits, for at most `patience` in total, and reports what became of the
    /// events. A stuck sink is left behind: its thread ends with the process.
    pub async fn finish(self, patience: Duration) -> Vec<SinkTally> {
        self.sinks.close();
        let deadline = Instant::now() + patience;
        for end in self.ends {
            // Either way there is nothing left to wait for: the tally says what is missing.
            let _ = timeout_at(deadline, end).await;
        }
        let tallies = self.sinks.tally();
        for tally in &tallies {
            let SinkTally {
                sink,
                delivered,
                failed,
                dropped,
                waiting,
            } = tally;
            if failed + dropped + waiting > 0 {
                tracing::warn!(
                    sink,
                    delivered,
                    failed,
                    dropped,
                    waiting,
                    "not all events were delivered"
                );
            } else {
                tracing::debug!(sink, delivered, "all events were delivered");
            }
        }
        tallies
    }
}

fn on_thread(
    sink: &'static str,
    receiver: QueueReceiver,
    work: impl FnOnce(QueueReceiver) + Send + 'static,
) -> Result<oneshot::Receiver<()>, StartError> {
    let (ended, end) = oneshot::channel();
    thread::Builder::new()
        .name(format!("sink-{sink}"))
        .spawn(move || {
            Priority::Pipeline.claim();
            work(receiver);
            let _ = ended.send(());
        })
        .map_err(|error| StartError::Thread { sink, error })?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use mcpinspect_engine::event::testing::detected;

    use super::*;

    #[tokio::test]
    async fn everything_published_is_written_before_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let settings = Settings {
            jsonl: Some(jsonl::Target::File(path.clone())),
            ..Settings::default()
        };
        let running = Running::start(settings, None).unwrap();
        let sinks = running.sinks();
        for _ in 0..1000 {
            sinks.publish(&detected("a"));
        }
        let tallies = running.finish(Duration::from_secs(10)).await;
        assert_eq!(tallies.len(), 1);
        assert_eq!((tallies[0].delivered, tallies[0].waiting), (1000, 0));
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1000);
    }

    #[tokio::test]
    async fn a_stuck_sink_does_not_hold_up_the_end() {
        // Opening a pipe for reading and writing, as `Lines` does, works without a peer; as nothing
        // reads, the thread soon blocks in a write.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let settings = Settings {
            jsonl: Some(jsonl::Target::File(path)),
            ..Settings::default()
        };
        let running = Running::start(settings, None).unwrap();
        let sinks = running.sinks();
        for _ in 0..1000 {
            sinks.publish(&detected("a"));
        }
        let tallies = running.finish(Duration::from_millis(50)).await;
        assert!(tallies[0].waiting > 0, "{tallies:?}");
        assert_eq!(tallies[0].delivered + tallies[0].waiting, 1000);
    }

    #[tokio::test]
    async fn an_output_that_cannot_be_opened_is_named() {
        let target = jsonl::Target::File("/nonexistent/events.jsonl".into());
        let settings = Settings {
            jsonl: Some(target),
            ..Settings::default()
        };
        let error = Running::start(settings, None).unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/events.jsonl"),
            "{error}"
        );
    }
}
