//! The desktop's notification daemon, by the Desktop Notifications Specification 1.2.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use mcpinspectd::model::Severity;
use mcpinspectd::text::escape::{markup, printable};
use tokio::time::timeout;
use zbus::{Connection, Variant, message};

use crate::notifications::Notification;
use crate::peer::{Peer, PeerEvent};

const SERVICE: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
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
            let body = signal.body();
            let header = signal.header();
            let event = match header.member().map(|member| member.as_str()) {
                Some("NotificationClosed") => body
                    .deserialize::<(u32, u32)>()
                    .ok()
                    .map(|(id, _)| DesktopEvent::Closed(id)),
                Some("ActionInvoked") => body
                    .deserialize::<(u32, String)>()
                    .ok()
                    .map(|(id, key)| DesktopEvent::Pressed(id, key)),
                _ => None,
            };
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
        let body = if self.supports_markup().await? {
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
        let arguments = (
            "MCP inspector",
            replaces,
            icon,
            &*summary,
            &*body,
            actions,
            hints,
            -1,
        );
        let reply = self.call("Notify", &arguments).await?;
        Ok(reply.body().deserialize()?)
    }

    async fn supports_markup(&self) -> anyhow::Result<bool> {
        let reply = self.call("GetCapabilities", &()).await?;
        let capabilities: Vec<String> = reply.body().deserialize()?;
        Ok(capabilities
            .iter()
            .any(|capability| capability == "body-markup"))
    }

    async fn call<B>(&self, method: &str, body: &B) -> anyhow::Result<message::Message>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let call = self
            .0
            .call_method(Some(SERVICE), PATH, Some(SERVICE), method, body);
        Ok(timeout(TIMEOUT, call)
            .await
            .context("the notification daemon does not answer")??)
    }
}
