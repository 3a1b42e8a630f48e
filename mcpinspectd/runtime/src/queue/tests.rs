use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const ANY: usize = usize::MAX;

fn pair(items: usize, bytes: usize, report: LossReport) -> (Sender<u32>, Receiver<u32>) {
    bounded(Bounds { items, bytes }, report)
}

/// The waiting items, without the end.
fn drain(receiver: &mut Receiver<u32>) -> Vec<Received<u32>> {
    let waiting = || receiver.0.lock().take();
    std::iter::from_fn(waiting).collect()
}

fn dropped(items: u64, bytes: u64) -> Received<u32> {
    Received::Dropped(Dropped { items, bytes })
}

#[test]
fn a_loss_is_told_where_items_are_missing() {
    let (sender, mut receiver) = pair(2, ANY, LossReport::InPlace);
    let offered: Vec<bool> = (1..=4).map(|item| sender.offer(10, || item)).collect();
    assert_eq!(offered, [true, true, false, false]);
    assert_eq!(receiver.blocking_recv(), Some(Received::Item(1)));
    assert!(sender.offer(10, || 5));
    assert!(!sender.offer(7, || 6));
    drop(sender);
    let rest: Vec<_> = std::iter::from_fn(|| receiver.blocking_recv()).collect();
    let expected = [
        Received::Item(2),
        dropped(2, 20),
        Received::Item(5),
        dropped(1, 7),
    ];
    assert_eq!(rest, expected);
}

#[test]
fn or_ahead_of_everything_that_waits() {
    let (sender, mut receiver) = pair(2, ANY, LossReport::First);
    for item in 1..=3 {
        sender.offer(10, || item);
    }
    let waiting = [dropped(1, 10), Received::Item(1), Received::Item(2)];
    assert_eq!(drain(&mut receiver), waiting);
    // Reported once.
    assert!(sender.offer(10, || 4));
    assert_eq!(drain(&mut receiver), [Received::Item(4)]);
    assert_eq!(
        sender.dropped(),
        Dropped {
            items: 1,
            bytes: 10
        }
    );
}

#[test]
fn bytes_are_bounded_and_a_large_item_waits_alone() {
    let (sender, mut receiver) = pair(ANY, 100, LossReport::InPlace);
    let sizes = [99, 1, 1];
    let fits: Vec<bool> = sizes.map(|bytes| sender.offer(bytes, || 0)).into();
    assert_eq!(fits, [true, true, false]);
    drain(&mut receiver);
    let sizes = [101, 1];
    let fits: Vec<bool> = sizes.map(|bytes| sender.offer(bytes, || 0)).into();
    assert_eq!(fits, [true, false]);
    drain(&mut receiver);
    assert!(sender.offer(100, || 0), "all bytes were given back");
}

#[test]
fn what_does_not_fit_is_not_made() {
    let (sender, _receiver) = pair(0, ANY, LossReport::InPlace);
    assert!(sender.offer(0, || 1), "there is room for one at least");
    sender.offer(0, || panic!("made for nothing"));
}

#[test]
fn a_reader_that_has_left_loses_everything() {
    let (sender, mut receiver) = pair(ANY, ANY, LossReport::InPlace);
    let item = Arc::new(());
    let (holding, unread) = bounded(sender.0.bounds, LossReport::InPlace);
    holding.offer(1, || Arc::clone(&item));
    drop(unread);
    assert_eq!(Arc::strong_count(&item), 1, "what waited is freed");
    assert!(!holding.offer(1, || Arc::clone(&item)));
    assert_eq!(holding.dropped(), Dropped { items: 1, bytes: 1 });

    sender.close();
    assert!(!sender.offer(1, || 2));
    assert_eq!(sender.dropped(), Dropped::default(), "over is not lost");
    assert!(receiver.is_closed());
    assert_eq!(receiver.blocking_recv(), None);
}

#[test]
fn what_is_refused_counts_as_dropped() {
    let (sender, mut receiver) = pair(ANY, ANY, LossReport::InPlace);
    sender.refuse(3);
    sender.offer(1, || 1);
    assert_eq!(drain(&mut receiver), [dropped(1, 3), Received::Item(1)]);
}

#[test]
fn a_sleeping_reader_wakes_for_items_wishes_and_the_end() {
    let (sender, mut receiver) = pair(ANY, ANY, LossReport::InPlace);
    let (answers, heard) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        while let Some(received) = receiver.blocking_recv() {
            answers.send(received).unwrap();
        }
    });
    sender.offer(1, || 1);
    assert_eq!(heard.recv().unwrap(), Received::Item(1));
    sender.wake();
    assert_eq!(heard.recv().unwrap(), Received::Woken);
    sender.refuse(1);
    assert_eq!(heard.recv().unwrap(), dropped(1, 1));
    drop(sender);
    reader.join().unwrap();
}

#[tokio::test]
async fn so_does_a_waiting_task() {
    let (sender, mut receiver) = pair(ANY, ANY, LossReport::InPlace);
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(received) = receiver.recv().await {
            all.push(received);
        }
        all
    });
    for item in 0..3 {
        sender.offer(1, || item);
        tokio::task::yield_now().await;
    }
    drop(sender);
    assert_eq!(reader.await.unwrap(), [0, 1, 2].map(Received::Item));
}

#[test]
fn a_queue_that_was_long_gives_its_memory_back() {
    let (sender, mut receiver) = pair(ANY, ANY, LossReport::InPlace);
    for item in 0..10_000 {
        sender.offer(1, || item);
    }
    assert_eq!(drain(&mut receiver).len(), 10_000);
    assert!(sender.0.lock().waiting.capacity() <= KEPT_CAPACITY);
}

#[derive(Clone, Debug)]
enum Step {
    Offer(usize),
    Refuse(usize),
    Take,
}

proptest! {
    /// Against a list of everything: what is read is what was offered, in order, with each loss in
    /// its place and none left out.
    #[test]
    fn every_item_is_either_read_or_counted_in_its_place(
        items in 1_usize..5,
        bytes in 1_usize..40,
        steps in proptest::collection::vec(prop_oneof![
            3 => (0_usize..30).prop_map(Step::Offer),
            1 => (0_usize..30).prop_map(Step::Refuse),
            3 => Just(Step::Take),
        ], 0..200),
    ) {
        let (sender, mut receiver) = pair(items, bytes, LossReport::InPlace);
        // Sizes of everything, and how much of it was read.
        let mut all = Vec::new();
        let mut read = 0;
        let mut waiting = VecDeque::new();
        let mut take = |receiver: &mut Receiver<u32>, all: &[usize], waiting: &mut VecDeque<usize>| {
            match drain_one(receiver) {
                Some(Received::Item(item)) => {
                    assert_eq!(item as usize, read, "the next that was not dropped");
                    waiting.pop_front();
                    read += 1;
                }
                Some(Received::Dropped(lost)) => {
                    let missing = &all[read..read + usize::try_from(lost.items).unwrap()];
                    assert_eq!(missing.iter().sum::<usize>() as u64, lost.bytes);
                    read += missing.len();
                }
                Some(Received::Woken) => panic!("nobody woke it"),
                None => return false,
            }
            true
        };
        for step in steps {
            match step {
                Step::Offer(size) => {
                    let number = u32::try_from(all.len()).unwrap();
                    let used: usize = waiting.iter().sum();
                    let fits = waiting.len() < items && (used == 0 || used + size <= bytes);
                    prop_assert_eq!(sender.offer(size, || number), fits);
                    all.push(size);
                    if fits {
                        waiting.push_back(size);
                    }
                }
                Step::Refuse(size) => {
                    sender.refuse(size);
                    all.push(size);
                }
                Step::Take => {
                    take(&mut receiver, &all, &mut waiting);
                }
            }
        }
        while take(&mut receiver, &all, &mut waiting) {}
        prop_assert_eq!(read, all.len());
        prop_assert!(waiting.is_empty());
    }
}

fn drain_one(receiver: &mut Receiver<u32>) -> Option<Received<u32>> {
    receiver.0.lock().take()
}

#[test]
fn a_wait_ends_with_an_item_the_end_or_its_time() {
    let (sender, mut receiver) = bounded(
        Bounds {
            items: 2,
            bytes: 10,
        },
        LossReport::InPlace,
    );
    let soon = || Instant::now() + Duration::from_millis(5);
    assert_eq!(receiver.recv_until(soon()), Arrival::Late);
    sender.offer(1, || 7);
    assert_eq!(
        receiver.recv_until(soon()),
        Arrival::Received(Received::Item(7))
    );
    let thread = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        sender.offer(1, || 8);
    });
    let later = Instant::now() + Duration::from_secs(20);
    assert_eq!(
        receiver.recv_until(later),
        Arrival::Received(Received::Item(8))
    );
    thread.join().unwrap();
    assert_eq!(receiver.recv_until(later), Arrival::Closed);
}

#[test]
fn what_is_gathered_is_enough_in_time_or_all() {
    const WANTED: Bounds = Bounds {
        items: 3,
        bytes: 100,
    };
    let later = Instant::now() + Duration::from_secs(60);
    let bounds = Bounds {
        items: 100,
        bytes: 1000,
    };
    // Each of these ends the wait; anything less does not.
    let enough: [fn(&Sender<u32>); 4] = [
        |sender| (0..3).for_each(|item| assert!(sender.offer(1, || item))),
        |sender| assert!(sender.offer(100, || 0)),
        Sender::wake,
        Sender::close,
    ];
    for enough in enough {
        let (sender, mut receiver) = bounded(bounds, LossReport::InPlace);
        sender.offer(1, || 7);
        receiver.gather(WANTED, Instant::now() + Duration::from_millis(5));
        let ended = thread::scope(|scope| {
            let waiting = scope.spawn(|| receiver.gather(WANTED, later));
            while sender.0.lock().sleeping.is_none() {
                thread::yield_now();
            }
            sender.offer(1, || 8);
            assert!(sender.0.lock().sleeping.is_some(), "two are not enough");
            enough(&sender);
            waiting.join()
        });
        ended.unwrap();
        assert_eq!(receiver.blocking_recv(), Some(Received::Item(7)));
    }
    // More than half of the queue is not waited for.
    let (sender, mut receiver) = bounded(Bounds { items: 2, ..bounds }, LossReport::InPlace);
    sender.offer(1, || 7);
    receiver.gather(WANTED, later);
}
