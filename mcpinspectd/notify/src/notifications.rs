//! What is on the screen: one notification per server, and not too many at a time.
//!
//! An agent that pops up a hundred alerts is one that people switch off, and a server that floods
//! must not bury another's alert. So all alerts about one server share a notification that is updated
//! in place, a new notification takes a token from a slowly filling bucket, and updates are spaced
//! out. Alerts that have to wait are not lost: the notification counts them.
//!
//! No clock, no bus: time comes in as a value, notifications go out as values.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcpinspect_core::model::Severity;

use crate::alert::Alert;
use crate::evidence::Evidence;
use crate::group::{ExplainedAlert, Group, SavedGroup};

/// Notifications that may pop up at once.
const BURST: u32 = 4;
/// Time until the bucket holds one more.
const REFILL: Duration = Duration::from_secs(15);
/// Minimum time between two updates of a notification.
const PAUSE: Duration = Duration::from_secs(2);
/// A notification without new alerts for this long is left alone; the next alert opens a new one.
const FORGET: Duration = Duration::from_secs(600);
/// Maximum number of servers that have a notification or wait for one.
const MAX_SERVERS: usize = 64;
/// The first and the longest wait after the desktop refused a notification.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A notification to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The server it is about.
    pub server: String,
    /// The id of the notification to replace; zero for none.
    pub replaces: u32,
    /// The worst of its alerts.
    pub severity: Severity,
    /// Its heading.
    pub summary: String,
    /// Its lines, the latest last.
    pub lines: Vec<String>,
    /// The alert that it tells of, which its buttons act on.
    pub lead: Alert,
}

/// All notifications.
#[derive(Debug)]
pub struct NotificationList {
    servers: BTreeMap<String, Group>,
    tokens: u32,
    filled: Instant,
    /// Set after the desktop refused a notification: when to try again, and the wait until then.
    not_before: Option<(Instant, Duration)>,
    left_out: u64,
}

impl NotificationList {
    /// Creates an empty list.
    pub fn new(now: Instant) -> Self {
        Self {
            servers: BTreeMap::new(),
            tokens: BURST,
            filled: now,
            not_before: None,
            left_out: 0,
        }
    }

    /// Goes on with the notifications of an earlier run.
    pub fn take_over(&mut self, saved: Vec<SavedGroup>, now: Instant) {
        let groups = saved.into_iter().filter_map(|saved| Group::of(saved, now));
        self.servers.extend(groups.take(MAX_SERVERS));
    }

    /// What the next run needs to go on with them.
    pub fn saved(&self) -> Vec<SavedGroup> {
        self.servers.values().map(Group::saved).collect()
    }

    /// Adds an alert to its server's notification.
    pub fn add(&mut self, alert: Alert, now: Instant) {
        self.servers
            .retain(|_, group| group.is_news() || now - group.added < FORGET);
        if !self.servers.contains_key(&alert.server) && self.servers.len() >= MAX_SERVERS {
            let settled = self.servers.iter().filter(|(_, group)| !group.is_news());
            let oldest = settled
                .min_by_key(|(_, group)| group.added)
                .map(|(name, _)| name.clone());
            match oldest {
                Some(name) => drop(self.servers.remove(&name)),
                None => {
                    self.left_out += 1;
                    return;
                }
            }
        }
        match self.servers.get_mut(&alert.server) {
            Some(group) => group.add(alert, now),
            None => {
                let server = alert.server.clone();
                self.servers.insert(server, Group::new(alert, now));
            }
        }
    }

    /// The events behind what is due now, as far as it is not known what they tell. Answer each with
    /// [`NotificationList::explain`].
    pub fn unexplained(&self, now: Instant) -> Vec<(String, String)> {
        let due = self.servers.iter().filter(|(_, group)| {
            let may = match &group.open_card {
                Some(open_card) => now - open_card.at >= PAUSE,
                None => self.tokens > 0,
            };
            may && group.is_news()
        });
        due.flat_map(|(server, group)| {
            group
                .unexplained()
                .map(|event| (server.clone(), event.to_owned()))
        })
        .collect()
    }

    /// Takes in what an event about `server` tells.
    pub fn explain(&mut self, server: &str, event_id: &str, evidence: &Evidence) {
        if let Some(group) = self.servers.get_mut(server) {
            group.explain(event_id, evidence);
        }
    }

    /// Returns the notifications to show now, the worst first. Answer each one with
    /// [`NotificationList::shown`] or [`NotificationList::refused`].
    pub fn due(&mut self, now: Instant) -> Vec<Notification> {
        self.refill(now);
        if self.not_before.is_some_and(|(until, _)| now < until) {
            return Vec::new();
        }
        let mut waiting: Vec<_> = self
            .servers
            .iter()
            .filter(|(_, group)| group.is_news())
            .collect();
        waiting.sort_by_key(|(_, group)| (std::cmp::Reverse(group.severity), group.added));
        let mut tokens = self.tokens;
        let mut notifications = Vec::new();
        for (server, group) in waiting {
            let replaces = match &group.open_card {
                Some(open_card) if now - open_card.at < PAUSE => continue,
                Some(open_card) => open_card.id,
                None if tokens == 0 => continue,
                None => {
                    tokens -= 1;
                    0
                }
            };
            notifications.extend(notification(group, server, replaces, self.left_out));
        }
        self.tokens = tokens;
        notifications
    }

    /// Returns when [`NotificationList::due`] may next return something if no alert is added.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        let earliest = self
            .servers
            .values()
            .filter(|group| group.is_news())
            .map(|group| match &group.open_card {
                Some(open_card) => open_card.at + PAUSE,
                None if self.tokens > 0 => now,
                None => self.filled + REFILL,
            });
        let earliest = earliest.min()?;
        Some(
            self.not_before
                .map_or(earliest, |(until, _)| earliest.max(until)),
        )
    }

    /// Records that the notification about `server` is on the screen under this id.
    pub fn shown(&mut self, server: &str, id: u32, now: Instant) {
        self.not_before = None;
        self.left_out = 0;
        if let Some(group) = self.servers.get_mut(server) {
            group.set_shown(id, now);
        }
    }

    /// Records that the desktop refuses notifications: all wait, longer each time.
    pub fn refused(&mut self, now: Instant) {
        let wait = self
            .not_before
            .map_or(RETRY.0, |(_, wait)| (wait * 2).min(RETRY.1));
        self.not_before = Some((now + wait, wait));
        self.tokens = self.tokens.max(1);
    }

    /// Records that the person closed this notification: its server's next alert opens a new one.
    pub fn closed(&mut self, id: u32) {
        self.servers.retain(|_, group| match &group.open_card {
            Some(open_card) if open_card.id == id => {
                group.open_card = None;
                group.is_news()
            }
            _ => true,
        });
    }

    /// Returns the alert that the notification with this id tells of.
    pub fn lead(&self, id: u32) -> Option<&ExplainedAlert> {
        let open_cards = self
            .servers
            .values()
            .filter_map(|group| group.open_card.as_ref());
        open_cards
            .filter(|open_card| open_card.id == id)
            .map(|open_card| &open_card.lead)
            .next()
    }

    /// Records that the notification daemon was restarted: its old ids are no longer valid.
    pub fn desktop_restarted(&mut self) {
        self.not_before = None;
        for group in self.servers.values_mut() {
            group.open_card = None;
        }
        self.servers.retain(|_, group| group.is_news());
    }

    fn refill(&mut self, now: Instant) {
        while self.tokens < BURST && now - self.filled >= REFILL {
            self.tokens += 1;
            self.filled += REFILL;
        }
        if self.tokens == BURST {
            self.filled = now;
        }
    }
}

fn notification(group: &Group, server: &str, replaces: u32, left_out: u64) -> Option<Notification> {
    let (summary, mut lines, lead) = group.card(server)?;
    if left_out > 0 {
        lines.push(format!(
            "{left_out} alerts about other servers: see mcpinspect events"
        ));
    }
    Some(Notification {
        server: server.to_owned(),
        replaces,
        severity: group.severity,
        summary,
        lines,
        lead: lead.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(server: &str, title: &str, severity: Severity) -> Alert {
        Alert {
            event_id: "1-1".to_owned(),
            kind: "mcp_detection".to_owned(),
            severity,
            server: server.to_owned(),
            title: title.to_owned(),
        }
    }

    fn show(list: &mut NotificationList, now: Instant) -> Vec<Notification> {
        let notifications = list.due(now);
        for notification in &notifications {
            let id = if notification.replaces == 0 {
                u32::try_from(notification.server.len()).unwrap()
            } else {
                notification.replaces
            };
            list.shown(&notification.server, id, now);
        }
        notifications
    }

    #[test]
    fn alerts_about_one_server_share_a_notification() {
        let now = Instant::now();
        let mut list = NotificationList::new(now);
        list.add(alert("files", "one", Severity::Medium), now);
        let notifications = show(&mut list, now);
        assert_eq!(
            (notifications[0].summary.as_str(), notifications[0].replaces),
            ("one", 0)
        );
        assert_eq!(list.wake(now), None);
        for title in ["two", "three", "three"] {
            list.add(alert("files", title, Severity::High), now);
        }
        assert!(show(&mut list, now).is_empty(), "no update without a pause");
        let later = list.wake(now).unwrap();
        assert_eq!(later, now + PAUSE);
        let notifications = show(&mut list, later);
        assert_eq!(notifications[0].summary, "4 alerts about files");
        assert_eq!(notifications[0].lines, ["one", "two", "three"]);
        assert_eq!(
            (notifications[0].replaces, notifications[0].severity),
            (5, Severity::High)
        );
    }

    #[test]
    fn a_flood_is_slowed_and_the_worst_comes_first() {
        let mut now = Instant::now();
        let mut list = NotificationList::new(now);
        for number in 0..20 {
            list.add(
                alert(&format!("server-{number:02}"), "t", Severity::Low),
                now,
            );
        }
        list.add(alert("worst", "t", Severity::Critical), now);
        let first = show(&mut list, now);
        assert_eq!(first.len(), 4);
        assert_eq!(first[0].server, "worst");
        assert_eq!(list.wake(now), Some(now + REFILL));
        let mut shown = first.len();
        for _ in 0..17 {
            now = list.wake(now).unwrap();
            shown += show(&mut list, now).len();
        }
        assert_eq!(shown, 21);
        assert_eq!(list.wake(now), None);
        now += REFILL * 100;
        list.add(alert("a", "t", Severity::Low), now);
        assert_eq!(show(&mut list, now).len(), 1);
        assert_eq!(list.tokens, BURST - 1, "the bucket has a rim");
    }

    #[test]
    fn memory_is_bounded_and_omitted_alerts_are_counted() {
        let now = Instant::now();
        let mut list = NotificationList::new(now);
        for number in 0..1000 {
            list.add(alert(&format!("{number}"), "t", Severity::Low), now);
        }
        assert_eq!(list.servers.len(), MAX_SERVERS);
        let notifications = list.due(now);
        assert_eq!(
            notifications[0].lines[1..],
            ["936 alerts about other servers: see mcpinspect events"]
        );
    }

    #[test]
    fn a_refusing_desktop_is_asked_less_and_less_and_loses_nothing() {
        let mut now = Instant::now();
        let mut list = NotificationList::new(now);
        list.add(alert("files", "one", Severity::High), now);
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert_eq!(list.due(now).len(), 1);
            list.refused(now);
            assert!(list.due(now).is_empty());
            let next = list.wake(now).unwrap();
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(show(&mut list, now)[0].summary, "one");
    }

    #[test]
    fn the_next_run_goes_on_with_the_cards() {
        let now = Instant::now();
        let mut list = NotificationList::new(now);
        list.add(alert("files", "one", Severity::High), now);
        list.add(alert("gone", "one", Severity::High), now);
        let event = serde_json::json!({"server_id": "files", "tool_name": "read", "new_hash": "b",
            "detections": [], "changes": [{"field": "title", "previous": "a", "new": "b"}]});
        list.explain("files", "1-1", &Evidence::of(&event));
        show(&mut list, now);
        list.closed(4);
        list.add(alert("waits", "two", Severity::Low), now);

        let saved = serde_json::to_vec(&list.saved()).unwrap();
        let mut list = NotificationList::new(now);
        list.take_over(crate::handover::read(saved.as_slice()), now);
        let lead = list.lead(5).unwrap();
        let evidence = lead.evidence.as_ref().unwrap();
        assert_eq!(evidence.definition.as_ref().unwrap().hash, "b");
        assert_eq!(evidence.details, ["title was: a", "title is now: b"]);
        let again = show(&mut list, now + PAUSE);
        let again: Vec<_> = again
            .iter()
            .map(|one| (one.server.as_str(), one.replaces, one.lines.as_slice()))
            .collect();
        let told = ["Differs from its pin: title", "Severity: high"].map(str::to_owned);
        let waited = ["Severity: low".to_owned()];
        assert_eq!(
            again,
            [("files", 5, &told[..]), ("waits", 0, &waited[..])],
            "where it was, as it was; what waited is shown"
        );
        assert!(list.due(now + PAUSE * 2).is_empty());
    }

    #[test]
    fn closed_notifications_and_restarted_desktops_start_anew() {
        let now = Instant::now();
        let mut list = NotificationList::new(now);
        list.add(alert("files", "one", Severity::High), now);
        show(&mut list, now);
        assert_eq!(list.lead(5).unwrap().alert.title, "one");
        list.closed(5);
        assert!(list.lead(5).is_none());
        list.add(alert("files", "two", Severity::High), now);
        let notifications = show(&mut list, now);
        assert_eq!(
            (notifications[0].summary.as_str(), notifications[0].replaces),
            ("two", 0)
        );
        list.desktop_restarted();
        list.add(alert("files", "three", Severity::High), now);
        assert_eq!(show(&mut list, now)[0].replaces, 0);
        let much_later = now + FORGET * 2;
        list.add(alert("files", "four", Severity::High), much_later);
        assert_eq!(show(&mut list, much_later)[0].summary, "four");
    }
}
