//! The desktop's notification daemon, as a test plays it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;
use zbus::message::Header;
use zbus::names::UniqueName;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedVariant, interface};

use super::bus::Bus;
use super::eventually;

/// A notification as the desktop gets it.
#[derive(Clone, Debug)]
pub struct ShownNotification {
    pub id: u32,
    pub replaces: u32,
    pub summary: String,
    pub body: String,
    pub actions: Vec<String>,
    pub urgency: u8,
}

/// A notification daemon that remembers.
#[derive(Clone, Default)]
pub struct Desktop {
    pub shown: Arc<Mutex<Vec<ShownNotification>>>,
    /// Ids that the desktop was asked to take away.
    pub closed: Arc<Mutex<Vec<u32>>>,
    next: Arc<AtomicU32>,
    /// The connection that showed a notification last: only it learns what becomes of it, as on GNOME.
    owners: Arc<Mutex<HashMap<u32, UniqueName<'static>>>>,
}

#[interface(name = "org.freedesktop.Notifications")]
impl Desktop {
    fn get_capabilities(&self) -> Vec<&'static str> {
        vec!["actions", "body", "body-markup"]
    }

    #[expect(clippy::too_many_arguments, reason = "the specification's")]
    fn notify(
        &self,
        _app_name: String,
        replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        actions: Vec<String>,
        hints: HashMap<String, OwnedVariant>,
        _timeout: i32,
        #[zbus(header)] header: Header<'_>,
    ) -> u32 {
        let id = match replaces {
            0 => self.next.fetch_add(1, Ordering::Relaxed) + 1,
            id => id,
        };
        let owner = header.sender().unwrap().to_owned();
        self.owners.lock().unwrap().insert(id, owner);
        let urgency = u8::try_from(&hints["urgency"]).unwrap();
        self.shown.lock().unwrap().push(ShownNotification {
            id,
            replaces,
            summary,
            body,
            actions,
            urgency,
        });
        id
    }

    fn close_notification(&self, id: u32) {
        self.closed.lock().unwrap().push(id);
    }

    #[zbus(signal)]
    async fn action_invoked(emitter: &SignalEmitter<'_>, id: u32, key: &str) -> zbus::Result<()>;
}

impl Desktop {
    /// Puts it on a session bus.
    pub fn on(&self, bus: &Bus, runtime: &Runtime) -> Connection {
        let address = bus.address();
        runtime.block_on(async {
            zbus::connection::Builder::address(address.as_str())
                .serve_at("/org/freedesktop/Notifications", self.clone())
                .name("org.freedesktop.Notifications")
                .build()
                .await
                .unwrap()
        })
    }

    /// Waits for a notification.
    pub fn wait_for(
        &self,
        what: &str,
        is_it: impl Fn(&ShownNotification) -> bool,
    ) -> ShownNotification {
        eventually(what, || {
            self.shown
                .lock()
                .unwrap()
                .iter()
                .find(|shown| is_it(shown))
                .cloned()
        })
    }

    /// Presses a button.
    pub fn press(&self, connection: &Connection, runtime: &Runtime, id: u32, key: &str) {
        let path = "/org/freedesktop/Notifications";
        let owner = self.owners.lock().unwrap()[&id].clone();
        let emitter = SignalEmitter::new(connection, path)
            .unwrap()
            .set_destination(owner.into());
        runtime
            .block_on(Self::action_invoked(&emitter, id, key))
            .unwrap();
    }
}
