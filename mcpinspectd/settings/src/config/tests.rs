use super::*;
use proptest::prelude::*;

const PACKAGED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/config.toml");

fn error(text: &str) -> String {
    Config::parse(text, Path::new("/etc/x.toml"))
        .unwrap_err()
        .to_string()
}

#[test]
fn nothing_set_means_the_defaults() {
    assert_eq!(
        Config::parse("", Path::new("x")).unwrap(),
        Config::default()
    );
}

#[test]
fn the_packaged_file_says_what_the_defaults_are() {
    let text = std::fs::read_to_string(PACKAGED).unwrap();
    assert_eq!(
        Config::parse(&text, Path::new(PACKAGED)).unwrap(),
        Config::default()
    );
    // Every setting is shown, those without a default as comments.
    for name in [
        "ring_size",
        "sniff_budget",
        "max_message",
        "btf",
        "compare_ends",
        "spill",
        "action",
        "exe",
        "command",
        "user",
        "cgroup",
        "server",
        "journal",
        "dbus",
        "jsonl",
        "path",
        "vendor",
        "share_pins",
        "items_per_user",
        "bytes_per_user",
        "keys",
        "enabled",
        "content",
        "max_size",
        "days",
        "call_timeout",
        "requests_in_flight",
        "sessions",
    ] {
        let shown = |line: &str| {
            line.trim_start_matches('#')
                .split_once('=')
                .is_some_and(|(key, _)| key.trim() == name)
        };
        assert!(text.lines().any(shown), "{name} is not shown");
    }
}

#[test]
fn the_packaged_examples_are_valid() {
    // A setting that is commented out follows the sign directly, an explanation follows after a blank.
    let text = std::fs::read_to_string(PACKAGED).unwrap();
    let uncommented: Vec<&str> = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with([' ', '#']) => setting,
            _ => line,
        })
        .collect();
    let config = Config::parse(&uncommented.join("\n"), Path::new(PACKAGED)).unwrap();
    assert!(config.events.jsonl.is_some() && config.capture.btf.is_some());
    assert_eq!(config.discover.tag.len(), 2);
}

#[test]
fn everything_can_be_set() {
    let text = r#"
        [capture]
        ring_size = "64KiB"
        sniff_budget = 4096
        max_message = "1GiB"
        btf = "/x/btf"
        [[discover.tag]]
        action = "watch"
        exe = "/x"
        [events]
        journal = false
        dbus = false
        jsonl = "-"
        [registry]
        path = "/x/r.db"
        [[registry.auto_approve]]
        server = "git*"
        vendor = "any"
        [store]
        enabled = false
        path = "/x/m.db"
        content = "full"
        max_size = "16MiB"
        days = 1
        [[store.rule]]
        server = "git*"
        user = 0
        content = "metadata"
        days = 3650
        [limits]
        requests_in_flight = 16
        sessions = 1
        call_timeout = 1
    "#;
    let config = Config::parse(text, Path::new("x")).unwrap();
    assert_eq!(config.capture.ring_size, ByteSize(65536));
    assert_eq!(config.events.jsonl.as_deref(), Some(Path::new("-")));
    assert_eq!(config.limits.sessions, 1);
    assert_eq!(config.messages_path(), Path::new("/x/m.db"));
    let kept = config.keeping().of("github", Some(0));
    assert_eq!((kept.content, kept.days), (StoredContent::Metadata, 3650));
    let kept = config.keeping().of("github", Some(1));
    assert_eq!((kept.content, kept.days), (StoredContent::Full, 1));
    assert!(!config.tags().is_empty());
    assert_eq!(config.approval().rules[0].vendor, Vendor::Any);
}

#[test]
fn mistakes_are_named_with_their_line() {
    insta::assert_snapshot!(error("[capture]\n\nrign_size = 1\n"), @r#"/etc/x.toml:3: unknown field `rign_size`, expected one of `ring_size`, `sniff_budget`, `max_message`, `spill`, `btf`, `hook`, `compare_ends`, `http`, `tls`"#);
    insta::assert_snapshot!(error("[capture]\nring_size = 100000\n"), @r#"/etc/x.toml:2: ring_size must be a power of two, not 100000; the next larger one is "128KiB""#);
    insta::assert_snapshot!(error("[capture]\nring_size = '32KiB'\n"), @r#"/etc/x.toml:2: ring_size must be from 64KiB to 1GiB, not 32KiB"#);
    insta::assert_snapshot!(error("[capture]\nring_size = '1MB'\n"), @r#"/etc/x.toml:2: invalid value: string "1MB", expected a size in bytes, such as 65536, "64KiB" or "16MiB""#);
    insta::assert_snapshot!(error("[limits]\n# x\nsessions = 0\n"), @r#"/etc/x.toml:3: sessions must be from 1 to 100000, not 0"#);
    insta::assert_snapshot!(error("[limits]\nsessions = 'many'\n"), @r#"/etc/x.toml:2: expected a whole number"#);
    insta::assert_snapshot!(error("[event]\n"), @r#"/etc/x.toml:1: unknown field `event`, expected one of `capture`, `discover`, `events`, `registry`, `approvals`, `store`, `contain`, `policy`, `metrics`, `limits`"#);
    insta::assert_snapshot!(error("[[discover.tag]]\naction = 'exclude'\n"), @r#"/etc/x.toml:1: a tag needs at least one of `exe`, `command`, `user`, `cgroup`, `server`; without any it would match every process"#);
    insta::assert_snapshot!(error("[[discover.tag]]\nexe = '/x'\n"), @r#"/etc/x.toml:1: missing field `action`"#);
    insta::assert_snapshot!(error("[[discover.tag]]\naction = 'watch'\nexe = '[x'\n"), @r#"/etc/x.toml:3: error parsing glob '[x': unclosed character class; missing ']'"#);
    insta::assert_snapshot!(error("[[discover.tag]]\naction = 'watch'\ncommand = '(x'\n"), @r#"/etc/x.toml:3: invalid regular expression `(x`: unclosed group"#);
    insta::assert_snapshot!(error("[[discover.tag]]\naction = 'watch'\nuser = 'no such user'\n"), @r#"/etc/x.toml:3: no such user: no such user"#);
    insta::assert_snapshot!(error("[[discover.tag]]\naction = 'watch'\nname = 'x'\n"), @r#"/etc/x.toml:3: unknown field `name`, expected one of `action`, `exe`, `command`, `user`, `cgroup`, `server`"#);
    insta::assert_snapshot!(error("[[registry.auto_approve]]\nserver = 'x'\nvendro = 'any'\n"), @"/etc/x.toml:3: unknown field `vendro`, expected one of `server`, `user`, `vendor`");
    insta::assert_snapshot!(error("[[registry.auto_approve]]\nserver = 'x'\nvendor = 'none'\n"), @"/etc/x.toml:3: unknown variant `none`, expected `same` or `any`");
    insta::assert_snapshot!(error("[[registry.auto_approve]]\nvendor = 'any'\n"), @"/etc/x.toml:1: missing field `server`");
    insta::assert_snapshot!(error("[capture\n"), @r#"/etc/x.toml:1: unclosed table, expected `]`"#);
    assert!(
        error("[[discover.tag]]\naction = 'watch'\ncommand = '\\w{1000}{1000}'\n").contains("size")
    );
}

#[test]
fn files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    assert!(matches!(
        Config::load(Some(&path)),
        Err(ConfigError::Unreadable { .. })
    ));
    std::fs::write(&path, "[events]\ndbus = false\n").unwrap();
    assert!(!Config::load(Some(&path)).unwrap().events.dbus);
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(
        Config::load(Some(&path)),
        Err(ConfigError::Unreadable { .. })
    ));
    std::fs::write(&path, "#".repeat(1024 * 1024)).unwrap();
    assert_eq!(Config::load(Some(&path)).unwrap(), Config::default());
    std::fs::write(&path, "#".repeat(1024 * 1024 + 1)).unwrap();
    assert!(matches!(
        Config::load(Some(&path)),
        Err(ConfigError::TooLarge { .. })
    ));
    assert!(matches!(
        Config::load(Some(dir.path())),
        Err(ConfigError::Unreadable { .. })
    ));
}

proptest! {
    #[test]
    fn any_text(text in "[\\[\\]a-z=\"'0-9.#\n ]{0,80}") {
        if let Err(ConfigError::Wrong { line, .. }) = Config::parse(&text, Path::new("x")) {
            prop_assert!(line >= 1 && line <= text.lines().count() + 1);
        }
    }
}
