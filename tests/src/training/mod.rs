//! The examples to which the model of what sentences ask is fitted, and the fit.
//!
//! Training (`cargo xtask train`) and evaluation (`cargo xtask eval`) share them: to measure how the model does on
//! an author or a language that it has not seen, the evaluation fits it again without those.

pub mod examples;
pub mod fit;
