//! Builds the probes for the BPF target and hands their object file to the crate.
//!
//! Where the eBPF tool chain is missing the crate still builds, so that everything that needs no
//! kernel can be worked on; the daemon then says at start what is missing.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

const LINKER: &str = "bpf-linker";

/// Set to `off`, the crate is built as on a machine that has no tool chain for the probes.
const SWITCH: &str = "MCPINSPECT_PROBES";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?)
        .ancestors()
        .nth(2)
        .ok_or("the crate is not two folders below the repository")?
        .to_owned();
    for watched in [
        "mcpinspectd-ebpf/src",
        "mcpinspectd-ebpf/Cargo.toml",
        "mcpinspectd-ebpf/Cargo.lock",
        "mcpinspect-common/src",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed={SWITCH}");
    let object = out.join("probes.o");
    match build(&root, &out) {
        Ok(built) => {
            fs::write(&object, without_debug_info(&fs::read(built)?)?)?;
            println!("cargo::rustc-env=MCPINSPECT_PROBES_MISSING=");
        }
        Err(reason) => {
            println!("cargo::warning=built without the eBPF probes: {reason}");
            println!(
                "cargo::warning=`cargo xtask build-ebpf` sets up what is missing and builds them"
            );
            println!("cargo::rustc-env=MCPINSPECT_PROBES_MISSING={reason}");
            // Look again next time: the tool chain may have been set up without a source changing.
            println!("cargo::rerun-if-changed={}", out.join("never").display());
            fs::write(&object, b"")?;
        }
    }
    Ok(())
}

/// Builds the object file, or says in one line why it cannot be built.
fn build(root: &Path, out: &Path) -> Result<PathBuf, String> {
    if env::var_os(SWITCH).is_some_and(|value| value == "off") {
        return Err(format!("{SWITCH} is off"));
    }
    // Where `cargo xtask` installs the linker when the machine has none.
    let tools = target_dir(root, out).join("tools/bin");
    let mut path = OsString::from(&tools);
    if let Some(inherited) = env::var_os("PATH") {
        path.push(":");
        path.push(inherited);
    }
    let linker = env::split_paths(&path)
        .map(|folder| folder.join(LINKER))
        .find(|file| file.is_file());
    if linker.is_none() {
        return Err(format!("{LINKER} is not installed"));
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("cannot run rustc: {error}"))?
        .stdout;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    if !sysroot.join("lib/rustlib/src/rust/library/core").is_dir() {
        return Err("the toolchain's rust-src component is not installed".into());
    }

    let big_endian = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let target = if big_endian {
        "bpfeb-unknown-none"
    } else {
        "bpfel-unknown-none"
    };
    let arch = env::var("CARGO_CFG_TARGET_ARCH").map_err(|error| error.to_string())?;
    // One folder for all profiles of the host build: the probes are the same in each.
    let folder = target_dir(root, out).join("bpf");
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--quiet", "-Z", "build-std=core", "--target", target])
        .arg("--manifest-path")
        .arg(root.join("mcpinspectd-ebpf/Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder)
        .env("PATH", path)
        // The pinned stable compiler builds its own core for a target without a shipped one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        // Instruction set v3 (kernel 5.12): atomics that give the value before.
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            format!(
                "-Cdebuginfo=2\x1f-Clink-arg=--btf\x1f-Ctarget-cpu=v3\x1f--cfg=bpf_target_arch=\"{arch}\"{}",
                same_everywhere(root, &sysroot)
            ),
        )
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        for line in message.lines().take(60) {
            println!("cargo::warning={line}");
        }
        return Err("the probes do not compile (see above)".into());
    }
    Ok(folder.join(target).join("release/mcpinspectd-ebpf"))
}

/// The object file without the debug information that its BTF was made from: four fifths of it.
fn without_debug_info(object: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut file = Builder::read(object)?;
    for section in file.sections.iter_mut() {
        let name = section.name.to_string();
        section.delete = [".debug_", ".rel.debug_"]
            .iter()
            .any(|of_debugger| name.starts_with(of_debugger));
        if name == ".strtab" {
            // The linker keeps the names of symbols and those of sections together.
            section.data = SectionData::String;
        }
    }
    let names = file.sections.add();
    names.name = ".shstrtab".into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    file.delete_orphans();
    let mut small = Vec::new();
    file.write(&mut small)?;
    Ok(small)
}

/// Flags that keep the places of the sources out of the probes' debug information: two builds of the
/// same sources are equal.
fn same_everywhere(root: &Path, sysroot: &Path) -> String {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    [
        (Some(root.to_owned()), "/mcpinspectd"),
        (home, "/cargo"),
        (Some(sysroot.to_owned()), "/rust"),
    ]
    .into_iter()
    .filter_map(|(from, to)| Some((from?, to)))
    .map(|(from, to)| format!("\x1f--remap-path-prefix={}={to}", from.display()))
    .collect()
}

/// The folder that cargo builds into.
fn target_dir(root: &Path, out: &Path) -> PathBuf {
    // OUT_DIR is TARGET_DIR[/TRIPLE]/PROFILE/build/PACKAGE/out.
    out.ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map_or_else(|| root.join("target"), Path::to_owned)
}
