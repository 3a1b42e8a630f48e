//! Who sent a journal file's entries.
//!
//! An entry's host is what that host calls itself. systemd-journal-remote names its files after the sender: with
//! TLS, after the name in the client's certificate, which the sender cannot choose. So if files are named
//! after certificates, an entry that names another host was made up by the holder of the certificate.

use std::path::Path;

use super::entry::shown;

/// The sender of the entries in a file such as `remote-oslo.journal`; `None` if the name does not say.
pub fn of_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix("remote-")?;
    // A rotated file has an id and a time after its name.
    let end = name.rfind('@').or_else(|| name.rfind(".journal"))?;
    let name = name.get(..end).filter(|name| !name.is_empty())?;
    Some(shown(name).into_owned())
}

/// Whether a host of this name may be the sender: the names are equal, or one is the other without its domain.
pub fn is_from(sender: &str, host: &str) -> bool {
    let is_short = |short: &str, long: &str| {
        let first = long.split('.').next().unwrap_or_default();
        !short.contains('.') && short.eq_ignore_ascii_case(first)
    };
    sender.eq_ignore_ascii_case(host) || is_short(sender, host) || is_short(host, sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders() {
        let of = |name: &str| of_file(&Path::new("/var/log/journal/remote").join(name));
        assert_eq!(of("remote-oslo.journal").as_deref(), Some("oslo"));
        assert_eq!(
            of("remote-oslo.example.com@0011-22-33.journal").as_deref(),
            Some("oslo.example.com")
        );
        assert_eq!(of("remote-oslo@0011-22.journal~").as_deref(), Some("oslo"));
        for other in ["system.journal", "remote-.journal", "remote-oslo.json"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn names_with_and_without_domains() {
        assert!(is_from("oslo", "Oslo"));
        assert!(is_from("oslo.example.com", "oslo"));
        assert!(is_from("oslo", "oslo.example.com"));
        for (sender, host) in [
            ("oslo", "berlin"),
            ("oslo.example.com", "oslo.example.org"),
            ("oslo", "oslo2"),
            ("oslo", ""),
        ] {
            assert!(!is_from(sender, host), "{sender} {host}");
        }
    }
}
