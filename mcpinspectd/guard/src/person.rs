//! The person at the desktop, who is asked if a rule says so.
//!
//! A notification with buttons is the question; a press of one is the answer. Silence, a closed
//! notification, and a desktop without buttons mean no. One question is on the screen at a time: no one
//! could answer with care what a server's flood of calls would pile up there.

use std::collections::HashSet;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpinspect_bus::desktop::{Card, Desktop, DesktopEvent, Notifier, Tone};
use mcpinspect_core::model::Severity;
use mcpinspect_core::text::escape::printable;
use mcpinspect_judge::policy::Policy;
use mcpinspect_judge::policy::consent::{Asking, Consent, Reply};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::on_failure::OnFailure;

/// Questions that may wait behind the one on the screen. Any more are a no at once.
const QUEUE: usize = 64;
/// Rules and tools of a session that a person allowed for its duration.
const REMEMBERED: usize = 1024;
/// Characters of names, and of parameters, to show.
const NAME: usize = 80;
const PARAMS: usize = 400;
/// How long the desktop may take to close a question.
const CLOSING: Duration = Duration::from_secs(1);

/// The buttons, by their names on the bus.
const ONCE: &str = "allow";
const SESSION: &str = "allow-session";
const DENY: &str = "deny";

/// What was pressed, or why nothing was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Once,
    Session,
    Not(Reply),
}

struct Question {
    summary: String,
    lines: Vec<String>,
    until: Instant,
    reply: SyncSender<Choice>,
}

/// Asks the person.
pub struct Person {
    questions: mpsc::Sender<Question>,
    on_failure: OnFailure,
}

/// What the person allowed for the rest of a session: rules, each with a tool or method.
#[derive(Debug, Default)]
pub struct SessionConsents(Mutex<HashSet<(usize, String)>>);

impl Person {
    /// Starts the thread that asks.
    pub fn start(on_failure: OnFailure) -> anyhow::Result<Self> {
        let (questions, waiting) = mpsc::channel(QUEUE);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime for the bus")?;
        std::thread::spawn(move || runtime.block_on(ask_each(waiting)));
        Ok(Self {
            questions,
            on_failure,
        })
    }

    /// Asks, and waits for the answers.
    pub fn ask(
        &self,
        questions: Vec<Asking>,
        policy: &Policy,
        session_consents: &SessionConsents,
    ) -> Vec<Consent> {
        let answer = |asking: Asking| {
            let key = (
                asking.rule,
                asking.tool.as_ref().unwrap_or(&asking.method).clone(),
            );
            if session_consents.holds(&key) {
                return asking.answered(Reply::Allowed, true);
            }
            let reply = match self.wait(&asking, policy) {
                Choice::Once => Reply::Allowed,
                Choice::Session => {
                    session_consents.add(key);
                    Reply::Allowed
                }
                Choice::Not(reply) => reply,
            };
            let passes = match reply {
                Reply::Allowed => true,
                Reply::NoOneToAsk => self.on_failure == OnFailure::Open,
                Reply::Denied | Reply::NoAnswer => false,
            };
            asking.answered(reply, passes)
        };
        questions.into_iter().map(answer).collect()
    }

    fn wait(&self, asking: &Asking, policy: &Policy) -> Choice {
        let Some(question) = asking.question(policy) else {
            return Choice::Not(Reply::NoOneToAsk);
        };
        let (reply, answer) = sync_channel(1);
        let sent = self.questions.try_send(Question {
            summary: heading(asking),
            lines: lines(asking, policy),
            until: Instant::now() + question.timeout,
            reply,
        });
        match sent {
            // The thread answers in time, whatever the desktop does.
            Ok(()) => answer.recv().unwrap_or(Choice::Not(Reply::NoOneToAsk)),
            Err(_) => Choice::Not(Reply::NoAnswer),
        }
    }
}

impl SessionConsents {
    fn holds(&self, key: &(usize, String)) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(key)
    }

    fn add(&self, key: (usize, String)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < REMEMBERED {
            all.insert(key);
        }
    }
}

fn heading(asking: &Asking) -> String {
    let server = printable(&asking.server, NAME);
    match &asking.tool {
        Some(tool) => format!("May {} of {server} be called?", printable(tool, NAME)),
        None => format!("May {} go to {server}?", printable(&asking.method, NAME)),
    }
}

fn lines(asking: &Asking, policy: &Policy) -> Vec<String> {
    let rule = policy.rules().get(asking.rule);
    let question = asking
        .question(policy)
        .and_then(|question| question.text.as_ref())
        .or(rule.and_then(|rule| rule.name.as_ref()));
    let client = asking.client.as_deref().map(|client| {
        let client = printable(client, NAME);
        format!("The client calls itself {client}.")
    });
    let params = (!asking.params.is_empty()).then(|| printable(&asking.params, PARAMS));
    let question = question.map(|text| printable(text, PARAMS));
    [question, client, params].into_iter().flatten().collect()
}

/// Asks one question after another.
async fn ask_each(mut waiting: mpsc::Receiver<Question>) {
    while let Some(question) = waiting.recv().await {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let pressed = match timeout(left(question.until), show(&question)).await {
            Ok(pressed) => pressed,
            Err(_) => Choice::Not(Reply::NoAnswer),
        };
        // The session may be over by now.
        let _ = question.reply.send(pressed);
    }
}

/// Shows a question and waits for a button. Dropping the future closes it.
async fn show(question: &Question) -> Choice {
    let nobody = Choice::Not(Reply::NoOneToAsk);
    let Ok(mut desktop) = Desktop::connect().await else {
        return nobody;
    };
    let notifier = desktop.notifier();
    match notifier.capabilities().await {
        Ok(all) if all.iter().any(|word| word == "actions") => {}
        _ => return nobody,
    }
    let card = Card {
        replaces: 0,
        tone: Tone::Alert(Severity::High),
        summary: &question.summary,
        lines: &question.lines,
        buttons: &[
            ONCE,
            "Allow once",
            SESSION,
            "Allow in this session",
            DENY,
            "Deny",
        ],
        stays: true,
    };
    let Ok(id) = notifier.show(card).await else {
        return nobody;
    };
    let open_question = OpenQuestion { notifier, id };
    let pressed = loop {
        match desktop.next().await {
            Some(DesktopEvent::Pressed(pressed, key)) if pressed == id => match key.as_str() {
                ONCE => break Choice::Once,
                SESSION => break Choice::Session,
                // Other buttons were not offered.
                _ => break Choice::Not(Reply::Denied),
            },
            Some(DesktopEvent::Closed {
                id: closed,
                by_person,
            }) if closed == id => {
                break Choice::Not(match by_person {
                    true => Reply::Denied,
                    false => Reply::NoAnswer,
                });
            }
            Some(DesktopEvent::Restarted) | None => break Choice::Not(Reply::NoAnswer),
            Some(_) => {}
        }
    };
    drop(open_question);
    pressed
}

/// A question on the screen, which is closed when no one waits for the answer any more.
struct OpenQuestion {
    notifier: Notifier,
    id: u32,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let (notifier, id) = (self.notifier.clone(), self.id);
        // Most desktops have closed it themselves.
        tokio::spawn(async move { timeout(CLOSING, notifier.close(id)).await });
    }
}
