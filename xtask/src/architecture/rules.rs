//! The rules as data: which crates are checked, and what each module must avoid.

/// A crate of this repository.
pub(super) struct Source {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// Its root file.
    pub(super) root: &'static str,
    pub(super) boundaries: &'static [Boundary],
}

/// Modules that must not reach certain crates: neither by name nor through a file they depend on.
pub(super) struct Boundary {
    pub(super) modules: &'static [&'static str],
    pub(super) crates: &'static [&'static str],
    pub(super) reason: &'static str,
}

/// Every crate whose modules must not depend on each other in a circle.
pub(super) const SOURCES: &[Source] = &[
    Source {
        name: "mcpinspectd",
        root: "mcpinspectd/src/lib.rs",
        boundaries: LIBRARY,
    },
    Source {
        name: "bin/mcpinspectd",
        root: "mcpinspectd/src/main.rs",
        boundaries: &[],
    },
    Source {
        name: "bin/mcpinspect",
        root: "mcpinspectd/src/bin/mcpinspect/main.rs",
        boundaries: &[],
    },
    Source {
        name: "bin/mcpinspect-notify",
        root: "mcpinspectd/src/bin/mcpinspect-notify/main.rs",
        boundaries: &[],
    },
    Source {
        name: "mcpinspect-common",
        root: "mcpinspect-common/src/lib.rs",
        boundaries: &[],
    },
    Source {
        name: "mcpinspectd-ebpf",
        root: "mcpinspectd-ebpf/src/main.rs",
        boundaries: &[],
    },
    Source {
        name: "xtask",
        root: "xtask/src/main.rs",
        boundaries: &[],
    },
];

const LIBRARY: &[Boundary] = &[
    Boundary {
        modules: &["capture"],
        crates: &["serde_json"],
        reason: "capture knows the kernel, and nothing of JSON",
    },
    Boundary {
        modules: &[
            "model", "wire", "http", "mcp", "session", "registry", "detect", "engine", "event",
            "policy", "text",
        ],
        crates: &[
            "aya", "aya_log", "aya_obj", "clap", "rusqlite", "tokio", "zbus",
        ],
        reason: "the core runs without kernel, bus, command line, database and runtime",
    },
];
