//! Copies what the engine says to a bounded queue, for a consumer of its own, such as a store.
//!
//! Events are few and small, messages are neither: copying each costs memory and time. So nothing is
//! copied unless a consumer takes messages (see [`Pipeline::with_messages`](super::Pipeline::with_messages)),
//! and what does not fit in the queue is only counted. The pipeline never waits for the
//! consumer.

use mcpinspect_engine::{
    MAX_BODY, MessageKind, MessageRecord, MessageSeen, Output, OutputSink, Overdue, Record,
};
use mcpinspect_runtime::queue::{Bounds, LossReport, Receiver, Sender, bounded};

/// Both ends of a queue of messages; `bounds` counts the bytes that [`MessageQueue::weight`] returns. The receiver
/// learns of dropped messages at the place where they are missing.
pub fn message_queue(bounds: Bounds) -> (MessageQueue, Receiver<Record>) {
    let (queue, receiver) = bounded(bounds, LossReport::InPlace);
    let messages = MessageQueue {
        queue,
        batch_fits: false,
    };
    (messages, receiver)
}

/// The output that copies to the queue: each message, each batch as a whole and then its members, and
/// overdue requests and events in order. Dropping a batch drops its members too.
#[derive(Debug)]
pub struct MessageQueue {
    queue: Sender<Record>,
    /// Whether the last message was a batch that fit.
    batch_fits: bool,
}

impl MessageQueue {
    /// Bytes of a message to copy, and of the strings about it. A member of a batch has no bytes of its
    /// own.
    pub fn weight(seen: &MessageSeen<'_>, is_member: bool) -> usize {
        let words = [
            seen.head.method.as_deref(),
            seen.head.id.as_deref(),
            seen.exchange.reply_to(),
            seen.exchange.tool.as_deref(),
        ];
        let words: usize = words.into_iter().flatten().map(str::len).sum();
        match is_member {
            true => words,
            false if seen.bytes.len() > MAX_BODY => words,
            false => words + seen.bytes.len(),
        }
    }
}

impl OutputSink for MessageQueue {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                let fits = self.queue.offer(Self::weight(message, false), || {
                    Record::Message(MessageRecord::message(message))
                });
                self.batch_fits = fits && message.head.kind == MessageKind::Batch;
            }
            Output::Member(member) => {
                let weight = Self::weight(member, true);
                if self.batch_fits {
                    self.queue
                        .offer(weight, || Record::Message(MessageRecord::member(member)));
                } else {
                    self.queue.refuse(weight);
                }
            }
            Output::Overdue(overdue) => {
                self.queue
                    .offer(size_of::<Overdue>(), || Record::Overdue(overdue.clone()));
            }
            Output::Event(event) => {
                self.queue
                    .offer(event.body.size(), || Record::Event(Box::new(event.clone())));
            }
            Output::Judged(..) => {}
        }
    }
}

#[cfg(test)]
mod tests;
