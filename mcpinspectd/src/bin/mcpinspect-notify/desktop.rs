//! The desktop's notification daemon, by the Desktop Notifications Specification 1.2.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use mcpinspectd::model::Severity;
use mcpinspectd::text::escape::{markup, printable};
use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::{Connection, Variant};

use crate::notifications::Notification;
use crate::peer::{Peer, PeerEvent};

const SERVICE: &str = "org.freedesktop.Notifications";
/// Time limit for a call, which may have to start the notification daemon.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest heading, in characters.
const MAX_SUMMARY: usize = 160;

/// The names of a notification's buttons on the bus.
pub mod action {
    /// Shows the evidence; a click on the notification itself does the same.
    pub const DETAILS: &str = "default";
    /// Approves the changed definition.
    pub const APPROVE: &str = "approve";
    /// Suspends the server until a person thaws it.
    pub const FREEZE: &str = "freeze";
}

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
    /// `expires` is in milliseconds; -1 leaves it to the daemon.
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
    /// A notification was closed.
    Closed(u32),
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
    pub async fn connect() -> anyhow::Result<Self> {
        let connection = timeout(TIMEOUT, Connection::session())
            .await
            .context("the session bus does not answer")??;
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
                .map(|args| DesktopEvent::Closed(args.id));
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

/// Shows notifications.
#[derive(Clone, Debug)]
pub struct Notifier(Connection);

impl Notifier {
    /// Shows a notification and returns its id.
    pub async fn show(&self, notification: &Notification) -> anyhow::Result<u32> {
        let mut actions = Vec::new();
        // Pairs of name and label. Notification daemons without buttons ignore them.
        actions.extend([action::DETAILS, "Details"]);
        if matches!(
            notification.latest.kind.as_str(),
            "mcp_tool_changed" | "mcp_server_changed"
        ) {
            actions.extend([action::APPROVE, "Approve"]);
        }
        // No server, or one that is contained already, cannot be frozen.
        if !notification.server.is_empty() && notification.latest.kind != "mcp_contained" {
            actions.extend([action::FREEZE, "Freeze server"]);
        }
        self.notify(
            notification.replaces,
            notification.severity,
            &notification.summary,
            &notification.lines,
            &actions,
        )
        .await
    }

    /// Shows a text, in place of the notification `replaces` unless that is zero.
    pub async fn notify(
        &self,
        replaces: u32,
        severity: Severity,
        summary: &str,
        lines: &[String],
        actions: &[&str],
    ) -> anyhow::Result<u32> {
        let daemon = NotificationsProxy::builder(&self.0)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let capabilities = answer(daemon.get_capabilities()).await?;
        let body = if capabilities.iter().any(|word| word == "body-markup") {
            lines
                .iter()
                .map(|line| markup(line))
                .collect::<Vec<_>>()
                .join("\n")
        } else {
            lines.join("\n")
        };
        let (urgency, icon): (u8, _) = match severity {
            Severity::Low => (0, "dialog-information"),
            Severity::Medium => (1, "dialog-warning"),
            Severity::High | Severity::Critical => (2, "dialog-error"),
        };
        let hints = HashMap::from([
            ("urgency", Variant::from(urgency)),
            ("desktop-entry", Variant::from("mcpinspect-notify")),
            ("category", Variant::from("device")),
        ]);
        let summary = printable(summary, MAX_SUMMARY);
        let shown = daemon.notify(
            "MCP inspector",
            replaces,
            icon,
            &summary,
            &body,
            actions,
            hints,
            -1,
        );
        answer(shown).await
    }
}

async fn answer<T>(call: impl Future<Output = zbus::Result<T>>) -> anyhow::Result<T> {
    Ok(timeout(TIMEOUT, call)
        .await
        .context("the notification daemon does not answer")??)
}
