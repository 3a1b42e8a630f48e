//! What stands on the screen: one card per server, and not too many at a time.
//!
//! An agent that pops up a hundred alerts is one that people switch off, and a server that floods
//! must not bury another's alert. So alerts about one server share a card that is updated in place,
//! a new card needs a token from a slowly filling bucket, and an update needs a pause since the
//! last one. What has to wait is not lost: the card says how many alerts there were.
//!
//! No clock, no bus: time comes in as a value, cards go out as values.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use mcpinspectd::model::Severity;

use crate::alert::Alert;

/// Cards that may pop up at once.
const BURST: u32 = 4;
/// Then one more each:
const REFILL: Duration = Duration::from_secs(15);
/// Least time between two updates of a card.
const PAUSE: Duration = Duration::from_secs(2);
/// A card that nothing was added to for so long is left alone; the next alert gets a new one.
const FORGET: Duration = Duration::from_secs(600);
/// Alerts that a card quotes.
const QUOTED: usize = 5;
/// Most servers that have a card or wait for one.
const MOST: usize = 64;
/// First wait after the desktop refused a card, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A card to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The server it is about.
    pub server: String,
    /// The notification to take the place of; zero for none.
    pub replaces: u32,
    /// The worst of its alerts.
    pub severity: Severity,
    /// Its heading.
    pub summary: String,
    /// Its lines, the latest last.
    pub lines: Vec<String>,
    /// The latest of its alerts: what the card's buttons are about.
    pub latest: Alert,
}

#[derive(Debug)]
struct Group {
    latest: Alert,
    severity: Severity,
    count: u64,
    titles: VecDeque<String>,
    added: Instant,
    /// Something was added since it was shown.
    changed: bool,
    shown: Option<(u32, Instant)>,
}

/// All the cards.
#[derive(Debug)]
pub struct Board {
    groups: BTreeMap<String, Group>,
    tokens: u32,
    filled: Instant,
    /// The desktop refused; not before then.
    not_before: Option<(Instant, Duration)>,
    left_out: u64,
}

impl Board {
    /// An empty board.
    pub fn new(now: Instant) -> Self {
        Self {
            groups: BTreeMap::new(),
            tokens: BURST,
            filled: now,
            not_before: None,
            left_out: 0,
        }
    }

    /// Adds an alert to its server's card.
    pub fn add(&mut self, alert: Alert, now: Instant) {
        self.groups
            .retain(|_, group| group.changed || now - group.added < FORGET);
        if !self.groups.contains_key(&alert.server) && self.groups.len() >= MOST {
            let settled = self.groups.iter().filter(|(_, group)| !group.changed);
            let oldest = settled
                .min_by_key(|(_, group)| group.added)
                .map(|(name, _)| name.clone());
            match oldest {
                Some(name) => drop(self.groups.remove(&name)),
                None => {
                    self.left_out += 1;
                    return;
                }
            }
        }
        let group = self
            .groups
            .entry(alert.server.clone())
            .or_insert_with(|| Group {
                latest: alert.clone(),
                severity: alert.severity,
                count: 0,
                titles: VecDeque::new(),
                added: now,
                changed: true,
                shown: None,
            });
        group.count += 1;
        group.severity = group.severity.max(alert.severity);
        if group.titles.back() != Some(&alert.title) {
            group.titles.push_back(alert.title.clone());
            group.titles.truncate_front_to(QUOTED);
        }
        group.latest = alert;
        group.added = now;
        group.changed = true;
    }

    /// The cards to show now, the worst first. Each is to be answered by [`Board::shown`] or
    /// [`Board::refused`].
    pub fn due(&mut self, now: Instant) -> Vec<Card> {
        self.refill(now);
        if self.not_before.is_some_and(|(until, _)| now < until) {
            return Vec::new();
        }
        let mut waiting: Vec<_> = self
            .groups
            .iter()
            .filter(|(_, group)| group.changed)
            .collect();
        waiting.sort_by_key(|(_, group)| (std::cmp::Reverse(group.severity), group.added));
        let mut tokens = self.tokens;
        let mut cards = Vec::new();
        for (server, group) in waiting {
            let replaces = match group.shown {
                Some((_, at)) if now - at < PAUSE => continue,
                Some((id, _)) => id,
                None if tokens == 0 => continue,
                None => {
                    tokens -= 1;
                    0
                }
            };
            cards.push(group.card(server, replaces, self.left_out));
        }
        self.tokens = tokens;
        cards
    }

    /// When [`Board::due`] may next have something, if nothing is added; `None` for never.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        let earliest = self
            .groups
            .values()
            .filter(|group| group.changed)
            .map(|group| match group.shown {
                Some((_, at)) => at + PAUSE,
                None if self.tokens > 0 => now,
                None => self.filled + REFILL,
            });
        let earliest = earliest.min()?;
        Some(
            self.not_before
                .map_or(earliest, |(until, _)| earliest.max(until)),
        )
    }

    /// The card about `server` is on the screen under this id.
    pub fn shown(&mut self, server: &str, id: u32, now: Instant) {
        self.not_before = None;
        self.left_out = 0;
        if let Some(group) = self.groups.get_mut(server) {
            group.shown = Some((id, now));
            group.changed = false;
        }
    }

    /// The desktop does not take cards now: everything waits, longer each time.
    pub fn refused(&mut self, now: Instant) {
        let wait = self
            .not_before
            .map_or(RETRY.0, |(_, wait)| (wait * 2).min(RETRY.1));
        self.not_before = Some((now + wait, wait));
        self.tokens = self.tokens.max(1);
    }

    /// The person has closed this card: the next alert about its server gets a new one.
    pub fn closed(&mut self, id: u32) {
        self.groups.retain(|_, group| match group.shown {
            Some((shown, _)) if shown == id => {
                group.shown = None;
                group.changed
            }
            _ => true,
        });
    }

    /// The latest alert of the card with this id.
    pub fn latest(&self, id: u32) -> Option<&Alert> {
        let group = self
            .groups
            .values()
            .find(|group| group.shown.is_some_and(|(i, _)| i == id))?;
        Some(&group.latest)
    }

    /// The notification daemon was restarted: its ids mean nothing any more.
    pub fn screen_cleared(&mut self) {
        self.not_before = None;
        for group in self.groups.values_mut() {
            group.shown = None;
        }
        self.groups.retain(|_, group| group.changed);
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

impl Group {
    fn card(&self, server: &str, replaces: u32, left_out: u64) -> Card {
        let mut lines: Vec<_> = self.titles.iter().cloned().collect();
        let summary = if self.count == 1 {
            lines = vec![format!("Severity: {}", self.severity.as_str())];
            self.latest.title.clone()
        } else {
            format!(
                "{} alerts about {}",
                self.count,
                if server.is_empty() {
                    "mcpinspectd"
                } else {
                    server
                }
            )
        };
        if left_out > 0 {
            lines.push(format!(
                "{left_out} alerts about other servers: see mcpinspect events"
            ));
        }
        Card {
            server: server.to_owned(),
            replaces,
            severity: self.severity,
            summary,
            lines,
            latest: self.latest.clone(),
        }
    }
}

trait TruncateFront {
    fn truncate_front_to(&mut self, most: usize);
}

impl<T> TruncateFront for VecDeque<T> {
    fn truncate_front_to(&mut self, most: usize) {
        let excess = self.len().saturating_sub(most);
        self.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
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

    fn show(board: &mut Board, now: Instant) -> Vec<Card> {
        let cards = board.due(now);
        for card in &cards {
            let id = if card.replaces == 0 {
                u32::try_from(card.server.len()).unwrap()
            } else {
                card.replaces
            };
            board.shown(&card.server, id, now);
        }
        cards
    }

    #[test]
    fn alerts_about_one_server_share_a_card() {
        let now = Instant::now();
        let mut board = Board::new(now);
        board.add(alert("files", "one", Severity::Medium), now);
        let cards = show(&mut board, now);
        assert_eq!((cards[0].summary.as_str(), cards[0].replaces), ("one", 0));
        assert_eq!(board.wake(now), None);
        for title in ["two", "three", "three"] {
            board.add(alert("files", title, Severity::High), now);
        }
        assert!(
            show(&mut board, now).is_empty(),
            "no update without a pause"
        );
        let later = board.wake(now).unwrap();
        assert_eq!(later, now + PAUSE);
        let cards = show(&mut board, later);
        assert_eq!(cards[0].summary, "4 alerts about files");
        assert_eq!(cards[0].lines, ["one", "two", "three"]);
        assert_eq!((cards[0].replaces, cards[0].severity), (5, Severity::High));
    }

    #[test]
    fn a_flood_is_slowed_and_the_worst_comes_first() {
        let mut now = Instant::now();
        let mut board = Board::new(now);
        for number in 0..20 {
            board.add(
                alert(&format!("server-{number:02}"), "t", Severity::Low),
                now,
            );
        }
        board.add(alert("worst", "t", Severity::Critical), now);
        let first = show(&mut board, now);
        assert_eq!(first.len(), 4);
        assert_eq!(first[0].server, "worst");
        assert_eq!(board.wake(now), Some(now + REFILL));
        let mut shown = first.len();
        for _ in 0..17 {
            now = board.wake(now).unwrap();
            shown += show(&mut board, now).len();
        }
        assert_eq!(shown, 21);
        assert_eq!(board.wake(now), None);
        now += REFILL * 100;
        board.add(alert("a", "t", Severity::Low), now);
        assert_eq!(show(&mut board, now).len(), 1);
        assert_eq!(board.tokens, BURST - 1, "the bucket has a rim");
    }

    #[test]
    fn memory_is_bounded_and_what_is_left_out_is_said() {
        let now = Instant::now();
        let mut board = Board::new(now);
        for number in 0..1000 {
            board.add(alert(&format!("{number}"), "t", Severity::Low), now);
        }
        assert_eq!(board.groups.len(), MOST);
        let cards = board.due(now);
        assert_eq!(
            cards[0].lines[1..],
            ["936 alerts about other servers: see mcpinspect events"]
        );
        for number in 0..1000 {
            board.add(alert("0", &format!("title {number}"), Severity::Low), now);
        }
        assert_eq!(board.groups["0"].titles.len(), QUOTED);
    }

    #[test]
    fn a_refusing_desktop_is_asked_less_and_less_and_loses_nothing() {
        let mut now = Instant::now();
        let mut board = Board::new(now);
        board.add(alert("files", "one", Severity::High), now);
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert_eq!(board.due(now).len(), 1);
            board.refused(now);
            assert!(board.due(now).is_empty());
            let next = board.wake(now).unwrap();
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(show(&mut board, now)[0].summary, "one");
    }

    #[test]
    fn closed_cards_and_restarted_screens_start_anew() {
        let now = Instant::now();
        let mut board = Board::new(now);
        board.add(alert("files", "one", Severity::High), now);
        show(&mut board, now);
        assert_eq!(board.latest(5).unwrap().title, "one");
        board.closed(5);
        assert!(board.latest(5).is_none());
        board.add(alert("files", "two", Severity::High), now);
        let cards = show(&mut board, now);
        assert_eq!((cards[0].summary.as_str(), cards[0].replaces), ("two", 0));
        board.screen_cleared();
        board.add(alert("files", "three", Severity::High), now);
        assert_eq!(show(&mut board, now)[0].replaces, 0);
        let much_later = now + FORGET * 2;
        board.add(alert("files", "four", Severity::High), much_later);
        assert_eq!(show(&mut board, much_later)[0].summary, "four");
    }
}
