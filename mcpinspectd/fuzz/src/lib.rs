//! What the fuzz targets share: their entry point.
//!
//! `cargo xtask fuzz` and `cargo fuzz run TARGET` instrument the code and follow its coverage; that is for a
//! search that takes a while. Built as usual, the same targets are plain programs, which run for some seconds on
//! inputs pieced together from samples, or on the files named to them. They need no other tool, and show that a
//! target still compiles and passes.

pub use arbitrary;

#[cfg(fuzzing)]
pub use libfuzzer_sys::fuzz_target;

#[cfg(not(fuzzing))]
mod inputs;
#[cfg(not(fuzzing))]
pub mod plain;

/// Defines a target, as the macro of the same name in `libfuzzer_sys` does.
#[cfg(not(fuzzing))]
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        fn main() -> std::process::ExitCode {
            $crate::plain::run(|$input: &[u8]| $body)
        }
    };
    (|$input:ident: $kind:ty| $body:block) => {
        fn main() -> std::process::ExitCode {
            $crate::plain::run(|bytes: &[u8]| {
                let bytes = $crate::arbitrary::Unstructured::new(bytes);
                let input = <$kind as $crate::arbitrary::Arbitrary>::arbitrary_take_rest(bytes);
                if let Ok($input) = input {
                    $body
                }
            })
        }
    };
}
