use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mcpinspect_judge::registry::Standing;

use super::*;
use crate::control::{Caller, ToolForm};
use crate::status::ViewLimits;

/// Counts the questions that reach it, and takes its time to answer.
#[derive(Default)]
struct Counter {
    asked: AtomicUsize,
    at_once: AtomicUsize,
    most: AtomicUsize,
}

fn refused<T>() -> Result<T, ControlError> {
    Err(ControlError::Failed("not in this test".to_owned()))
}

impl Control for Counter {
    fn status(&self) -> Result<CaptureStatus, ControlError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        Ok(CaptureStatus::default())
    }

    fn decide(&self, _: Decision, _: Caller) -> Result<(), ControlError> {
        refused()
    }

    fn check_tools(
        &self,
        _: Option<u32>,
        _: &str,
        _: Vec<ToolForm>,
    ) -> Result<Vec<Option<Standing>>, ControlError> {
        refused()
    }

    fn contain(&self, _: &str, _: ContainmentAction, _: u32) -> Result<Contained, ControlError> {
        refused()
    }
}

#[test]
fn any_number_of_questions_reaches_the_pipeline_one_at_a_time() {
    let counter = Arc::new(Counter::default());
    let control: Arc<dyn Control> = counter.clone();
    let view = Arc::new(View::new(&ViewLimits::default()));
    let manager = Manager::new(view, Some(control));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let begun = Instant::now();
    let callers: Vec<_> = (0..200)
        .map(|_| {
            let manager = manager.clone();
            runtime.spawn(async move { manager.status().await.unwrap() })
        })
        .collect();
    for caller in callers {
        runtime.block_on(caller).unwrap();
    }
    let intervals = begun.elapsed().as_nanos() / STATUS_FRESH.as_nanos();
    let asked = counter.asked.load(Ordering::SeqCst);
    assert!(asked as u128 <= intervals + 1, "{asked}");
    assert_eq!(counter.most.load(Ordering::SeqCst), 1);
}
