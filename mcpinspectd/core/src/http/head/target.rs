//! What a request is addressed to, without secrets.

use sha2::{Digest as _, Sha256};

/// The longest path or authority that is kept, in bytes.
const MAX_PART: usize = 1024;

/// Stands for a whole request target, query included: requests to one address have the same key, and
/// it reveals nothing of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetKey(pub [u8; 16]);

impl TargetKey {
    /// The key of a target: a path and a query.
    pub fn of(target: &[u8]) -> Self {
        let digest = Sha256::digest(target);
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self(key)
    }
}

/// What a request is addressed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Host and port as named by the request, without credentials.
    pub authority: Option<Box<str>>,
    /// The path, without a query; the first 1,024 bytes.
    pub path: Option<Box<str>>,
    /// Stands for path and query.
    pub key: Option<TargetKey>,
}

impl Target {
    /// An address in any of HTTP's forms.
    pub(in crate::http) fn of(text: &[u8]) -> Self {
        let mut target = Self::default();
        target.set_target(text.trim_ascii());
        target
    }

    /// Takes in a target in any of HTTP's forms.
    pub(super) fn set_target(&mut self, target: &[u8]) {
        let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
            let start = target.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let target = match scheme {
            Some(scheme) => {
                let rest = &target[scheme.len()..];
                let path = rest.iter().position(|byte| b"/?#".contains(byte));
                let (authority, path) = rest.split_at(path.unwrap_or(rest.len()));
                self.set_authority(authority);
                path
            }
            None => target,
        };
        let end = target.iter().position(|byte| b"?#".contains(byte));
        let path = &target[..end.unwrap_or(target.len())];
        self.path = Some(part(path));
        self.key = Some(TargetKey::of(target));
    }

    /// Takes in an authority, which overrides `Host`.
    pub(super) fn set_authority(&mut self, authority: &[u8]) {
        self.authority = Some(without_credentials(authority));
    }

    /// Takes in `Host`.
    pub(super) fn set_host(&mut self, host: &[u8]) {
        if self.authority.is_none() {
            self.set_authority(host);
        }
    }
}

fn without_credentials(authority: &[u8]) -> Box<str> {
    let start = memchr::memrchr(b'@', authority).map_or(0, |at| at + 1);
    part(&authority[start..])
}

fn part(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes.get(..MAX_PART).unwrap_or(bytes)).into()
}
