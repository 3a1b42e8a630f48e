//! Which sessions a tap shows.

use globset::{GlobBuilder, GlobMatcher};
use mcpinspect_core::model::{Pid, ServerId};

/// Conditions that must all hold; none admits everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    server: Option<GlobMatcher>,
    pid: Option<Pid>,
}

impl Filter {
    /// A filter for servers whose name matches a glob, and for sessions of one process, either the
    /// server or the client.
    ///
    /// # Errors
    /// The glob is invalid.
    pub fn new(server: Option<&str>, pid: Option<Pid>) -> Result<Self, globset::Error> {
        let server = server
            .map(|glob| GlobBuilder::new(glob).case_insensitive(true).build())
            .transpose()?
            .map(|glob| glob.compile_matcher());
        Ok(Self { server, pid })
    }

    /// Returns whether everything is admitted.
    pub fn is_empty(&self) -> bool {
        self.server.is_none() && self.pid.is_none()
    }

    /// Returns whether a session is shown, given what is known about it.
    pub fn admits(&self, server: Option<&ServerId>, parties: [Option<Pid>; 2]) -> bool {
        let server_fits = self
            .server
            .as_ref()
            .is_none_or(|glob| server.is_some_and(|server| glob.is_match(&*server.0)));
        server_fits && self.pid.is_none_or(|pid| parties.contains(&Some(pid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let id = ServerId("filesystem#ab12".into());
        let admits = |server: Option<&str>, pid: Option<u32>| {
            let filter = Filter::new(server, pid.map(Pid)).unwrap();
            assert_eq!(filter.is_empty(), server.is_none() && pid.is_none());
            filter.admits(Some(&id), [Some(Pid(7)), None])
        };
        assert!(admits(None, None));
        assert!(admits(Some("file*"), None));
        assert!(admits(Some("FILE*"), None));
        assert!(!admits(Some("file"), None));
        assert!(admits(None, Some(7)));
        assert!(!admits(None, Some(8)));
        assert!(!admits(Some("git"), Some(7)));
        assert!(Filter::new(Some("[x"), None).is_err());
        let server_only = Filter::new(Some("*"), None).unwrap();
        assert!(!server_only.admits(None, [None, None]));
    }
}
