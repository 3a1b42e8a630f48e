//! The check on made-up crates.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::path::Path;

use super::rules::{Boundary, SOURCES};
use super::tree::Crate;
use super::{breaches, cycles, graph, layers};

fn read(files: &[(&str, &str)]) -> Crate {
    let load = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path)?;
        Some(found.1.to_owned())
    };
    Crate::read("made_up", Path::new(files[0].0), &load).unwrap()
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let krate = read(files);
    let rooms = graph::rooms(&krate, &krate.references());
    cycles(&krate, &rooms)
}

#[test]
fn a_cycle_is_reported_with_the_lines_that_close_it() {
    let complaints = found(&[
        ("lib.rs", "pub mod a;\npub mod b;"),
        ("a.rs", "use crate::b::Second;\npub struct First(Second);"),
        ("b.rs", "pub struct Second;\n\nfn f(_: &crate::a::First) {}"),
    ]);
    assert_eq!(
        complaints,
        ["cycle in made_up: a → b → a\n  a.rs:1: crate::b::Second\n  b.rs:3: crate::a::First"]
    );
}

#[test]
fn one_direction_is_no_cycle_and_gives_layers() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::{Second, self}; use super::c::Third;"),
        ("b.rs", "use super::c::Third; pub struct Second;"),
        (
            "c.rs",
            "pub struct Third; use self::Third as Other; fn f() -> crate::c::Third {}",
        ),
    ];
    assert!(found(&files).is_empty());
    let krate = read(&files);
    let rooms = graph::rooms(&krate, &krate.references());
    assert_eq!(
        layers(&krate, &rooms),
        "made_up\n  0: lib.rs, c\n  1: b\n  2: a\n"
    );
}

#[test]
fn a_long_way_round_is_a_cycle() {
    let complaints = found(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "fn f() { crate::b::f() }"),
        ("b.rs", "fn f() { println!(\"{}\", super::c::f()) }"),
        ("c.rs", "fn f() { crate::a::f() }"),
    ]);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("cycle in made_up: a → b → c → a\n"));
}

#[test]
fn folders_are_rooms_of_their_own() {
    // Inside `a`: x and y depend on each other. Seen from the root, `a` depends on `b` alone.
    let complaints = found(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod x; mod y;"),
        ("a/x.rs", "use super::y::Y; use crate::b::B;"),
        ("a/y/mod.rs", "mod deep;"),
        ("a/y/deep.rs", "use super::super::x::X;"),
        ("b.rs", "pub struct B;"),
    ]);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("cycle in made_up::a: x → y → x\n"));
    assert!(complaints[0].contains("a/y/deep.rs:1: super::super::x::X"));
}

#[test]
fn a_folders_own_file_counts() {
    let complaints = found(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod x;\npub struct Shared;\nfn f() { x::go() }"),
        ("a/x.rs", "use super::Shared;"),
    ]);
    assert_eq!(
        complaints,
        [
            "cycle in made_up::a: mod.rs → x → mod.rs\n  a/mod.rs:3: x::go\n  a/x.rs:1: super::Shared"
        ]
    );
}

#[test]
fn a_re_export_is_a_signpost() {
    // `super::Y` is y's, wherever it is named; `a` itself uses neither.
    let room = [
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod x; mod y; pub use x::X; pub use y::{Y, Z as Zed};",
        ),
        ("a/x.rs", "use super::{Y, Zed}; pub struct X;"),
        ("a/y.rs", "pub struct Y; pub struct Z;"),
    ];
    assert!(found(&room).is_empty());
    let mut used = room;
    used[3].1 = "pub struct Y(super::X); pub struct Z;";
    assert!(found(&used)[0].starts_with("cycle in made_up::a: x → y → x\n"));
}

#[test]
fn a_re_exported_name_that_is_also_used_counts() {
    let complaints = found(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod x; pub use x::X; pub struct Shared(X);"),
        ("a/x.rs", "use super::Shared; pub struct X;"),
    ]);
    assert_eq!(complaints.len(), 1);
}

#[test]
fn visibility_names_no_dependency() {
    assert!(
        found(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; fn f() { x::go() }"),
            (
                "a/x.rs",
                "pub(super) fn go() {} pub(in crate::a) struct X { pub(crate) y: u8 }"
            ),
        ])
        .is_empty()
    );
}

#[test]
fn tests_are_left_out() {
    assert!(
        found(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod helpers;"),
            (
                "a.rs",
                "use crate::b::B;\n#[cfg(test)]\nuse crate::helpers::h;\n#[cfg(test)]\nmod tests;"
            ),
            (
                "b.rs",
                "struct B; #[cfg(all(test, unix))] mod tests { use crate::a::A; }\n\
                 #[cfg(test)] impl B { fn f() { crate::a::f() } }\n\
                 #[cfg(test)] const N: usize = crate::a::N;\n\
                 enum E { #[cfg(test)] A(crate::a::A), B }"
            ),
        ])
        .is_empty()
    );
}

#[test]
fn features_other_than_test_are_checked() {
    let complaints = found(&[
        ("lib.rs", "#[cfg(feature = \"x\")] mod a; mod b;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "#[cfg(not(test))] use crate::a::A;"),
    ]);
    assert_eq!(complaints.len(), 1);
}

#[test]
fn comments_and_strings_name_nothing() {
    assert!(
        found(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            (
                "b.rs",
                "//! See [`crate::a`].\n/// [A](crate::a::A)\nconst B: &str = \"crate::a::A\"; // crate::a::A"
            ),
        ])
        .is_empty()
    );
}

#[test]
fn serde_attributes_and_macros_name_functions() {
    let complaints = found(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "struct A { #[serde(with = \"crate::b::hex\")] x: u8 }",
        ),
        ("b.rs", "macro_rules! m { () => { $crate::a::f() } }"),
    ]);
    assert_eq!(complaints.len(), 1);
}

#[test]
fn modules_in_braces_belong_to_their_file() {
    assert!(
        found(&[
            ("lib.rs", "mod a;"),
            (
                "a.rs",
                "mod inner { pub fn f() { super::g() } } fn g() { inner::f() }"
            ),
        ])
        .is_empty()
    );
}

#[test]
fn files_are_found_where_the_compiler_finds_them() {
    let krate = read(&[
        ("src/main.rs", "mod a; #[path = \"elsewhere.rs\"] mod b;"),
        ("src/a.rs", "mod inside;"),
        ("src/a/inside.rs", ""),
        ("src/elsewhere.rs", ""),
    ]);
    let files: Vec<_> = krate
        .modules
        .iter()
        .map(|module| module.file.to_str().unwrap())
        .collect();
    assert_eq!(
        files,
        [
            "src/main.rs",
            "src/a.rs",
            "src/a/inside.rs",
            "src/elsewhere.rs"
        ]
    );
}

const CLEAR: Boundary = Boundary {
    modules: &["core"],
    crates: &["aya", "tokio"],
    reason: "stays clear",
};

fn crossed(files: &[(&str, &str)]) -> Vec<String> {
    let krate = read(files);
    breaches(&krate, &krate.references(), &CLEAR)
}

#[test]
fn a_boundary_is_crossed_by_name() {
    for text in [
        "use aya::Ebpf;",
        "use ::aya::Ebpf;",
        "fn f(_: &aya::Ebpf) {}",
        "fn f(_: &::aya::Ebpf) {}",
        "use {std::fmt, aya::{maps::MapData, programs}};",
        "#[derive(aya::Args)] struct A;",
        "fn f() { vec![aya::new()]; }",
        "use aya as bpf;",
    ] {
        let complaints = crossed(&[("lib.rs", "mod core;"), ("core.rs", text)]);
        assert_eq!(complaints.len(), 1, "{text}");
        assert!(complaints[0].starts_with("core reaches aya: stays clear\n  core.rs:1: "));
    }
    for text in [
        "use std::aya::X;",
        "fn f() { x.aya::<u8>() }",
        "let aya = 1;",
        "use crate::aya::X;",
    ] {
        let files = [
            ("lib.rs", "mod core; mod aya;"),
            ("core.rs", text),
            ("aya.rs", ""),
        ];
        assert_eq!(crossed(&files), <[&str; 0]>::default(), "{text}");
    }
}

#[test]
fn a_boundary_is_crossed_through_other_modules() {
    let complaints = crossed(&[
        ("lib.rs", "mod core; mod outer; mod other;"),
        ("core/mod.rs", "mod inside;"),
        ("core/inside.rs", "use crate::outer::Thing;"),
        ("outer.rs", "pub struct Thing(tokio::Runtime);"),
        ("other.rs", "use tokio::Runtime;"),
    ]);
    assert_eq!(
        complaints,
        [
            "core reaches tokio: stays clear\n  core/inside.rs:1: crate::outer::Thing\n  outer.rs:1: tokio::Runtime"
        ]
    );
}

#[test]
fn a_rule_about_a_module_that_is_gone_fails() {
    let complaints = crossed(&[("lib.rs", "mod heart;"), ("heart.rs", "")]);
    assert_eq!(complaints, ["a rule is about core, which is not a module"]);
}

#[test]
fn every_root_exists() {
    for source in SOURCES {
        assert!(
            crate::shell::root().join(source.root).is_file(),
            "{}",
            source.root
        );
    }
}
