//! What is over, and what is forgotten.
//!
//! Nothing tells that a pipe is gone. A session looks over when a reader saw the end of its stream
//! or when one of its parties exited; it is over when nobody holds the server's side any more and
//! all that was sent has been read or can no longer be. That takes a look at who holds what, which
//! costs a walk through the process table, so it is done only when something looks over, and now
//! and then for what went unnoticed.

use std::collections::HashMap;
use std::hash::Hash;

use mcpinspect_common::{End, EndpointKey, EndpointKind};

use super::carrying::OwnedPiece;
use super::environment::Environment;
use super::stream::{Fate, SessionIndex, Stream};
use super::tracker::Tracker;
use crate::capture::Origin;
use crate::model::InputSink;
use crate::model::{Account, Input, StreamLedger};
use crate::process::fds::{Holder, Holders, InodeKey};

/// How long a session looks over before it is looked at, so that a launcher can hand over.
const CLOSING_PATIENCE: u64 = 50_000_000;
/// How long bytes that were counted may take to arrive before they are given up.
const ARRIVAL_PATIENCE: u64 = 2_000_000_000;
/// How long the reader's word that a stream is over may take to arrive after the reader is gone.
const LAST_WORD_PATIENCE: u64 = 300_000_000;
/// How often everything known is checked against the process table.
pub(super) const SWEEP_INTERVAL: u64 = 3_000_000_000;
/// How long a stream must have been still before its ends are compared.
const STILL: u64 = 1_000_000_000;

impl<E: Environment> Tracker<E> {
    /// Lets time pass. To be called about ten times a second, when all records so far are taken in.
    pub fn tick(&mut self, now: u64, feed: &mut impl InputSink) {
        self.open_waiting(now, feed);
        self.settle(now, feed);
        self.settle_ends(now, feed);
        self.compare_counts(now, feed);
        let unpaired: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.to_server.is_none() || session.to_client.is_none())
            .map(|(index, _)| *index)
            .collect();
        for index in unpaired {
            self.complete(index, feed);
        }
        let closing: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, session)| {
                session
                    .closing_since
                    .is_some_and(|since| now.saturating_sub(since) > CLOSING_PATIENCE)
            })
            .map(|(index, _)| *index)
            .collect();
        let sweep = now >= self.next_sweep && !(self.streams.is_empty() && self.peers.is_empty());
        if closing.is_empty() && !sweep {
            return;
        }
        let holders = self.environment.holders();
        for index in closing {
            self.close_if_over(index, &holders, now, feed);
        }
        if sweep {
            self.sweep(&holders, now, feed);
            self.next_sweep = now + SWEEP_INTERVAL;
        }
    }

    /// Ends all sessions: the daemon stops. All records must have been taken in.
    pub fn finish(&mut self, now: u64, feed: &mut impl InputSink) {
        let mut indices: Vec<_> = self.sessions.keys().copied().collect();
        indices.sort_unstable();
        for index in indices {
            self.end(index, "monitoring_stopped", now, feed);
        }
    }

    /// The accounts of all ended sessions since the start, the oldest dropped where there are too
    /// many.
    pub fn ledger(&mut self) -> &[StreamLedger] {
        self.ended.make_contiguous()
    }

    /// What all sessions' streams carried since the start, those under way included.
    pub fn account(&self) -> Account {
        let mut sum = self.closed;
        for (key, stream) in &self.streams {
            if let Fate::Carried(flow) = &stream.fate {
                sum.written += self.counted(*key).0;
                sum.captured += flow.reassembly.captured();
                sum.lost += flow.reassembly.lost();
            }
        }
        sum
    }

    fn settle(&mut self, now: u64, feed: &mut impl InputSink) {
        let waiting: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, stream)| {
                matches!(&stream.fate, Fate::Carried(flow) if flow.reassembly.is_waiting())
            })
            .map(|(key, _)| *key)
            .collect();
        for key in waiting {
            self.pieces_of(key, "ring_full", now, feed, |flow, mut emit| {
                flow.reassembly.settle(now, &mut emit);
            });
        }
    }

    fn pieces_of(
        &mut self,
        key: EndpointKey,
        reason: &'static str,
        now: u64,
        feed: &mut impl InputSink,
        ask: impl FnOnce(&mut super::stream::Flow, &mut dyn FnMut(crate::wire::reassembly::Piece<'_>)),
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let mut pieces = Vec::new();
        ask(flow, &mut |piece| pieces.push(OwnedPiece::from(piece)));
        self.hand_on(key, pieces, reason, now, feed);
    }

    /// What was counted at the two ends of a stream: bytes written, bytes read.
    pub(super) fn counted(&self, key: EndpointKey) -> (u64, u64) {
        let position = |endpoint: Option<EndpointKey>, end: End| {
            endpoint
                .and_then(|endpoint| self.environment.counters(endpoint))
                .map_or(0, |counters| counters.position[end as usize])
        };
        let stream = self.streams.get(&key);
        let written_at = stream.and_then(|stream| stream.written_at);
        let counted_twice = stream.map_or(0, |stream| stream.counted_twice);
        let read = position(Some(key), End::Reader);
        let written = position(written_at, End::Writer).saturating_sub(counted_twice);
        // What was read has been written, also by whom the probes did not follow yet.
        (written.max(read), read)
    }

    /// Corrects the writer's count if it is too high by `excess` for one reason alone: a write was
    /// under way while the stream was registered. Its bytes lay in the stream already and were
    /// counted as unread, and were counted again when the call returned. Gives whether it was so.
    fn is_counted_twice(&mut self, key: EndpointKey, excess: u64) -> bool {
        let Some(stream) = self.streams.get_mut(&key) else {
            return false;
        };
        let Some(counters) = stream
            .written_at
            .and_then(|endpoint| self.environment.counters(endpoint))
        else {
            return false;
        };
        let under_way = counters.first_write;
        let twice = excess == under_way
            && (1..=counters.unread).contains(&under_way)
            && stream.counted_twice == 0;
        if twice {
            stream.counted_twice = under_way;
        }
        twice
    }

    /// Looks at streams that stand still: are there bytes that were counted and never came, or
    /// bytes that a reader took whom the probes do not see?
    fn compare_counts(&mut self, now: u64, feed: &mut impl InputSink) {
        let carried: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, stream)| matches!(stream.fate, Fate::Carried(_)))
            .map(|(key, _)| *key)
            .collect();
        for key in carried {
            let (written, read) = self.counted(key);
            let Some(Stream {
                fate: Fate::Carried(flow),
                ..
            }) = self.streams.get_mut(&key)
            else {
                continue;
            };
            if (flow.still.0, flow.still.1) != (written, read) {
                flow.still = (written, read, now);
                continue;
            }
            if now.saturating_sub(flow.still.2) < STILL {
                continue;
            }
            let counted = flow.counted(written, read);
            if flow.reassembly.next() < counted {
                self.pieces_of(key, "ring_full", now, feed, |flow, mut emit| {
                    flow.reassembly.finish(counted, &mut emit);
                });
            } else if flow.source == End::Reader && written > read {
                self.look_for_reader(key, written - read, now, feed);
            }
        }
    }

    /// Bytes were written and not seen being read. Where they do not wait in the stream any more,
    /// somebody reads them in a way that the probes do not see: the writer's end is used instead.
    fn look_for_reader(
        &mut self,
        key: EndpointKey,
        missing: u64,
        now: u64,
        feed: &mut impl InputSink,
    ) {
        let holders = self.environment.holders();
        let readers: Vec<Holder> = holders
            .get(&inode(key))
            .into_iter()
            .flatten()
            .filter(|holder| holder.access.reads())
            .copied()
            .collect();
        for reader in &readers {
            self.environment.mark(reader.pid.0);
        }
        let Some(reader) = readers.first() else {
            return;
        };
        let Some(unread) = self.environment.unread(reader) else {
            return;
        };
        if unread >= missing || self.is_counted_twice(key, missing - unread) {
            return;
        }
        let reader = reader.pid.0;
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get(&key)
        else {
            return;
        };
        let index = flow.session;
        if self.use_writer(key, now, feed) {
            let origin = Origin {
                tgid: reader,
                time: now,
            };
            self.tell_blind_spot(index, "unseen_reader", origin, true, feed);
        }
    }

    fn close_if_over(
        &mut self,
        index: SessionIndex,
        holders: &Holders,
        now: u64,
        feed: &mut impl InputSink,
    ) {
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        let (to_server, to_client) = (session.to_server, session.to_client);
        let held = |key: Option<EndpointKey>, end: End| self.is_held(key, end, holders);
        let server_gone = match (to_client, to_server) {
            (Some(_), _) => !held(to_client, End::Writer),
            (None, _) => !held(to_server, End::Reader),
        };
        let since = session.closing_since.unwrap_or(now);
        let client_gone = !held(to_client, End::Reader) && !held(to_server, End::Writer);
        if !server_gone && !client_gone {
            // The descriptors went to somebody else: the session goes on until that one leaves.
            if now.saturating_sub(since) > ARRIVAL_PATIENCE
                && let Some(session) = self.sessions.get_mut(&index)
            {
                session.closing_since = None;
            }
            return;
        }
        // What is unread is still to be read by whoever holds the other end.
        let pending = [to_server, to_client].into_iter().flatten().any(|key| {
            let (written, read) = self.counted(key);
            let Some(Fate::Carried(flow)) = self.streams.get(&key).map(|stream| &stream.fate)
            else {
                return false;
            };
            let counted = flow.counted(written, read);
            let waited = now.saturating_sub(since);
            flow.reassembly.next() < counted && waited < ARRIVAL_PATIENCE
                || written > read && !flow.ended && waited < LAST_WORD_PATIENCE
                || written > read && held(Some(key), End::Reader)
        });
        if !pending {
            let reason = session.closing_reason;
            self.end(index, reason, now, feed);
        }
    }

    /// Whether anybody holds an end of a stream.
    fn is_held(&self, key: Option<EndpointKey>, end: End, holders: &Holders) -> bool {
        let Some(key) = key else { return false };
        let endpoint = match end {
            End::Reader => Some(key),
            End::Writer => self.streams.get(&key).and_then(|stream| stream.written_at),
        };
        endpoint
            .and_then(|endpoint| holders.get(&inode(endpoint)))
            .is_some_and(|holders| {
                holders.iter().any(|holder| match end {
                    End::Reader => holder.access.reads(),
                    End::Writer => holder.access.writes(),
                })
            })
    }

    /// Ends a session: what has not come is lost, its account is closed and its streams are left
    /// alone from now on.
    fn end(
        &mut self,
        index: SessionIndex,
        reason: &'static str,
        now: u64,
        feed: &mut impl InputSink,
    ) {
        self.open_at_last(index, now, feed);
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        let (id, opened) = (session.id.clone(), session.opened);
        tracing::trace!(session = %id, opened, reason, "ended");
        let streams: Vec<_> = session.streams().collect();
        for (key, direction) in streams {
            let (mut written, read) = self.counted(key);
            let drained = self.streams.get(&key).is_some_and(|stream| {
                matches!(&stream.fate, Fate::Carried(flow) if flow.ended && flow.source == End::Reader)
            });
            if drained && written > read && self.is_counted_twice(key, written - read) {
                written = read;
            }
            if read == 0 && written > 0 {
                // Nobody was seen reading it, and nobody will be.
                self.use_writer(key, now, feed);
            }
            self.pieces_of(key, "ring_full", now, feed, |flow, mut emit| {
                flow.reassembly
                    .finish(flow.counted(written, read), &mut emit);
            });
            if reason != "monitoring_stopped" {
                self.pieces_of(key, "never_read", now, feed, |flow, mut emit| {
                    flow.reassembly.finish(written, &mut emit);
                });
            }
            self.ends(key, now, feed, |ends, mut say| ends.finish(&mut say));
            let opened = opened
                || self
                    .sessions
                    .get(&index)
                    .is_some_and(|session| session.opened);
            let Some(Stream {
                fate: Fate::Carried(flow),
                ..
            }) = self.streams.get(&key)
            else {
                continue;
            };
            let ended = flow.ended;
            if opened {
                let account = StreamLedger {
                    session_id: id.clone(),
                    direction,
                    bytes_written: written,
                    bytes_read: read,
                    bytes_captured: flow.reassembly.captured(),
                    bytes_lost: flow.reassembly.lost(),
                };
                self.close_account(account);
                if reason != "monitoring_stopped" && !ended {
                    feed.input(Input::EndOfStream {
                        session: &id,
                        direction,
                        time: self.moment(now),
                    });
                }
            }
            self.ignore(key);
        }
        let opened = self
            .sessions
            .get(&index)
            .is_some_and(|session| session.opened);
        if opened {
            feed.input(Input::SessionEnded {
                session: &id,
                reason,
                time: self.moment(now),
            });
        }
        self.sessions.remove(&index);
    }

    fn close_account(&mut self, account: StreamLedger) {
        self.closed.written += account.bytes_written;
        self.closed.captured += account.bytes_captured;
        self.closed.lost += account.bytes_lost;
        if self.ended.len() == self.settings.max_accounts {
            self.ended.pop_front();
        }
        if self.settings.max_accounts > 0 {
            self.ended.push_back(account);
        }
    }

    /// Checks everything known against who holds what: ends sessions whose end went unnoticed,
    /// forgets streams that are gone, and lets idle processes go.
    fn sweep(&mut self, holders: &Holders, now: u64, feed: &mut impl InputSink) {
        let gone = |key: EndpointKey| !holders.contains_key(&inode(key));
        for session in self.sessions.values_mut() {
            let side_gone = session.streams().any(|(key, _)| gone(key));
            if side_gone {
                session.closing(now, "streams_closed");
            }
        }
        let waiting: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.closing_since.is_some_and(|since| since != now))
            .map(|(index, _)| *index)
            .collect();
        for index in waiting {
            self.close_if_over(index, holders, now, feed);
        }
        let mut dead = Vec::new();
        for (key, stream) in &mut self.streams {
            let unheld = gone(*key) && stream.written_at.is_none_or(gone);
            // A process may come and go faster than its records arrive: it has to be gone twice.
            let was_unheld = std::mem::replace(&mut stream.unheld, unheld);
            if unheld && was_unheld && !matches!(stream.fate, Fate::Carried(_)) {
                dead.push(*key);
            }
        }
        for key in dead {
            tracing::trace!(?key, "forgotten");
            self.ignore(key);
            self.streams.remove(&key);
            self.programs.forget(key);
            if EndpointKind::from_u32(key.kind) == Some(EndpointKind::UnixSocket) {
                self.peers.remove(&key);
            }
            self.environment.forget(key);
        }
        fit(&mut self.streams);
        fit(&mut self.peers);
        self.programs.fit();
        self.environment.unmark_idle();
    }
}

/// Gives back the room of a table that was much fuller once: a busy minute is no measure for the rest of
/// the year.
pub(super) fn fit<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > 4 * table.len().max(SMALL) {
        table.shrink_to(2 * table.len().max(SMALL));
    }
}

/// Entries that a table may have room for at any time.
const SMALL: usize = 64;

/// How the process table names an endpoint.
fn inode(key: EndpointKey) -> InodeKey {
    InodeKey {
        dev: u64::from(key.dev),
        ino: key.ino,
    }
}
