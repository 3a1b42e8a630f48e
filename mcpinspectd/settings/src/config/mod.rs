//! `/etc/mcpinspectd/config.toml`.
//!
//! The daemon works without any configuration, so every setting has a default, and a file holds
//! only what differs. A mistake in it is an error and not a warning: a misspelt `exclude` that is
//! silently ignored watches a user who was promised otherwise. The message names the file, the line
//! and the allowed values.
//!
//! - here: the settings, their defaults and how they are read
//! - [`approvals`]: whose approvals count
//! - [`size`]: sizes such as `16MiB`
//! - [`tags`]: which processes are always watched, or never

use std::path::{Path, PathBuf};

use mcpinspect_core::model::ContainmentAction;
use mcpinspect_core::model::{HookChoice, TlsChoice};
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_engine::retention::{Retention, RetentionRule, RetentionRules, StoredContent};
use mcpinspect_engine::{ApprovalRule, AutoApproval, Vendor};
use mcpinspect_judge::registry::{RegistryLimits, Sharing};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

pub mod approvals;
pub mod size;
pub mod tags;

pub use approvals::Approvals;
pub use size::ByteSize;
use tags::UserId;
pub use tags::{Tag, TagAction, Tags};

/// The default path of the configuration.
pub const DEFAULT_PATH: &str = "/etc/mcpinspectd/config.toml";

/// Largest configuration file, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What the probes copy.
    pub capture: Capture,
    /// Which processes are watched.
    pub discover: Discover,
    /// Where events go.
    pub events: Events,
    /// What is remembered about tools.
    pub registry: Registry,
    /// Which signed lists of approved definitions count.
    pub approvals: Approvals,
    /// What is recorded of messages.
    pub store: Store,
    /// What findings lead to without a person's decision.
    pub contain: Contain,
    /// The rules to check against each message.
    pub policy: PolicySection,
    /// Counters for monitoring systems.
    pub metrics: Metrics,
    /// Bounds on memory.
    pub limits: Limits,
}

/// What the probes copy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// Size of the ring between kernel and daemon: a power of two from 64 KiB to 1 GiB.
    #[serde(deserialize_with = "size::ring")]
    pub ring_size: ByteSize,
    /// How many bytes of a stream, at each end, may pass before deciding whether it is MCP: 4 KiB to
    /// 16 MiB.
    #[serde(deserialize_with = "size::budget")]
    pub sniff_budget: ByteSize,
    /// Largest message to keep whole: 64 KiB to 1 GiB. A larger one becomes an event and a gap.
    #[serde(deserialize_with = "size::message")]
    pub max_message: ByteSize,
    /// Whether large messages wait in files until they are whole, so that they do not take memory.
    pub spill: bool,
    /// Type information (BTF) of the running kernel, if it does not provide its own.
    pub btf: Option<PathBuf>,
    /// How system calls are hooked.
    pub hook: HookChoice,
    /// Whether a stream's two ends are compared, so that a server cannot rewrite what it sent.
    pub compare_ends: bool,
    /// Whether MCP over HTTP is watched too.
    pub http: bool,
    /// Whether that includes HTTP encrypted by TLS, and in which processes. Not in all by default: every process that
    /// calls a TLS library pays for it, including those that have nothing to do with MCP.
    pub tls: TlsChoice,
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            ring_size: ByteSize(8 << 20),
            sniff_budget: ByteSize(4 << 20),
            max_message: ByteSize(64 << 20),
            spill: true,
            btf: None,
            hook: HookChoice::Auto,
            compare_ends: true,
            http: true,
            tls: TlsChoice::default(),
        }
    }
}

/// Which processes are watched.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Discover {
    /// Decisions made without looking at the bytes; the first tag that matches counts.
    pub tag: Vec<Tag>,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Events {
    /// To the systemd journal, if the machine has one.
    pub journal: bool,
    /// To the system bus as signals of `org.mcpinspect1`, if the machine has one.
    pub dbus: bool,
    /// As JSON lines to a file, or to standard output (`-`).
    pub jsonl: Option<PathBuf>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            journal: true,
            dbus: true,
            jsonl: None,
        }
    }
}

/// What is remembered about tools.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registry {
    /// The database of pinned tools.
    pub path: PathBuf,
    /// The users who share one set of pins, by name or id; `*` means all. None by default: each
    /// user has their own pins.
    #[serde(deserialize_with = "sharing")]
    pub share_pins: Sharing,
    /// Most tools, instructions, server information and programs to pin for one user: 256 to 65,536.
    #[serde(deserialize_with = "size::items")]
    pub items_per_user: usize,
    /// Most bytes of definitions to keep for one user: 1 MiB to 1 GiB. Beyond that, definitions are
    /// pinned by their hashes.
    #[serde(deserialize_with = "size::definitions")]
    pub bytes_per_user: ByteSize,
    /// Which changes are accepted without a person. None by default.
    pub auto_approve: Vec<AutoApprove>,
}

/// Accepts changes of some servers without a person. A change with findings is never accepted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoApprove {
    /// The servers, as a glob over their names.
    server: tags::Glob,
    /// The user that they run as, by name or id; every user by default.
    #[serde(default, deserialize_with = "user")]
    user: Option<u32>,
    /// `same`: only while the program comes from the package or file that was accepted. `any`: whatever
    /// the program.
    #[serde(default)]
    vendor: Vendor,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            path: PathBuf::from("/var/lib/mcpinspectd/registry.db"),
            share_pins: Sharing::default(),
            items_per_user: 8192,
            bytes_per_user: ByteSize(64 << 20),
            auto_approve: Vec::new(),
        }
    }
}

fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    UserId::deserialize(deserializer).map(|UserId(uid)| Some(uid))
}

fn sharing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sharing, D::Error> {
    let mut sharing = Sharing::default();
    for user in Vec::<toml::Value>::deserialize(deserializer)? {
        match user.as_str() {
            Some("*") => sharing.everyone = true,
            _ => {
                let UserId(uid) = UserId::deserialize(user).map_err(D::Error::custom)?;
                sharing.users.insert(uid);
            }
        }
    }
    Ok(sharing)
}

/// What is recorded of messages.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// Whether messages are recorded at all.
    pub enabled: bool,
    /// The database; by default `messages.db` beside the registry.
    pub path: Option<PathBuf>,
    /// How much of each message to keep.
    pub content: StoredContent,
    /// Bytes that the database may take: 16 MiB to 1 TiB. Beyond that, the oldest messages go.
    #[serde(deserialize_with = "size::store")]
    pub max_size: ByteSize,
    /// Days after which messages go: 1 to 3650.
    #[serde(deserialize_with = "size::days")]
    pub days: u32,
    /// Exceptions for some servers and users; the first that matches counts.
    pub rule: Vec<StoreRule>,
}

/// What is recorded of some servers' messages.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreRule {
    /// The servers, as a glob over their names; all by default.
    #[serde(default)]
    server: Option<tags::Glob>,
    /// The user that they run as, by name or id; every user by default.
    #[serde(default, deserialize_with = "user")]
    user: Option<u32>,
    /// How much of each message to keep.
    #[serde(default)]
    content: Option<StoredContent>,
    /// Days after which messages go: 1 to 3650.
    #[serde(default, deserialize_with = "size::some_days")]
    days: Option<u32>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            enabled: true,
            path: None,
            content: StoredContent::Redacted,
            max_size: ByteSize(1 << 30),
            days: 30,
            rule: Vec::new(),
        }
    }
}

/// What findings lead to without a person's decision. By default, nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Contain {
    /// After a finding that asks for blocking.
    pub on_block: Response,
    /// After a finding of critical severity.
    pub on_critical: Response,
}

/// The rules to check against each message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// Whether they are checked.
    pub enabled: bool,
    /// The file, or the directory with `*.toml` files, that they are in.
    pub path: PathBuf,
}

impl Default for PolicySection {
    fn default() -> Self {
        Self {
            enabled: true,
            path: PathBuf::from(mcpinspect_judge::policy::DIRECTORY),
        }
    }
}

/// Counters for monitoring systems.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// The file to write them to, in Prometheus' text format; without it, none is written.
    pub file: Option<PathBuf>,
    /// Seconds between two writes: 1 to 3600.
    #[serde(deserialize_with = "size::seconds")]
    pub every: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            file: None,
            every: 15,
        }
    }
}

impl Contain {
    /// Returns the policy that this section describes.
    pub fn policy(&self) -> ContainmentPolicy {
        ContainmentPolicy::new(self.on_block.measure(), self.on_critical.measure())
    }
}

/// What to do with a server after a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// Report it, and leave the server running.
    #[default]
    Nothing,
    /// Stop its processes until a person thaws them.
    Freeze,
    /// End its processes.
    Kill,
}

impl Response {
    /// Returns the action to take on the server, if any.
    pub fn measure(self) -> Option<ContainmentAction> {
        match self {
            Self::Nothing => None,
            Self::Freeze => Some(ContainmentAction::Freeze),
            Self::Kill => Some(ContainmentAction::Kill),
        }
    }
}

/// Bounds on memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Unanswered requests to remember per session: 16 to 1,000,000. Beyond that the oldest is
    /// dropped, and its answer is reported without its request.
    #[serde(deserialize_with = "size::requests")]
    pub requests_in_flight: usize,
    /// Sessions to follow at one time: 1 to 100,000. Further ones are not followed, but counted and
    /// logged.
    #[serde(deserialize_with = "size::sessions")]
    pub sessions: usize,
    /// Seconds without an answer or progress after which a call counts as hung: 1 to 86,400.
    #[serde(deserialize_with = "size::call_timeout")]
    pub call_timeout: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_in_flight: 16_384,
            sessions: 4096,
            call_timeout: 60,
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {reason}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        reason: std::io::Error,
    },
    /// The file exceeds the size limit.
    #[error("{}: is larger than {MAX_FILE} bytes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// The text is not a valid configuration.
    #[error("{}:{line}: {reason}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// Line of the mistake, counted from 1.
        line: usize,
        /// What is wrong, and what is allowed.
        reason: String,
    },
}

impl Config {
    /// Reads the named file; without a name, the default path, or the defaults if that file does not
    /// exist.
    pub fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        let path = named.unwrap_or(Path::new(DEFAULT_PATH));
        match read(path) {
            Ok(text) => Self::parse(&text, path),
            Err(ConfigError::Unreadable { reason, .. })
                if named.is_none() && reason.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(Self::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the text of a file; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.as_bytes().get(..start).unwrap_or_default();
            ConfigError::Wrong {
                path: path.to_owned(),
                line: 1 + memchr::memchr_iter(b'\n', before).count(),
                reason: error.message().replace('\n', " "),
            }
        })
    }

    /// Returns the sections in which `other` differs by settings that only a restart can change.
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            capture,
            discover: _,
            events,
            registry,
            approvals: _,
            store,
            contain: _,
            policy: _,
            metrics,
            limits,
        } = self;
        [
            ("capture", *capture != other.capture),
            ("events", *events != other.events),
            (
                "registry",
                Registry {
                    auto_approve: Vec::new(),
                    ..registry.clone()
                } != Registry {
                    auto_approve: Vec::new(),
                    ..other.registry.clone()
                },
            ),
            ("store", *store != other.store),
            ("metrics", *metrics != other.metrics),
            ("limits", *limits != other.limits),
        ]
        .into_iter()
        .filter_map(|(section, differs)| differs.then_some(section))
        .collect()
    }

    /// How much the registry keeps.
    pub fn registry_limits(&self) -> RegistryLimits {
        RegistryLimits {
            items_of_one: self.registry.items_per_user,
            bytes_of_one: self.registry.bytes_per_user.0,
            ..RegistryLimits::default()
        }
    }

    /// The database of messages.
    pub fn messages_path(&self) -> PathBuf {
        let beside = || self.registry.path.with_file_name("messages.db");
        self.store.path.clone().unwrap_or_else(beside)
    }

    /// How much is kept of which messages.
    pub fn keeping(&self) -> RetentionRules {
        let rules = self.store.rule.iter();
        RetentionRules {
            default: Retention {
                content: self.store.content,
                days: self.store.days,
            },
            rules: rules
                .map(|rule| RetentionRule {
                    server: rule.server.as_ref().map(|glob| glob.matcher().clone()),
                    user: rule.user,
                    content: rule.content,
                    days: rule.days,
                })
                .collect(),
        }
    }

    /// Which changes are accepted without a person.
    pub fn approval(&self) -> AutoApproval {
        let rules = self.registry.auto_approve.iter();
        AutoApproval {
            rules: rules
                .map(|rule| ApprovalRule {
                    servers: rule.server.matcher().clone(),
                    user: rule.user,
                    vendor: rule.vendor,
                })
                .collect(),
        }
    }

    /// The tags, ready for matching.
    pub fn tags(&self) -> Tags {
        Tags::new(self.discover.tag.clone())
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    use std::io::Read as _;
    let unreadable = |reason| ConfigError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(ConfigError::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
