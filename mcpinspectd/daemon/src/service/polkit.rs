//! Asking polkit whether the sender of a call may change things.
//!
//! polkit judges the *sender's* connection, so no process can borrow another's right, and it may ask
//! the person for a password. Root needs no asking. Where there is no polkit, only root may.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::timeout;
use zbus::fdo;
use zbus::message::{Flags, Header};
use zbus::{Connection, Variant};

/// Know which servers and tools there are, other users' included; their contents take more.
pub const LIST: &str = "org.mcpinspect1.list";
/// Approve, reject and suppress findings; turn monitoring on and off; reload.
pub const MANAGE: &str = "org.mcpinspect1.manage";
/// Freeze, thaw and kill servers.
pub const CONTAIN: &str = "org.mcpinspect1.contain";

/// Time limit for polkit if it asks no person.
const PATIENCE: Duration = Duration::from_secs(2);

/// polkit may ask the person and wait for the answer: where the caller said that it will wait.
const ALLOW_USER_INTERACTION: u32 = 1;

/// Answers `Ok` where the sender, who is `uid`, may do what `action` names.
///
/// # Errors
/// `AccessDenied` with the reason.
pub async fn authorise(
    connection: &Connection,
    header: &Header<'_>,
    uid: u32,
    action: &str,
) -> fdo::Result<()> {
    if uid == 0 {
        return Ok(());
    }
    let waits = header
        .primary()
        .flags()
        .contains(Flags::ALLOW_INTERACTIVE_AUTH);
    if check(connection, header, action, waits).await? {
        Ok(())
    } else {
        Err(fdo::Error::AccessDenied(format!(
            "polkit does not allow {action}"
        )))
    }
}

/// Whether the sender may do what `action` names without being asked for anything. Where polkit
/// cannot be asked, the answer is no.
pub async fn is_allowed(connection: &Connection, header: &Header<'_>, action: &str) -> bool {
    let checked = timeout(PATIENCE, check(connection, header, action, false)).await;
    matches!(checked, Ok(Ok(true)))
}

async fn check(
    connection: &Connection,
    header: &Header<'_>,
    action: &str,
    waits: bool,
) -> fdo::Result<bool> {
    let sender = header
        .sender()
        .ok_or_else(|| fdo::Error::AccessDenied("a call without a sender".to_owned()))?;
    let details = HashMap::from([("name", Variant::from(sender.as_str()))]);
    let flags = if waits { ALLOW_USER_INTERACTION } else { 0 };
    let nothing: HashMap<&str, &str> = HashMap::new();
    let reply = connection
        .call_method(
            Some("org.freedesktop.PolicyKit1"),
            "/org/freedesktop/PolicyKit1/Authority",
            Some("org.freedesktop.PolicyKit1.Authority"),
            "CheckAuthorization",
            &(("system-bus-name", details), action, nothing, flags, ""),
        )
        .await
        .map_err(|error| {
            fdo::Error::AccessDenied(format!(
                "cannot ask polkit, so only root may do this: {error}"
            ))
        })?;
    let ((allowed, _, _),): ((bool, bool, HashMap<String, String>),) =
        reply.body().deserialize().map_err(|error| {
            fdo::Error::AccessDenied(format!("invalid answer from polkit: {error}"))
        })?;
    Ok(allowed)
}
