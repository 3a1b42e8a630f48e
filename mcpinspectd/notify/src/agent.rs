//! From signals to notifications and back, over two buses, either of which may go at any time.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpinspect_bus::desktop::{Card, Desktop, DesktopEvent, Notifier, Tone};
use mcpinspect_core::model::Severity;
use mcpinspect_runtime::backoff::Backoff;
use tokio::time::{sleep_until, timeout};

use crate::alert::{Alert, Filter};
use crate::cards;
use crate::cards::action;
use crate::daemon::{Daemon, DaemonEvent, DaemonSignals};
use crate::evidence::Evidence;
use crate::group::{ExplainedAlert, SavedGroup};
use crate::notifications::NotificationList;
use crate::program::Executable;

/// How long a notification waits for what it is about.
const PATIENCE: Duration = Duration::from_secs(1);

/// When to try to connect to a bus again.
struct Retry {
    name: &'static str,
    at: Instant,
    backoff: Backoff,
    reported: bool,
}

impl Retry {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            at: Instant::now(),
            backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(30)),
            reported: false,
        }
    }

    /// Connects if `slot` is empty and it is time to try.
    async fn fill<T>(
        &mut self,
        slot: &mut Option<T>,
        connect: impl AsyncFnOnce() -> anyhow::Result<T>,
    ) {
        if slot.is_some() || Instant::now() < self.at {
            return;
        }
        match connect().await {
            Ok(connected) => {
                tracing::info!("connected to the {}", self.name);
                self.backoff.reset();
                self.reported = false;
                *slot = Some(connected);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &anyhow::Error) {
        if !self.reported {
            self.reported = true;
            tracing::warn!(
                "cannot connect to the {}: {error:#}; trying again in the background",
                self.name
            );
        }
        self.at = Instant::now() + self.backoff.wait();
    }

    fn lost(&mut self) {
        tracing::warn!("lost the connection to the {}", self.name);
        self.at = Instant::now() + self.backoff.wait();
    }
}

/// What one run leaves to the next.
#[derive(Debug, Default)]
pub struct SavedState {
    /// The id of the last event that it saw.
    pub last: Option<String>,
    /// Its cards.
    pub cards: Vec<SavedGroup>,
}

/// Shows the alerts that pass `filter`, until `program` is replaced. `state` is what an earlier run left;
/// returns what this run leaves.
pub async fn run(filter: Filter, state: SavedState, program: Option<&Executable>) -> SavedState {
    let SavedState { mut last, cards } = state;
    let mut list = NotificationList::new(Instant::now());
    list.take_over(cards, Instant::now());
    let (mut signals, mut desktop): (Option<DaemonSignals>, Option<Desktop>) = (None, None);
    let (mut watch_retry, mut desktop_retry) =
        (Retry::new("system bus"), Retry::new("session bus"));
    loop {
        watch_retry.fill(&mut signals, DaemonSignals::connect).await;
        desktop_retry
            .fill(&mut desktop, async || Ok(Desktop::connect().await?))
            .await;
        if let Some(desktop) = &desktop {
            let daemon = signals.as_ref().map(DaemonSignals::daemon);
            show(&mut list, &desktop.notifier(), daemon).await;
        }

        let wakes = [
            signals.is_none().then_some(watch_retry.at),
            desktop.is_none().then_some(desktop_retry.at),
            desktop.as_ref().and_then(|_| list.wake(Instant::now())),
        ];
        let wake = wakes.into_iter().flatten().min();
        tokio::select! {
            signal = next_signal(&mut signals, last.as_deref()) => match signal {
                Some(DaemonEvent::Appeared) if program.is_some_and(Executable::was_replaced) => {
                    let cards = list.saved();
                    return SavedState { last, cards };
                }
                Some(DaemonEvent::Appeared) => {}
                Some(DaemonEvent::Signal(signal)) => {
                    last = Some(signal.event_id.clone());
                    if let Some(alert) = filter.alert(signal) {
                        list.add(alert, Instant::now());
                    }
                }
                None => {
                    signals = None;
                    watch_retry.lost();
                }
            },
            event = next_desktop_event(&mut desktop) => match event {
                Some(DesktopEvent::Closed { id, .. }) => list.closed(id),
                Some(DesktopEvent::Restarted) => list.desktop_restarted(),
                Some(DesktopEvent::Pressed(id, key)) => {
                    let lead = list.lead(id).cloned();
                    if let (Some(lead), Some(desktop), Some(signals)) = (lead, &desktop, &signals) {
                        // polkit may wait long for a password, so not in this loop.
                        tokio::spawn(press(key, lead, desktop.notifier(), signals.daemon()));
                    }
                }
                None => {
                    desktop = None;
                    desktop_retry.lost();
                    list.desktop_restarted();
                }
            },
            () = sleep(wake) => {}
        }
    }
}

async fn show(list: &mut NotificationList, notifier: &Notifier, daemon: Option<Daemon>) {
    if let Some(daemon) = daemon {
        // Without an answer, the titles have to do.
        let _ = timeout(PATIENCE, explain(list, &daemon)).await;
    }
    for notification in list.due(Instant::now()) {
        match cards::show(notifier, &notification).await {
            Ok(id) => list.shown(&notification.server, id, Instant::now()),
            Err(error) => {
                tracing::debug!("the desktop rejects notifications: {error}");
                list.refused(Instant::now());
                return;
            }
        }
    }
}

/// Fetches what is behind the alerts that are due, as far as this user may read it.
async fn explain(list: &mut NotificationList, daemon: &Daemon) {
    for (server, event_id) in list.unexplained(Instant::now()) {
        let event = daemon.event(&event_id).await;
        let evidence = event.as_ref().map(Evidence::of).unwrap_or_default();
        list.explain(&server, &event_id, &evidence);
    }
}

/// What is behind an alert, if need be from the daemon.
async fn explained(
    alert: &Alert,
    evidence: Option<Evidence>,
    daemon: &Daemon,
) -> anyhow::Result<Evidence> {
    match evidence.filter(|evidence| !evidence.details.is_empty()) {
        Some(evidence) => Ok(evidence),
        None => Ok(Evidence::of(&daemon.event(&alert.event_id).await?)),
    }
}

/// Approves the definition that the alert is about, and returns its name.
async fn approve(
    alert: &Alert,
    evidence: Option<Evidence>,
    daemon: &Daemon,
) -> anyhow::Result<String> {
    let evidence = explained(alert, evidence, daemon).await?;
    let definition = evidence
        .definition
        .context("the event names no definition")?;
    daemon.approve(&definition).await?;
    Ok(definition.name)
}

/// Carries out a button's action and shows the result.
async fn press(key: String, lead: ExplainedAlert, notifier: Notifier, daemon: Daemon) {
    let ExplainedAlert {
        alert, evidence, ..
    } = lead;
    let answer = match key.as_str() {
        action::DETAILS => match explained(&alert, evidence, &daemon).await {
            Ok(evidence) => Ok(evidence.details),
            Err(error) => Err(format!("Cannot fetch the details: {error:#}")),
        },
        action::APPROVE => match approve(&alert, evidence, &daemon).await {
            Ok(tool) => Ok(vec![format!(
                "The current definition of {tool} is approved."
            )]),
            Err(error) => Err(format!("Not approved: {error:#}")),
        },
        action::FREEZE => match daemon.freeze(&alert.server).await {
            Ok(count) => Ok(vec![
                format!(
                    "{} is frozen: {count} of its processes are stopped.",
                    alert.server
                ),
                "`mcpinspect thaw` resumes it, `mcpinspect kill` ends it.".to_owned(),
            ]),
            Err(error) => Err(format!("Not frozen: {error}")),
        },
        _ => return,
    };
    let (tone, lines) = match answer {
        Ok(lines) => (Tone::Answer, lines),
        Err(line) => (Tone::Alert(Severity::Medium), vec![line]),
    };
    let card = Card {
        replaces: 0,
        tone,
        summary: &alert.title,
        lines: &lines,
        buttons: &[],
        stays: false,
    };
    if let Err(error) = notifier.show(card).await {
        tracing::warn!("cannot show the result: {error}");
    }
}

async fn next_signal(
    signals: &mut Option<DaemonSignals>,
    last: Option<&str>,
) -> Option<DaemonEvent> {
    match signals {
        Some(signals) => signals.next(last).await,
        None => std::future::pending().await,
    }
}

async fn next_desktop_event(desktop: &mut Option<Desktop>) -> Option<DesktopEvent> {
    match desktop {
        Some(desktop) => desktop.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}
