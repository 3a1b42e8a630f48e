//! `cargo xtask vm`: runs the exactness tests on the kernels that people use, in virtual machines.
//!
//! Debian's own kernels boot under emulation with this machine's file system, read-only, so they run
//! what was built here, beside a [disk] with the peers. Emulation is slow and makes timings meaningless: this is for releases, and
//! not part of the tests.

mod disk;

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::disk::Disk;
use crate::shell::{self, say};
use crate::{peers, python, setup, test};

/// The command line of `cargo xtask vm`.
#[derive(clap::Args)]
pub struct Options {
    /// Kernels to boot: 5.10, 6.1, 6.12, backports; by default all
    kernels: Vec<String>,
    /// Tests to run, by the start of their names
    #[arg(long, value_delimiter = ',', default_values_t = TESTS.map(str::to_owned))]
    tests: Vec<String>,
    /// Ways to hook system calls
    #[arg(long, value_delimiter = ',', default_values_t = HOOKS.map(str::to_owned))]
    hooks: Vec<String>,
}

/// A kernel as Debian names it.
struct Kernel {
    name: &'static str,
    /// The Debian release that has it.
    suite: &'static str,
    /// A regular expression for its package's name.
    package: &'static str,
}

const KERNELS: [Kernel; 4] = [
    Kernel {
        name: "5.10",
        suite: "bullseye",
        package: r"^linux-image-5\.10\.0-[0-9]+-amd64$",
    },
    Kernel {
        name: "6.1",
        suite: "bookworm",
        package: r"^linux-image-6\.1\.0-[0-9]+-amd64$",
    },
    Kernel {
        name: "6.12",
        suite: "trixie",
        package: r"^linux-image-6\.12\.[0-9]+\+deb13-amd64$",
    },
    Kernel {
        name: "backports",
        suite: "trixie-backports",
        package: r"^linux-image-[0-9.]+\+deb13-amd64$",
    },
];

/// Packages with parts of a kernel, by the start of their names.
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// The tests that show exact capture. Of those over HTTP, the ones with a peer of each kind: all of them would
/// take hours under emulation.
const TESTS: [&str; 10] = [
    "syscalls::",
    "framing::",
    "processes::",
    "neighbours::",
    "http::python_over_streamable_http",
    "http_exact::every_byte",
    "http_peers::node",
    "http_peers::peers_in_go",
    "tls::every_process_that_has_a_library",
    "tls::nss_in_every_process",
];

/// Programs that boot a machine, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("depmod", "kmod"),
    ("udevadm", "udev"),
    ("busybox", "busybox-static"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// The program that boots a kernel on this machine's file system.
const VIRTME: &str = "virtme-ng==1.42";

/// Ways to hook system calls, as the configuration calls them.
const HOOKS: [&str; 3] = ["tracepoint", "function-exit", "kprobe"];

/// How long a machine may take.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// Boots each kernel with each hook, and prints a table.
pub fn run(options: &Options) -> Result<()> {
    ensure!(
        shell::is_root(),
        "virtual machines with this machine's file system need root; run this through sudo"
    );
    ensure!(
        cfg!(target_arch = "x86_64"),
        "only x86_64 machines can run these virtual machines"
    );
    let chosen: Vec<&Kernel> = KERNELS
        .iter()
        .filter(|kernel| {
            options.kernels.is_empty() || options.kernels.iter().any(|name| name == kernel.name)
        })
        .collect();
    ensure!(
        chosen.len() >= options.kernels.len().max(1),
        "choose from these kernels: 5.10, 6.1, 6.12, backports"
    );
    setup::toolchain()?;
    setup::programs(PROGRAMS)?;
    let place = shell::target().join("vm");
    std::fs::create_dir_all(&place)?;
    let virtme = virtme(&place)?;
    let archive = Archive::new(&place)?;
    let suite = test::end_to_end()?;
    peers::install()?;
    let daemon = shell::target().join("debug/mcpinspectd");
    let disk = Disk::new(&place, &[&daemon, &suite.program])?;
    let mut table =
        String::from("| kernel | hook | check | TLS | tests |\n|---|---|---|---|---|\n");
    for kernel in chosen {
        let image = archive.unpacked(kernel)?;
        for hook in &options.hooks {
            say(&format!("booting {} with {hook}", image.version));
            let begun = Instant::now();
            let log = place.join(format!("{}-{hook}.log", image.version));
            let script = place.join("guest.sh");
            let words = script_for(&disk, &daemon, &suite, hook, &options.tests);
            std::fs::write(&script, words)?;
            let said = boot(&virtme, &image, &disk, &script, &log)?;
            let Verdict { check, tls, tests } = verdict(&said);
            say(&format!(
                "{}, {hook}: {tests} ({} s, log in {})",
                image.version,
                begun.elapsed().as_secs(),
                log.display()
            ));
            writeln!(
                table,
                "| {} | {hook} | {check} | {tls} | {tests} |",
                image.version
            )?;
        }
    }
    println!("\n{table}");
    Ok(())
}

/// Installs the program that boots kernels, in an environment of its own.
fn virtme(place: &Path) -> Result<PathBuf> {
    let environment = place.join("virtme");
    python::environment(&environment, VIRTME)?;
    Ok(environment.join("bin/vng"))
}

/// A kernel that can be booted.
struct Image {
    version: String,
    file: PathBuf,
}

/// Packages of several Debian releases, kept apart from what this machine has installed.
struct Archive {
    place: PathBuf,
    options: Vec<String>,
}

impl Archive {
    /// Reads the package lists of all releases from this machine's own mirror.
    fn new(place: &Path) -> Result<Self> {
        let targets = shell::output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(SITE) $(BASE_URI)",
        ]))
        .context("kernels are Debian packages, installed through apt")?;
        let own = targets
            .lines()
            .find_map(|line| line.split_once(' ')?.1.split("/dists/").next())
            .context("apt has no sources")?;
        let apt = place.join("apt");
        std::fs::create_dir_all(apt.join("state/lists/partial"))?;
        std::fs::create_dir_all(apt.join("cache/archives/partial"))?;
        let mut sources = String::new();
        for kernel in &KERNELS {
            let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
            writeln!(sources, "deb [signed-by={key}] {own} {} main", kernel.suite)?;
        }
        let list = apt.join("sources.list");
        std::fs::write(&list, sources)?;
        let options = [
            ("Dir::Etc::sourcelist", list.display().to_string()),
            ("Dir::Etc::sourceparts", "-".into()),
            (
                "Dir::State::lists",
                apt.join("state/lists").display().to_string(),
            ),
            ("Dir::Cache", apt.join("cache").display().to_string()),
            ("APT::Architecture", "amd64".into()),
            // Fetch as root: apt's own user may not write here.
            ("APT::Sandbox::User", "root".into()),
        ]
        .into_iter()
        .flat_map(|(name, value)| ["-o".to_owned(), format!("{name}={value}")])
        .collect();
        let archive = Self {
            place: place.to_owned(),
            options,
        };
        say("reading the lists of Debian's releases");
        shell::run(archive.apt("apt-get").args(["-qq", "update"]))?;
        Ok(archive)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options).current_dir(&self.place);
        command.stdin(Stdio::null());
        command
    }

    /// Unpacks the newest kernel of a kind, with its modules where the virtual machine looks.
    fn unpacked(&self, kernel: &Kernel) -> Result<Image> {
        let found =
            shell::output(
                self.apt("apt-cache")
                    .args(["search", "--names-only", kernel.package]),
            )?;
        let package = found
            .lines()
            .filter_map(|line| line.split(' ').next())
            .max_by_key(|name| numbers(name))
            .with_context(|| format!("{} has no kernel {}", kernel.suite, kernel.name))?;
        let version = package.trim_start_matches("linux-image-").to_owned();
        let folder = self.place.join(&version);
        let image = || {
            let places = [
                format!("boot/vmlinuz-{version}"),
                format!("usr/lib/modules/{version}/vmlinuz"),
            ];
            let mut files = places.iter().map(|place| folder.join(place));
            files.find(|file| file.is_file())
        };
        if image().is_none() {
            let needed = shell::output(self.apt("apt-cache").args(["depends", package]))?;
            // Newer releases split a kernel's package into several.
            let parts = needed
                .lines()
                .filter_map(|line| line.trim().strip_prefix("Depends: "))
                .filter(|name| PARTS.iter().any(|part| name.starts_with(part)));
            for part in std::iter::once(package).chain(parts) {
                self.unpack(part, &folder)?;
            }
        }
        self.modules(&version, &folder)?;
        let file = image().context("the package contains no kernel")?;
        Ok(Image { version, file })
    }

    /// Fetches a package and unpacks it into `folder`.
    fn unpack(&self, package: &str, folder: &Path) -> Result<()> {
        say(&format!("fetching {package}"));
        shell::run(self.apt("apt-get").args(["-qq", "download", package]))?;
        let deb = std::fs::read_dir(&self.place)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
            })
            .context("apt fetched nothing")?;
        shell::run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(folder))?;
        std::fs::remove_file(deb)?;
        Ok(())
    }

    /// Links a kernel's modules into this machine's `/lib/modules`, where it looks for them.
    fn modules(&self, version: &str, folder: &Path) -> Result<()> {
        let own = ["lib/modules", "usr/lib/modules"]
            .map(|parent| folder.join(parent).join(version))
            .into_iter()
            .find(|path| path.is_dir())
            .context("the kernel has no modules")?;
        let place = Path::new("/lib/modules").join(version);
        if place.symlink_metadata().is_err() {
            std::fs::create_dir_all("/lib/modules")?;
            say(&format!("linking {} to {}", place.display(), own.display()));
            std::os::unix::fs::symlink(&own, &place)?;
        }
        shell::run(Command::new("depmod").arg(version))
    }
}

/// The numbers in a name, for comparing versions.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// The script that a virtual machine runs.
fn script_for(
    disk: &Disk,
    daemon: &Path,
    suite: &test::Suite,
    hook: &str,
    tests: &[String],
) -> String {
    format!(
        "{disk}mount -t debugfs none /sys/kernel/debug 2>/dev/null
mount -t tracefs none /sys/kernel/tracing 2>/dev/null
printf '[capture]\\nhook = \"{hook}\"\\ntls = false\\n' > /tmp/config.toml
printf '[capture]\\ntls = \"machine\"\\n' > /tmp/tls.toml
export MCPINSPECT_CONFIG=/tmp/config.toml RUST_LIB_BACKTRACE=0 RUST_BACKTRACE=0
if '{daemon}' check --config /tmp/config.toml; then
    echo check: ok
    cd '{folder}' && '{program}' --test-threads=1 {tests}
    # Last, because it reads every large program of the machine, which takes long over 9p.
    timeout 900 '{daemon}' check --config /tmp/tls.toml | sed -n 's/^ *[a-zA-Z]*  TLS   */tls: /p'
else
    echo check: failed
fi
",
        disk = disk.script(),
        daemon = daemon.display(),
        folder = suite.package.display(),
        program = suite.program.display(),
        tests = tests.join(" "),
    )
}

/// Boots a kernel, runs the script in it, and returns the output, which also goes to the log.
fn boot(virtme: &Path, image: &Image, disk: &Disk, script: &Path, log: &Path) -> Result<String> {
    File::create(log).with_context(|| format!("writing {}", log.display()))?;
    // Append: two streams write to this file.
    let output = File::options().append(true).open(log)?;
    // It finds its other programs there.
    let beside = virtme.parent().map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(beside.into_iter().chain(std::env::split_paths(&path)))?;
    let mut machine = Command::new(virtme)
        .env("PATH", path)
        // Emulate: nested virtualisation is missing on some machines, and hangs on others.
        .args(["--disable-kvm", "--disable-microvm", "--force-9p"])
        .args(["--cpus", "2", "--memory", "3G"])
        .arg(disk.option())
        .arg("--run")
        .arg(&image.file)
        .arg("--exec")
        .arg(format!("sh '{}'", script.display()))
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()
        .context("starting a virtual machine")?;
    let read =
        || -> Result<String> { Ok(String::from_utf8_lossy(&std::fs::read(log)?).into_owned()) };
    let begun = Instant::now();
    let mut told = begun;
    while machine.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(500));
        if begun.elapsed() > LONGEST {
            // The virtual machine ends with this process.
            machine.kill()?;
            say(&format!("gave up after {} min", LONGEST.as_secs() / 60));
        } else if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let over = read()?
                .lines()
                .filter(|line| line.starts_with("test "))
                .count();
            say(&format!(
                "{over} tests after {} s",
                begun.elapsed().as_secs()
            ));
        }
    }
    let said = read()?;
    if !said.contains("check: ") {
        bail!("{} did not boot:\n{said}", image.version);
    }
    Ok(said)
}

/// What a machine reported.
struct Verdict {
    /// Whether the daemon can run there.
    check: String,
    /// Whether the probes for TLS can be loaded.
    tls: String,
    tests: String,
}

/// The results of the checks and the tests.
fn verdict(said: &str) -> Verdict {
    let check = if said.contains("check: ok") {
        "ok".to_owned()
    } else {
        let failed = said.lines().find(|line| line.starts_with("FAIL"));
        failed
            .unwrap_or("failed")
            .split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let tests = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("test result: "))
        .map_or("none ran".to_owned(), |result| {
            let (passed, failed) = (test::count(result, "passed"), test::count(result, "failed"));
            format!("{passed} passed, {failed} failed")
        });
    let tls = said.lines().find_map(|line| line.strip_prefix("tls: "));
    Verdict {
        check,
        tls: tls.unwrap_or("not checked").to_owned(),
        tests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_kernels_come_last() {
        let mut names = ["linux-image-6.1.0-9-amd64", "linux-image-6.1.0-50-amd64"];
        names.sort_by_key(|name| numbers(name));
        assert_eq!(names[1], "linux-image-6.1.0-50-amd64");
    }

    #[test]
    fn a_machines_words_are_understood() {
        let said = "FAIL  kernel version   5.10 is too old\ncheck: failed\ntest result: FAILED. 3 passed; 31 failed; 0 ignored; 0 measured\n";
        let said = verdict(said);
        assert_eq!(said.check, "kernel version 5.10 is too old");
        assert_eq!(said.tls, "not checked");
        assert_eq!(said.tests, "3 passed, 31 failed");
        let said = verdict("check: ok\ntls: decrypted in every process\n");
        assert_eq!(said.tls, "decrypted in every process");
    }
}
