//! The desktop's notification daemon, by the Desktop Notifications Specification 1.2: the agent shows
//! findings through it, and a guard asks whether a call may pass.

use std::collections::HashMap;
use std::time::Duration;

use mcpinspect_core::model::Severity;
use mcpinspect_core::text::escape::{markup, printable};
use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::{Connection, Variant};

use super::peer::{Peer, PeerError, PeerEvent};

const SERVICE: &str = "org.freedesktop.Notifications";
/// Time limit for a call, which may have to start the notification daemon.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest heading, in characters.
const MAX_SUMMARY: usize = 160;
/// The reason for which a notification is closed that the person dismissed.
const DISMISSED: u32 = 2;

/// The notification daemon's object.
#[zbus::proxy(
    interface = "org.freedesktop.Notifications",
    default_service = "org.freedesktop.Notifications",
    default_path = "/org/freedesktop/Notifications"
)]
trait Notifications {
    /// What the notification daemon supports, such as `body-markup`.
    fn get_capabilities(&self) -> zbus::Result<Vec<String>>;

    /// Shows a notification, in place of `replaces` unless that is zero, and returns its id.
    /// `expires` is in milliseconds; 0 is never, and -1 leaves it to the daemon.
    #[expect(clippy::too_many_arguments, reason = "the specification's call")]
    fn notify(
        &self,
        application: &str,
        replaces: u32,
        icon: &str,
        summary: &str,
        body: &str,
        actions: &[&str],
        hints: HashMap<&str, Variant<'_>>,
        expires: i32,
    ) -> zbus::Result<u32>;

    /// Takes a notification away.
    fn close_notification(&self, id: u32) -> zbus::Result<()>;

    /// The notification with this id was closed, for this reason.
    #[zbus(signal)]
    fn notification_closed(&self, id: u32, reason: u32) -> zbus::Result<()>;

    /// A button of the notification with this id was pressed.
    #[zbus(signal)]
    fn action_invoked(&self, id: u32, key: String) -> zbus::Result<()>;
}

/// What the person or the desktop did.
#[derive(Debug, PartialEq, Eq)]
pub enum DesktopEvent {
    /// A notification was closed: by the person, or because its time was up.
    Closed {
        /// Its id.
        id: u32,
        /// Whether it was the person.
        by_person: bool,
    },
    /// A button was pressed.
    Pressed(u32, String),
    /// The notification daemon started or stopped.
    Restarted,
}

/// The connection to the user's session bus.
#[derive(Debug)]
pub struct Desktop(Peer);

impl Desktop {
    /// Connects to the session bus, whether or not a notification daemon is running.
    ///
    /// # Errors
    /// There is no session bus.
    pub async fn connect() -> Result<Self, PeerError> {
        let connection = timeout(TIMEOUT, Connection::session())
            .await
            .map_err(|_| PeerError::Timeout("the session bus"))??;
        Ok(Self(Peer::join(connection, SERVICE, SERVICE, None).await?))
    }

    /// Returns a handle to show notifications with.
    pub fn notifier(&self) -> Notifier {
        Notifier(self.0.connection().clone())
    }

    /// Waits for the next event; returns `None` when the session bus is gone.
    pub async fn next(&mut self) -> Option<DesktopEvent> {
        loop {
            let signal = match self.0.next().await? {
                PeerEvent::Appeared | PeerEvent::Vanished => return Some(DesktopEvent::Restarted),
                PeerEvent::Signal(signal) => signal,
            };
            let closed = NotificationClosed::from_message(signal.clone());
            let pressed = ActionInvoked::from_message(signal);
            let closed = closed
                .as_ref()
                .and_then(|closed| closed.args().ok())
                .map(|args| DesktopEvent::Closed {
                    id: args.id,
                    by_person: args.reason == DISMISSED,
                });
            let pressed = pressed
                .as_ref()
                .and_then(|pressed| pressed.args().ok())
                .map(|args| DesktopEvent::Pressed(args.id, args.key.to_string()));
            let event = closed.or(pressed);
            if event.is_some() {
                return event;
            }
        }
    }
}

/// What a notification is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something is as bad as this.
    Alert(Severity),
    /// What the person asked for.
    Answer,
}

/// What a notification shows.
#[derive(Clone, Copy, Debug)]
pub struct Card<'a> {
    /// The notification to replace; zero for none.
    pub replaces: u32,
    /// How urgent it is, and its icon.
    pub tone: Tone,
    /// Its heading.
    pub summary: &'a str,
    /// Its lines.
    pub lines: &'a [String],
    /// Pairs of name and label. Notification daemons without buttons ignore them.
    pub buttons: &'a [&'a str],
    /// Whether it stays until someone closes it.
    pub stays: bool,
}

/// Shows notifications.
#[derive(Clone, Debug)]
pub struct Notifier(Connection);

impl Notifier {
    /// What the notification daemon supports, such as `actions` or `body-markup`.
    ///
    /// # Errors
    /// There is none.
    pub async fn capabilities(&self) -> Result<Vec<String>, PeerError> {
        answer(self.daemon().await?.get_capabilities()).await
    }

    /// Shows a notification and returns its id.
    ///
    /// # Errors
    /// There is no notification daemon, or it refuses.
    pub async fn show(&self, card: Card<'_>) -> Result<u32, PeerError> {
        let daemon = self.daemon().await?;
        let capabilities = answer(daemon.get_capabilities()).await?;
        let has_markup = capabilities.iter().any(|word| word == "body-markup");
        let line = |line: &String| match has_markup {
            true => markup(line),
            false => line.clone(),
        };
        let body: Vec<String> = card.lines.iter().map(line).collect();
        let (urgency, icon): (u8, _) = match card.tone {
            Tone::Alert(Severity::Low) => (0, "dialog-information"),
            // Someone waits for it, and desktops show what is less urgent only on request.
            Tone::Answer => (1, "dialog-information"),
            Tone::Alert(Severity::Medium) => (1, "dialog-warning"),
            Tone::Alert(Severity::High | Severity::Critical) => (2, "dialog-error"),
        };
        let hints = HashMap::from([
            ("urgency", Variant::from(urgency)),
            ("desktop-entry", Variant::from("mcpinspect-notify")),
            ("category", Variant::from("device")),
        ]);
        let (summary, body) = (printable(card.summary, MAX_SUMMARY), body.join("\n"));
        let shown = daemon.notify(
            "MCP inspector",
            card.replaces,
            icon,
            &summary,
            &body,
            card.buttons,
            hints,
            if card.stays { 0 } else { -1 },
        );
        answer(shown).await
    }

    /// Takes a notification away.
    ///
    /// # Errors
    /// There is no notification daemon.
    pub async fn close(&self, id: u32) -> Result<(), PeerError> {
        answer(self.daemon().await?.close_notification(id)).await
    }

    async fn daemon(&self) -> zbus::Result<NotificationsProxy<'static>> {
        NotificationsProxy::builder(&self.0)
            .cache_properties(CacheProperties::No)
            .build()
            .await
    }
}

async fn answer<T>(call: impl Future<Output = zbus::Result<T>>) -> Result<T, PeerError> {
    let answered = timeout(TIMEOUT, call).await;
    Ok(answered.map_err(|_| PeerError::Timeout("the notification daemon"))??)
}
