//! Which build this is: what a bug report must say.
//!
//! The builder passes the commit in the environment of the programs' own compilation, not this
//! library's: a new commit then costs a link and not a full build.

/// The target that this was built for, such as `x86_64-unknown-linux-gnu`.
pub const TARGET: &str = env!("MCPINSPECT_TARGET");

/// Version, commit where it is known, and target: `0.1.0 (1a2b3c4d5e6f, x86_64-unknown-linux-gnu)`.
#[must_use]
pub fn version(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit}, {TARGET})"),
        None => format!("{version} ({TARGET})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_a_commit_says_none() {
        assert_eq!(version(None), version(Some("")));
        assert!(version(None).ends_with(&format!("({TARGET})")));
        assert!(version(Some("1a2b3c")).contains(" (1a2b3c, "));
    }
}
