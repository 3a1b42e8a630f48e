//! From signals to cards and back, over two buses of which either may go at any time.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use crate::alert::{Alert, Filter};
use crate::board::Board;
use crate::desktop::{Act, Desktop, Screen, action};
use crate::details;
use crate::program::Program;
use crate::watch::{Daemon, News, Watch};

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Something to connect to: when to try, and how often it failed.
struct Retry {
    name: &'static str,
    at: Instant,
    wait: Duration,
}

impl Retry {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            at: Instant::now(),
            wait: FIRST_WAIT,
        }
    }

    /// Connects where nothing is connected and it is time to try.
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
                self.wait = FIRST_WAIT;
                *slot = Some(connected);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &anyhow::Error) {
        if self.wait == FIRST_WAIT {
            tracing::warn!(
                "no {}: {error:#}; trying again in the background",
                self.name
            );
        }
        self.at = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }

    fn lost(&mut self) {
        tracing::warn!("the {} has gone", self.name);
        self.at = Instant::now() + self.wait;
    }
}

/// Shows what `filter` lets through, until `program` is replaced. `last` is the last event that was
/// heard of before; gives the last one of all.
pub async fn run(
    filter: Filter,
    mut last: Option<String>,
    program: Option<&Program>,
) -> Option<String> {
    let mut board = Board::new(Instant::now());
    let (mut watch, mut desktop): (Option<Watch>, Option<Desktop>) = (None, None);
    let (mut watch_retry, mut desktop_retry) =
        (Retry::new("system bus"), Retry::new("session bus"));
    loop {
        watch_retry.fill(&mut watch, Watch::connect).await;
        desktop_retry.fill(&mut desktop, Desktop::connect).await;
        if let Some(desktop) = &desktop {
            show(&mut board, &desktop.screen()).await;
        }

        let wakes = [
            watch.is_none().then_some(watch_retry.at),
            desktop.is_none().then_some(desktop_retry.at),
            desktop.as_ref().and_then(|_| board.wake(Instant::now())),
        ];
        let wake = wakes.into_iter().flatten().min();
        tokio::select! {
            signal = next_signal(&mut watch, last.as_deref()) => match signal {
                Some(News::Came) if program.is_some_and(Program::was_replaced) => return last,
                Some(News::Came) => {}
                Some(News::Event(arguments)) => {
                    last = Some(arguments.1.clone());
                    if let Some(alert) = filter.alert(arguments) {
                        board.add(alert, Instant::now());
                    }
                }
                None => {
                    watch = None;
                    watch_retry.lost();
                }
            },
            act = next_act(&mut desktop) => match act {
                Some(Act::Closed(id)) => board.closed(id),
                Some(Act::Restarted) => board.screen_cleared(),
                Some(Act::Pressed(id, key)) => {
                    let alert = board.latest(id).cloned();
                    if let (Some(alert), Some(desktop), Some(watch)) = (alert, &desktop, &watch) {
                        // A person may think about a password for long: not in this loop.
                        tokio::spawn(press(key, alert, desktop.screen(), watch.daemon()));
                    }
                }
                None => {
                    desktop = None;
                    desktop_retry.lost();
                    board.screen_cleared();
                }
            },
            () = sleep(wake) => {}
        }
    }
}

async fn show(board: &mut Board, screen: &Screen) {
    for card in board.due(Instant::now()) {
        match screen.show(&card).await {
            Ok(id) => board.shown(&card.server, id, Instant::now()),
            Err(error) => {
                tracing::debug!("the desktop does not show alerts now: {error:#}");
                board.refused(Instant::now());
                return;
            }
        }
    }
}

/// Carries out what a button says, and shows what came of it.
async fn press(key: String, alert: Alert, screen: Screen, daemon: Daemon) {
    let id = &alert.event_id;
    let lines = match key.as_str() {
        action::DETAILS => match daemon.event(id).await {
            Ok(event) => details::lines(&event),
            Err(error) => vec![format!("The details cannot be had: {error:#}")],
        },
        action::APPROVE => match daemon.approve(id).await {
            Ok(tool) => vec![format!("The current definition of {tool} is approved.")],
            Err(error) => vec![format!("Not approved: {error:#}")],
        },
        action::FREEZE => match daemon.freeze(&alert.server).await {
            Ok(count) => vec![
                format!(
                    "{} is frozen: {count} of its processes are stopped.",
                    alert.server
                ),
                "`mcpinspect thaw` lets it run again, `mcpinspect kill` ends it.".to_owned(),
            ],
            Err(error) => vec![format!("Not frozen: {error}")],
        },
        _ => return,
    };
    if let Err(error) = screen
        .notify(0, alert.severity, &alert.title, &lines, &[])
        .await
    {
        tracing::warn!("cannot show the answer: {error:#}");
    }
}

async fn next_signal(watch: &mut Option<Watch>, last: Option<&str>) -> Option<News> {
    match watch {
        Some(watch) => watch.next(last).await,
        None => std::future::pending().await,
    }
}

async fn next_act(desktop: &mut Option<Desktop>) -> Option<Act> {
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
