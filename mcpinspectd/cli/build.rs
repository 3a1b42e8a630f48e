//! Passes the target on, which `--version` shows.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=MCPINSPECT_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
