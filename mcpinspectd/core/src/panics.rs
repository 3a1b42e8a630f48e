//! Panics: what they say, and how one of them is kept from ending the process.
//!
//! A panic is a fault of this program. Its message often quotes what was being examined (a string that was
//! cut in the middle of a character, for example), which may be hostile or secret, so only its location is
//! told: that is what a report of the fault needs.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe, Location, PanicHookInfo, catch_unwind};
use std::thread;

/// The line of the program that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicLocation(Box<str>);

impl PanicLocation {
    fn of(location: Option<&Location<'_>>) -> Self {
        Self(location.map_or_else(|| "an unknown place".into(), |at| at.to_string().into()))
    }
}

impl fmt::Display for PanicLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

thread_local! {
    /// What this thread is doing about panics.
    static WATCH: RefCell<Watch> = const { RefCell::new(Watch::None) };
}

enum Watch {
    /// Nothing: a panic is reported.
    None,
    /// [`isolate`] waits for one.
    Waits,
    /// One happened there.
    Caught(PanicLocation),
}

/// Runs `work`. If it panics, returns where, and prints nothing.
///
/// What `work` changes must still be sound if it stops in the middle. The location is known once a
/// [`set_hook`] was called.
///
/// # Errors
/// `work` panicked.
pub fn isolate<T>(work: impl FnOnce() -> T) -> Result<T, PanicLocation> {
    let outer = WATCH.replace(Watch::Waits);
    let result = catch_unwind(AssertUnwindSafe(work));
    let watch = WATCH.replace(outer);
    result.map_err(|_| match watch {
        Watch::Caught(location) => location,
        Watch::None | Watch::Waits => PanicLocation::of(None),
    })
}

/// From now on, [`isolate`] learns locations, and any other panic of this process goes to `report`.
pub fn set_hook(report: impl Fn(&PanicHookInfo<'_>) + Send + Sync + 'static) {
    panic::set_hook(Box::new(move |panic| {
        if !record(panic) {
            report(panic);
        }
    }));
}

/// Records the location of a panic if [`isolate`] waits for one.
fn record(panic: &PanicHookInfo<'_>) -> bool {
    let waits = WATCH.try_with(|watch| {
        let Ok(mut watch) = watch.try_borrow_mut() else {
            return false;
        };
        let waits = !matches!(*watch, Watch::None);
        if waits {
            *watch = Watch::Caught(PanicLocation::of(panic.location()));
        }
        waits
    });
    // A thread that is ending isolates nothing.
    waits.unwrap_or(false)
}

/// Logs a panic without quoting anything.
pub fn log(panic: &PanicHookInfo<'_>) {
    tracing::error!("{}", description(panic));
}

/// Prints a panic on standard error, without quoting anything.
pub fn print(panic: &PanicHookInfo<'_>) {
    // Without a reader, there is nothing left to do.
    let _ = writeln!(io::stderr(), "{}", description(panic));
}

fn description(panic: &PanicHookInfo<'_>) -> String {
    // A message without values in it is a part of the program.
    let message = panic.payload().downcast_ref::<&'static str>();
    format!(
        "panicked at {} in thread {}{}{}; this is a bug, please report it",
        PanicLocation::of(panic.location()),
        thread::current().name().unwrap_or("without a name"),
        if message.is_some() { ": " } else { "" },
        message.unwrap_or(&""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::take_hook;
    use std::sync::Once;

    /// Other tests of this process go on as if nothing was set.
    fn set() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| set_hook(take_hook()));
    }

    #[test]
    fn a_panic_is_isolated_and_its_location_known() {
        set();
        let text = "a\u{c90d}b";
        let failed = isolate(|| text.get(2..).unwrap().len()).unwrap_err();
        assert!(failed.to_string().contains("panics.rs"), "{failed}");
        assert_eq!(isolate(|| 7), Ok(7));
    }

    #[test]
    fn isolation_may_nest() {
        set();
        let outer = isolate(|| {
            assert!(isolate(|| panic!("one")).is_err());
            panic!("two");
        });
        assert!(outer.unwrap_err().to_string().contains("panics.rs"));
        assert!(isolate(|| ()).is_ok());
    }
}
