//! The terminal: prepared, listened to, and restored.
//!
//! A program that leaves a terminal in raw mode leaves it useless. So it is restored when this goes out of scope,
//! however that happens, and before a panic's message; signals are inputs like keys.
//!
//! Three threads put inputs into one queue: one waits for keys, one for signals, and one asks the daemon and the
//! store. The screen is drawn after each input, and nothing else happens, so between two readings nothing runs.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mcpinspect_cli::terminal::wants_colour;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use super::draw::{Palette, draw};
use super::model::{State, ViewRequest};
use super::source::{Source, contain};
use super::update::{Input, update};

/// Time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// What a thread reports.
enum ThreadEvent {
    Input(Input),
    /// A signal asks the program to end.
    Signal(i32),
    /// A thread cannot continue.
    Failed(String),
}

/// The terminal while it is ours.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Self> {
        // Restores the terminal before the panic is printed.
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nowhere to report a failure to.
        let _ = ratatui::try_restore();
    }
}

/// Shows what is happening until the user has seen enough. Returns the exit status.
pub fn show(source: Source) -> anyhow::Result<u8> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() || is_dumb {
        bail!(
            "this needs a terminal that can be drawn on; `mcpinspect top --once` prints a snapshot as text, `--json` as JSON"
        );
    }
    let palette = Palette::new(wants_colour(true));
    let (tell, thread_events) = channel();
    // Signals first, so that none ends the program while the terminal is ours.
    listen_to_signals(tell.clone())?;
    let mut screen = Screen::take().context("cannot draw on the terminal")?;
    listen_to_keys(tell.clone());
    let requests = start_reader(source, tell);
    run(&mut screen.0, palette, &thread_events, &requests)
}

fn run(
    terminal: &mut DefaultTerminal,
    palette: Palette,
    thread_events: &Receiver<ThreadEvent>,
    requests: &UnboundedSender<ViewRequest>,
) -> anyhow::Result<u8> {
    let mut state = State::default();
    let size = terminal.size()?;
    update(&mut state, Input::Size(size.width, size.height));
    loop {
        terminal.draw(|frame| draw(frame, &state, palette))?;
        let mut next = Some(thread_events.recv().context("nothing is left to show")?);
        // Held keys are drawn once.
        while let Some(told_now) = next.take() {
            match told_now {
                ThreadEvent::Input(input) => {
                    for request in update(&mut state, input) {
                        requests
                            .send(request)
                            .ok()
                            .context("the reader has ended")?;
                    }
                }
                ThreadEvent::Signal(signal) => return Ok(u8::try_from(128 + signal).unwrap_or(1)),
                ThreadEvent::Failed(problem) => bail!(problem),
            }
            if state.is_over {
                return Ok(0);
            }
            next = thread_events.try_recv().ok();
        }
    }
}

fn listen_to_signals(tell: Sender<ThreadEvent>) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to signals")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if tell.send(ThreadEvent::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn listen_to_keys(tell: Sender<ThreadEvent>) {
    thread::spawn(move || {
        loop {
            let thread_event = match event::read() {
                Ok(Event::Key(key)) => ThreadEvent::Input(Input::Key(key)),
                Ok(Event::Resize(width, height)) => ThreadEvent::Input(Input::Size(width, height)),
                Ok(_) => continue,
                Err(error) => {
                    ThreadEvent::Failed(format!("cannot read from the terminal: {error}"))
                }
            };
            let is_failure = matches!(thread_event, ThreadEvent::Failed(_));
            if tell.send(thread_event).is_err() || is_failure {
                return;
            }
        }
    });
}

/// Asks once a second what is new, and passes on the user's requests as soon as they come.
fn start_reader(source: Source, tell: Sender<ThreadEvent>) -> UnboundedSender<ViewRequest> {
    let (sender, receiver) = unbounded_channel();
    thread::spawn(move || {
        let tell_end = EndReport(tell.clone());
        if let Err(error) = crate::daemon::on_bus(serve(source, receiver, tell)) {
            let _ = tell_end.0.send(ThreadEvent::Failed(format!("{error:#}")));
        }
    });
    sender
}

/// Reports that a thread has ended, even by a panic.
struct EndReport(Sender<ThreadEvent>);

impl Drop for EndReport {
    fn drop(&mut self) {
        let _ = self
            .0
            .send(ThreadEvent::Failed("the reader has ended".to_owned()));
    }
}

async fn serve(
    mut source: Source,
    mut requests: UnboundedReceiver<ViewRequest>,
    tell: Sender<ThreadEvent>,
) -> anyhow::Result<()> {
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let input = tokio::select! {
            _ = period.tick() => Input::Snapshot(Box::new(source.snapshot().await)),
            request = requests.recv() => match request {
                None => return Ok(()),
                Some(ViewRequest::Contain(server_key, action)) => {
                    // The user may be asked for a password meanwhile, and everything else continues.
                    let manager = match source.for_request().await {
                        Ok(manager) => manager,
                        Err(problem) => {
                            tell_answer(&tell, super::model::Answer::Contained(Err(problem)));
                            continue;
                        }
                    };
                    let tell = tell.clone();
                    tokio::spawn(async move {
                        tell_answer(&tell, contain(manager, server_key, action).await);
                    });
                    continue;
                }
                Some(request) => Input::Answer(source.answer(request).await),
            },
        };
        if tell.send(ThreadEvent::Input(input)).is_err() {
            return Ok(());
        }
    }
}

fn tell_answer(tell: &Sender<ThreadEvent>, answer: super::model::Answer) {
    // If no one listens any more, the program is about to end.
    let _ = tell.send(ThreadEvent::Input(Input::Answer(answer)));
}
