//! The accounts of ended streams.

use std::collections::VecDeque;

use mcpinspect_core::model::{Account, StreamLedger};

/// The accounts of ended streams: the latest individually, and the sum of all.
#[derive(Debug)]
pub struct ClosedAccounts {
    latest: VecDeque<StreamLedger>,
    max: usize,
    sum: Account,
}

impl ClosedAccounts {
    /// An empty list, which will keep up to `max` accounts individually.
    pub fn new(max: usize) -> Self {
        Self {
            latest: VecDeque::new(),
            max,
            sum: Account::default(),
        }
    }

    /// Adds the account of a stream that has ended.
    pub fn add(&mut self, account: StreamLedger) {
        self.sum.written += account.bytes_written;
        self.sum.captured += account.bytes_captured;
        self.sum.lost += account.bytes_lost;
        if self.latest.len() == self.max {
            self.latest.pop_front();
        }
        if self.max > 0 {
            self.latest.push_back(account);
        }
    }

    /// The latest accounts, oldest first.
    pub fn latest(&mut self) -> &[StreamLedger] {
        self.latest.make_contiguous()
    }

    /// The sum of all accounts.
    pub fn sum(&self) -> Account {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::{Direction, SessionId};

    use super::*;

    #[test]
    fn the_latest_accounts_are_kept_and_all_are_summed() {
        for max in [0, 1, 3, 10] {
            let mut accounts = ClosedAccounts::new(max);
            for number in 1..=5 {
                accounts.add(StreamLedger {
                    session_id: SessionId("s".into()),
                    direction: Direction::ClientToServer,
                    bytes_written: 10 * number,
                    bytes_read: 10 * number,
                    bytes_captured: 9 * number,
                    bytes_lost: number,
                });
            }
            let lost: Vec<u64> = accounts
                .latest()
                .iter()
                .map(|account| account.bytes_lost)
                .collect();
            assert_eq!(lost, [1, 2, 3, 4, 5][5 - max.min(5)..]);
            let sum = Account {
                written: 150,
                captured: 135,
                lost: 15,
            };
            assert_eq!(accounts.sum(), sum);
        }
    }
}
