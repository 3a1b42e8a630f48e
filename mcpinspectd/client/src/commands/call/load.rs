//! The same request many times, to see how long the server takes.
//!
//! Requests go over one connection, several of them in flight at a time. Each is timed from when it is
//! sent to when its answer is read. A server that does not answer one in time ends the measurement.

use std::collections::HashMap;
use std::time::Duration;

use mcpinspect_core::text::human;
use serde_json::{Value, json};

use crate::connection::tree;
use crate::failure::Failure;

use super::perform::{Outcome, Session, failed, raw};
use super::request::CallRequest;

/// How long the requests took.
#[derive(Debug, Default)]
pub struct Load {
    /// Times of the answered ones, sorted.
    times: Vec<Duration>,
    /// From the first to the last.
    whole: Duration,
    failures: u64,
    /// Why the first failed.
    first_failure: Option<Failure>,
}

impl Load {
    /// Sends the request `repeat` times, `concurrency` of them at a time.
    ///
    /// # Errors
    /// It cannot be sent at all.
    pub fn measure(
        session: &mut Session<'_, '_>,
        request: &CallRequest,
        repeat: u32,
        concurrency: u32,
    ) -> Result<Self, Failure> {
        let params = session.prepared(request)?;
        let method = session.method_of(request);
        let connection = &mut session.connection;
        let mut load = Self::default();
        let mut sent = HashMap::new();
        let mut left = repeat;
        let start = connection.elapsed();
        while left > 0 || !sent.is_empty() {
            while left > 0 && sent.len() < concurrency as usize {
                let at = connection.elapsed();
                let id = connection.send(method, params.clone())?;
                sent.insert(id, at);
                left -= 1;
            }
            let ids: Vec<u64> = sent.keys().copied().collect();
            let Some(answer) = connection.wait(&ids, connection.until())? else {
                load.fail(connection.late(method));
                load.failures += sent.len() as u64 - 1;
                break;
            };
            let took = sent
                .remove(&answer.id)
                .map(|at| connection.elapsed().saturating_sub(at));
            load.times.extend(took);
            match answer.outcome {
                Ok(result) if method == "tools/call" => {
                    if let Some(failure) = failed(&tree(&result)) {
                        load.fail(failure);
                    }
                }
                Ok(_) => {}
                Err(failure) => load.fail(failure),
            }
        }
        load.whole = connection.elapsed().saturating_sub(start);
        load.times.sort_unstable();
        Ok(load)
    }

    fn fail(&mut self, failure: Failure) {
        self.failures += 1;
        self.first_failure.get_or_insert(failure);
    }

    /// The time that this share of the answers, in thousandths, did not exceed.
    fn quantile(&self, thousandths: usize) -> Duration {
        let rank = (self.times.len() * thousandths).div_ceil(1000).max(1);
        self.times.get(rank - 1).copied().unwrap_or_default()
    }

    fn rows(&self) -> [(&'static str, Duration); 6] {
        let total: Duration = self.times.iter().sum();
        let count = u32::try_from(self.times.len()).unwrap_or(u32::MAX).max(1);
        [
            ("min", self.quantile(0)),
            ("mean", total / count),
            ("p50", self.quantile(500)),
            ("p90", self.quantile(900)),
            ("p99", self.quantile(990)),
            ("max", self.quantile(1000)),
        ]
    }

    fn per_second(&self) -> f64 {
        let seconds = self.whole.as_secs_f64();
        match seconds > 0.0 {
            true => self.times.len() as f64 / seconds,
            false => 0.0,
        }
    }

    /// For programs: times in milliseconds.
    fn value(&self) -> Value {
        let mut latencies = serde_json::Map::new();
        for (name, time) in self.rows() {
            latencies.insert(name.to_owned(), json!(time.as_secs_f64() * 1e3));
        }
        json!({
            "answers": self.times.len(),
            "failures": self.failures,
            "perSecond": self.per_second(),
            "latencyMs": latencies,
        })
    }

    /// For people: a table.
    pub fn lines(&self) -> Vec<String> {
        let (answers, failures) = (self.times.len(), self.failures);
        let rate = self.per_second();
        let first = format!("{answers} answers, {failures} failures, {rate:.0} per second");
        let rows = self.rows().map(|(name, time)| {
            let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            format!("{name:<6}{}", human::duration(nanos))
        });
        std::iter::once(first).chain(rows).collect()
    }

    /// The outcome, as for one request: the times, and the first failure.
    pub fn outcome(self) -> Outcome {
        let result = raw(&self.value());
        Outcome {
            result: result.ok(),
            failure: self.first_failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let load = |count: u64| Load {
            times: (1..=count).map(Duration::from_millis).collect(),
            ..Load::default()
        };
        for (count, thousandths, expected) in [
            (100, 0, 1),
            (100, 500, 50),
            (100, 990, 99),
            (100, 1000, 100),
            (1, 500, 1),
            (3, 500, 2),
            (0, 500, 0),
        ] {
            assert_eq!(
                load(count).quantile(thousandths),
                Duration::from_millis(expected),
                "{count} {thousandths}"
            );
        }
    }
}
