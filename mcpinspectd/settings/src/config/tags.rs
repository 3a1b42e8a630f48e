//! Tags: which processes are always watched, and which never.
//!
//! Without tags the daemon decides by the bytes of a stream. A tag decides by the process at its
//! server's end: `watch` for a server whose bytes would not be recognised, `exclude` for one that must
//! stay private. All of a tag's conditions must hold; the first tag that matches counts.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use mcpinspect_process::ProcessSnapshot;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// Largest compiled regular expression, in bytes.
const MAX_REGEX: usize = 1024 * 1024;

/// What a tag is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagAction {
    /// Treat its standard input and output as MCP, whatever the bytes.
    Watch,
    /// Do not watch it.
    Exclude,
}

/// One tag: an action and at least one condition.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawTag")]
pub struct Tag {
    action: TagAction,
    exe: Option<Glob>,
    command: Option<Pattern>,
    user: Option<u32>,
    cgroup: Option<Glob>,
    server: Option<Glob>,
}

/// A tag as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTag {
    /// `watch` or `exclude`.
    action: TagAction,
    /// Path of the executable, as a glob: `*` stays within a directory, `**` does not.
    exe: Option<Glob>,
    /// The command line, arguments joined by blanks, as a regular expression.
    command: Option<Pattern>,
    /// Its user, by name or number.
    user: Option<UserId>,
    /// Its cgroup path, as a glob.
    cgroup: Option<Glob>,
    /// The name that a client's configuration gives the server, as a glob.
    server: Option<Glob>,
}

impl TryFrom<RawTag> for Tag {
    type Error = &'static str;

    fn try_from(raw: RawTag) -> Result<Self, Self::Error> {
        let RawTag {
            action,
            exe,
            command,
            user,
            cgroup,
            server,
        } = raw;
        if exe.is_none()
            && command.is_none()
            && user.is_none()
            && cgroup.is_none()
            && server.is_none()
        {
            return Err(
                "a tag needs at least one of `exe`, `command`, `user`, `cgroup`, `server`; without any it would match every process",
            );
        }
        Ok(Self {
            action,
            exe,
            command,
            user: user.map(|UserId(uid)| uid),
            cgroup,
            server,
        })
    }
}

/// The tags in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tags {
    tags: Vec<Tag>,
}

impl Tags {
    /// Compiles the tags.
    pub fn new(tags: Vec<Tag>) -> Self {
        Self { tags }
    }

    /// Returns whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Returns the action for a process, or `None` if no tag matches. `server_name` is called at most
    /// once, and only if a tag asks for the name in a client's configuration.
    pub fn decide(
        &self,
        process: &ProcessSnapshot,
        server_name: impl FnOnce() -> Option<String>,
    ) -> Option<TagAction> {
        let mut ask = Some(server_name);
        let mut name: Option<String> = None;
        let fits = |tag: &&Tag| {
            tag.fits_process(process)
                && tag.server.as_ref().is_none_or(|glob| {
                    if let Some(ask) = ask.take() {
                        name = ask();
                    }
                    name.as_deref().is_some_and(|name| glob.is_match(name))
                })
        };
        self.tags.iter().find(fits).map(|tag| tag.action)
    }
}

impl Tag {
    fn fits_process(&self, process: &ProcessSnapshot) -> bool {
        self.user.is_none_or(|uid| uid == process.uid)
            && self
                .exe
                .as_ref()
                .is_none_or(|glob| glob.is_match(&process.exe))
            && self
                .cgroup
                .as_ref()
                .is_none_or(|glob| glob.is_match(&process.cgroup))
            && self
                .command
                .as_ref()
                .is_none_or(|pattern| pattern.0.is_match(&process.argv.join(" ")))
    }
}

/// A glob over paths and names.
#[derive(Clone)]
pub(super) struct Glob(GlobMatcher);

impl Glob {
    pub(super) fn matcher(&self) -> &GlobMatcher {
        &self.0
    }

    fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.0.glob() == other.0.glob()
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.glob().glob().fmt(f)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        GlobBuilder::new(&text)
            .literal_separator(true)
            .build()
            .map(|glob| Self(glob.compile_matcher()))
            .map_err(D::Error::custom)
    }
}

/// A regular expression; matching takes time linear in the text.
#[derive(Clone)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_str().fmt(f)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        RegexBuilder::new(&text)
            .size_limit(MAX_REGEX)
            .build()
            .map(Self)
            .map_err(|error| {
                // The whole message draws the expression over several lines.
                let message = error.to_string();
                let last = message.lines().last().unwrap_or_default();
                let reason = last.trim_start_matches("error: ");
                D::Error::custom(format!("invalid regular expression `{text}`: {reason}"))
            })
    }
}

/// A user; one given by name must be known to this machine.
pub(super) struct UserId(pub(super) u32);

impl<'de> Deserialize<'de> for UserId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a user's name or number")]
        enum Raw {
            Number(u32),
            Name(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(uid) => Ok(Self(uid)),
            Raw::Name(name) => match nix::unistd::User::from_name(&name) {
                Ok(Some(user)) => Ok(Self(user.uid.as_raw())),
                Ok(None) => Err(D::Error::custom(format!("no such user: {name}"))),
                Err(error) => Err(D::Error::custom(format!(
                    "cannot look up user `{name}`: {error}"
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Pid;

    use super::*;

    fn tags(text: &str) -> Tags {
        let text = text.replace("[[tag]]", "[[discover.tag]]");
        crate::config::Config::parse(&text, "x".as_ref())
            .unwrap()
            .tags()
    }

    fn process() -> ProcessSnapshot {
        ProcessSnapshot {
            pid: Pid(7),
            start_time: 1,
            parent: Pid(1),
            name: "node".to_owned(),
            exe: "/opt/agent/bin/node".to_owned(),
            exe_deleted: false,
            argv: ["node", "/opt/agent/server.js", "--token", "x"]
                .map(str::to_owned)
                .to_vec(),
            cwd: None,
            uid: 1000,
            cgroup: "/user.slice/user-1000.slice/app.scope".to_owned(),
        }
    }

    fn decide(text: &str) -> Option<TagAction> {
        tags(text).decide(&process(), || Some("github".to_owned()))
    }

    #[test]
    fn each_condition_by_itself() {
        for (condition, fits) in [
            ("exe = '/opt/*/bin/node'", true),
            ("exe = '/opt/*/node'", false),
            ("exe = '/opt/**/node'", true),
            ("exe = 'node'", false),
            ("command = 'server\\.js --token'", true),
            ("command = '^server'", false),
            ("user = 1000", true),
            ("user = 0", false),
            ("user = 'root'", false),
            ("cgroup = '/user.slice/**'", true),
            ("cgroup = '/system.slice/**'", false),
            ("server = 'git*'", true),
            ("server = 'lab*'", false),
        ] {
            let expected = fits.then_some(TagAction::Exclude);
            assert_eq!(
                decide(&format!("[[tag]]\naction = 'exclude'\n{condition}")),
                expected,
                "{condition}"
            );
        }
    }

    #[test]
    fn all_conditions_must_hold_and_the_first_tag_counts() {
        let both = "[[tag]]\naction = 'watch'\nuser = 1000\nexe = '/bin/x'\n";
        assert_eq!(decide(both), None);
        let second = format!("{both}[[tag]]\naction = 'exclude'\nuser = 1000\n");
        assert_eq!(decide(&second), Some(TagAction::Exclude));
        let first = format!("[[tag]]\naction = 'watch'\nserver = 'github'\n{second}");
        assert_eq!(decide(&first), Some(TagAction::Watch));
        assert_eq!(decide(""), None);
        assert!(tags("").is_empty());
    }

    #[test]
    fn the_name_is_asked_for_only_where_it_matters() {
        let unasked = tags("[[tag]]\naction = 'exclude'\nuser = 0\nserver = 'x'\n");
        assert_eq!(
            unasked.decide(&process(), || unreachable!("not needed")),
            None
        );
        let mut asked = 0;
        let twice = tags(
            "[[tag]]\naction = 'exclude'\nserver = 'x'\n[[tag]]\naction = 'watch'\nserver = 'y'\n",
        );
        let action = twice.decide(&process(), || {
            asked += 1;
            Some("y".to_owned())
        });
        assert_eq!((action, asked), (Some(TagAction::Watch), 1));
    }
}
