//! A notification about a server as the desktop shows it, with its buttons.

use mcpinspect_bus::desktop::{Card, Notifier, Tone};
use mcpinspect_bus::peer::PeerError;

use crate::notifications::Notification;

/// The names of a notification's buttons on the bus.
pub mod action {
    /// Shows the evidence; a click on the notification itself does the same.
    pub const DETAILS: &str = "default";
    /// Approves the changed definition.
    pub const APPROVE: &str = "approve";
    /// Suspends the server until a person thaws it.
    pub const FREEZE: &str = "freeze";
}

/// Shows a notification and returns its id.
pub async fn show(notifier: &Notifier, notification: &Notification) -> Result<u32, PeerError> {
    let mut buttons = vec![action::DETAILS, "Details"];
    if notification.lead.is_decidable() {
        buttons.extend([action::APPROVE, "Approve"]);
    }
    // No server, or one that is contained already, cannot be frozen.
    if !notification.server.is_empty() && notification.lead.kind != "mcp_contained" {
        buttons.extend([action::FREEZE, "Freeze server"]);
    }
    let card = Card {
        replaces: notification.replaces,
        tone: Tone::Alert(notification.severity),
        summary: &notification.summary,
        lines: &notification.lines,
        buttons: &buttons,
        stays: false,
    };
    notifier.show(card).await
}
