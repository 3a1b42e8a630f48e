//! The desktop's notification daemon, as the Desktop Notifications Specification 1.2 has it.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use mcpinspectd::model::Severity;
use mcpinspectd::text::escape::{markup, printable};
use tokio::time::timeout;
use zbus::{Connection, Variant, message};

use crate::board::Card;
use crate::peer::{Heard, Peer};

const SERVICE: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// A notification daemon may be started by the call, which takes a moment.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest heading, characters.
const MAX_SUMMARY: usize = 160;

/// What a card's buttons are called on the bus.
pub mod action {
    /// Shows the evidence; also what a click on the card itself does.
    pub const DETAILS: &str = "default";
    /// Approves what has changed.
    pub const APPROVE: &str = "approve";
    /// Stops the server until a person thaws it.
    pub const FREEZE: &str = "freeze";
}

/// What the person or the desktop did.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// A card is gone.
    Closed(u32),
    /// A button was pressed.
    Pressed(u32, String),
    /// The notification daemon came or went.
    Restarted,
}

/// The connection to the user's session bus.
#[derive(Debug)]
pub struct Desktop(Peer);

impl Desktop {
    /// Connects to the session bus. Whether a notification daemon is there shows later.
    pub async fn connect() -> anyhow::Result<Self> {
        let connection = timeout(PATIENCE, Connection::session())
            .await
            .context("the session bus does not answer")??;
        Ok(Self(Peer::join(connection, SERVICE, SERVICE, None).await?))
    }

    /// A handle to show cards with.
    pub fn screen(&self) -> Screen {
        Screen(self.0.connection().clone())
    }

    /// The next thing that happens; `None` when the session bus has gone.
    pub async fn next(&mut self) -> Option<Act> {
        loop {
            let signal = match self.0.next().await? {
                Heard::Came | Heard::Went => return Some(Act::Restarted),
                Heard::Signal(signal) => signal,
            };
            let body = signal.body();
            let header = signal.header();
            let act = match header.member().map(|member| member.as_str()) {
                Some("NotificationClosed") => body
                    .deserialize::<(u32, u32)>()
                    .ok()
                    .map(|(id, _)| Act::Closed(id)),
                Some("ActionInvoked") => body
                    .deserialize::<(u32, String)>()
                    .ok()
                    .map(|(id, key)| Act::Pressed(id, key)),
                _ => None,
            };
            if act.is_some() {
                return act;
            }
        }
    }
}

/// Where cards are shown.
#[derive(Clone, Debug)]
pub struct Screen(Connection);

impl Screen {
    /// Shows a card, and says under which id.
    pub async fn show(&self, card: &Card) -> anyhow::Result<u32> {
        let mut actions = Vec::new();
        // A daemon that shows no buttons ignores them; one that shows them wants pairs.
        actions.extend([action::DETAILS, "Details"]);
        if matches!(
            card.latest.kind.as_str(),
            "mcp_tool_changed" | "mcp_server_changed"
        ) {
            actions.extend([action::APPROVE, "Approve"]);
        }
        // What was contained already, or is about no server, offers nothing to freeze.
        if !card.server.is_empty() && card.latest.kind != "mcp_contained" {
            actions.extend([action::FREEZE, "Freeze server"]);
        }
        self.notify(
            card.replaces,
            card.severity,
            &card.summary,
            &card.lines,
            &actions,
        )
        .await
    }

    /// Shows a text in the place of the notification `replaces`.
    pub async fn notify(
        &self,
        replaces: u32,
        severity: Severity,
        summary: &str,
        lines: &[String],
        actions: &[&str],
    ) -> anyhow::Result<u32> {
        let body = if self.knows_markup().await? {
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

    async fn knows_markup(&self) -> anyhow::Result<bool> {
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
        Ok(timeout(PATIENCE, call)
            .await
            .context("the notification daemon does not answer")??)
    }
}
