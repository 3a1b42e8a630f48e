//! `cargo xtask test`.
//!
//! Everything is compiled first, as the user. Then the tests that need no root run as that user, and
//! then, as root, those against the real kernel, bus and journal. The end-to-end tests run one at a
//! time unless asked otherwise: they provoke losses and measure memory, and a machine with two
//! cores must cope. A test that cannot run fails, because a skipped test looks like one that passed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell::{self, say};
use crate::{container, package, peers, setup};

/// The command line of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Options {
    /// Only the tests that need neither root nor peers
    #[arg(long, conflicts_with = "e2e")]
    unit: bool,
    /// Run only the tests against the real kernel, bus and journal
    #[arg(long)]
    e2e: bool,
    /// Number of end-to-end tests to run at a time; each one's daemon watches all of them
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Run only tests whose name contains one of these
    filters: Vec<String>,
}

/// A compiled test program.
pub struct Suite {
    name: String,
    /// The folder of its package, which is its working directory.
    pub package: PathBuf,
    /// The program.
    pub program: PathBuf,
    root: Root,
    serial: bool,
}

/// Which tests of a suite need root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Root {
    /// None.
    Nothing,
    /// Those in its module `as_root`.
    Module,
    /// All.
    Everything,
}

/// The suites that need root, by their names. The others, and all unit tests, run as the user.
const NEED_ROOT: &[(&str, Root)] = &[
    // Becomes other users, and mounts a full disk.
    ("commands", Root::Module),
    // Loads probes.
    ("e2e", Root::Everything),
    // Owns the daemon's name on private buses, makes control groups, replaces the journal with its own.
    ("service", Root::Module),
    // Boots containers.
    ("system", Root::Everything),
];

/// The results of all suites.
#[derive(Default)]
struct Sum {
    passed: u64,
    failed: u64,
    ignored: u64,
    broken: Vec<Broken>,
}

/// A suite that failed.
struct Broken {
    suite: String,
    /// What its failed tests reported, repeated at the very end.
    failures: Vec<String>,
}

/// Runs the tests.
pub fn run(options: &Options) -> Result<()> {
    let begun = Instant::now();
    setup::announce("debug");
    setup::toolchain()?;
    if options.unit {
        peers::unprivileged()?;
    } else {
        setup::kernel()?;
        peers::install()?;
        privileges()?;
        container::install()?;
    }
    let suites = compile()?;
    if !options.unit {
        package::for_tests()?;
    }
    let mut sum = Sum::default();
    for suite in &suites {
        for part in parts(suite, options) {
            run_suite(suite, *part, options, &mut sum)?;
        }
    }
    println!("\ntook {} s in total", begun.elapsed().as_secs());
    for broken in &sum.broken {
        println!("\nfailed: {}", broken.suite);
        for line in &broken.failures {
            println!("{line}");
        }
    }
    println!("tests: {} passed, {} failed", sum.passed, sum.failed);
    ensure!(sum.ignored == 0, "{} tests were ignored", sum.ignored);
    ensure!(sum.broken.is_empty() && sum.failed == 0, "tests failed");
    ensure!(sum.passed > 0, "no test ran");
    Ok(())
}

/// Makes sudo ask for the password now rather than in the middle of the tests.
fn privileges() -> Result<()> {
    if shell::is_root() {
        return Ok(());
    }
    say(
        "the end-to-end tests load eBPF programs and run through sudo; `cargo xtask test --unit` runs the others",
    );
    let mut sudo = shell::as_root("true", &[])?;
    shell::run(&mut sudo).context("the end-to-end tests need root")
}

/// Compiles the whole workspace with one set of features: programs, examples and tests.
fn compile() -> Result<Vec<Suite>> {
    say("building programs, peers and tests");
    let mut build = shell::cargo();
    build.args(["build", "--workspace", "--bins", "--examples", "--locked"]);
    shell::run(&mut build)?;
    let suites = compiled(&["--workspace", "--lib", "--bins", "--tests"])?;
    for (name, _) in NEED_ROOT {
        ensure!(
            suites
                .iter()
                .any(|suite| suite.name.ends_with(&format!(" test {name}"))),
            "no suite is named {name}, which NEED_ROOT lists"
        );
    }
    Ok(suites)
}

/// Compiles the programs, and only those tests that watch real sessions.
pub fn end_to_end() -> Result<Suite> {
    say("building programs and tests");
    let mut build = shell::cargo();
    build.args(["build", "--workspace", "--bins", "--examples", "--locked"]);
    shell::run(&mut build)?;
    let suites = compiled(&["--package", "mcpinspect-tests", "--test", "e2e"])?;
    suites.into_iter().next().context("no such tests")
}

fn compiled(chosen: &[&str]) -> Result<Vec<Suite>> {
    let mut tests = shell::cargo();
    tests.args(["test", "--no-run", "--locked"]).args(chosen);
    tests.arg("--message-format=json-render-diagnostics");
    let said = shell::output(&mut tests)?;
    let mut suites = Vec::new();
    for line in said.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            continue;
        }
        let (Some(program), Some(manifest)) = (
            message["executable"].as_str(),
            message["manifest_path"].as_str(),
        ) else {
            continue;
        };
        let package = Path::new(manifest).parent().unwrap_or(Path::new("/"));
        let target = message["target"]["name"].as_str().unwrap_or_default();
        let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
        let in_package = package.file_name().unwrap_or_default().to_string_lossy();
        suites.push(Suite {
            name: format!("{in_package} {kind} {target}"),
            package: package.to_owned(),
            program: program.into(),
            root: needs_root(kind, target),
            serial: ["e2e", "service", "system"].contains(&target),
        });
    }
    suites.sort_by_key(|suite| (suite.root, suite.name.clone()));
    Ok(suites)
}

fn needs_root(kind: &str, target: &str) -> Root {
    let listed = NEED_ROOT.iter().find(|(name, _)| *name == target);
    match listed {
        // Programs may have a suite's name.
        Some((_, root)) if kind == "test" => *root,
        _ => Root::Nothing,
    }
}

/// Which tests of a suite to run, and as whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All, as the user.
    Whole,
    /// Those outside the module `as_root`, as the user.
    WithoutRoot,
    /// Those in that module, as root.
    InModule,
    /// All, as root.
    AsRoot,
}

/// The parts of a suite that these options ask for, in the order in which they run.
fn parts(suite: &Suite, options: &Options) -> &'static [Part] {
    match (suite.root, options.unit, options.e2e) {
        (Root::Nothing, _, true) | (Root::Everything, true, _) => &[],
        (Root::Nothing, _, false) => &[Part::Whole],
        (Root::Module, true, _) => &[Part::WithoutRoot],
        (Root::Module, false, _) => &[Part::WithoutRoot, Part::InModule],
        (Root::Everything, false, _) => &[Part::AsRoot],
    }
}

/// The tests in a suite's module `as_root` that the filters choose, by name.
fn in_module(suite: &Suite, filters: &[String]) -> Result<Vec<String>> {
    let listed = shell::output(Command::new(&suite.program).args(["--list", "--format=terse"]))?;
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let chosen = names.filter(|name| {
        let wanted = |filter: &String| name.contains(filter.as_str());
        name.contains("as_root::") && (filters.is_empty() || filters.iter().any(wanted))
    });
    Ok(chosen.map(str::to_owned).collect())
}

fn run_suite(suite: &Suite, part: Part, options: &Options, sum: &mut Sum) -> Result<()> {
    let as_root = matches!(part, Part::InModule | Part::AsRoot);
    let mut chosen = options.filters.clone();
    match part {
        Part::Whole | Part::AsRoot => {}
        Part::WithoutRoot => chosen.extend(["--skip".to_owned(), "as_root::".to_owned()]),
        Part::InModule => {
            chosen = in_module(suite, &options.filters)?;
            if chosen.is_empty() {
                return Ok(());
            }
            chosen.push("--exact".to_owned());
        }
    }
    let who = if as_root { " as root" } else { "" };
    say(&format!("running {}{who}", suite.name));
    let mut command = if as_root {
        let path = shell::path();
        let home = std::env::var_os("HOME").unwrap_or_default();
        let quiet = "0".as_ref();
        // The tests' servers run as root as well, and must find this user's tools.
        shell::as_root(
            &suite.program,
            &[
                ("PATH", &path),
                ("HOME", &home),
                ("RUST_LIB_BACKTRACE", quiet),
            ],
        )?
    } else {
        let mut command = Command::new(&suite.program);
        command.env("PATH", shell::path());
        command
    };
    if suite.serial {
        command.arg(format!("--test-threads={}", options.threads));
    }
    let said = shell::target().join("tmp/stderr.log");
    std::fs::create_dir_all(shell::target().join("tmp"))?;
    let mut child = command
        .args(&chosen)
        .current_dir(&suite.package)
        // Some test libraries find their files through it.
        .env("CARGO_MANIFEST_DIR", &suite.package)
        // An error names its cause; a backtrace through the harness adds nothing.
        .env("RUST_LIB_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(File::create(&said)?)
        .spawn()
        .with_context(|| format!("starting {}", suite.name))?;
    let stdout = child.stdout.take().context("its output")?;
    let mut finished = false;
    let mut failures = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        std::io::stdout().flush()?;
        if let Some(result) = line.strip_prefix("test result: ") {
            finished = true;
            sum.passed += count(result, "passed");
            sum.failed += count(result, "failed");
            sum.ignored += count(result, "ignored");
        } else if line == "failures:" || !failures.is_empty() {
            failures.push(line);
        }
    }
    let status = child.wait()?;
    if !status.success() || !finished {
        show_end(&said)?;
        sum.broken.push(Broken {
            suite: format!("{} ({status})", suite.name),
            failures,
        });
    }
    Ok(())
}

/// Prints the last lines that a failed suite and its servers wrote to stderr. For a suite that passes
/// they would only hide what matters: servers that are killed on purpose report it at length.
fn show_end(stderr: &Path) -> Result<()> {
    const LINES: usize = 200;
    let bytes = std::fs::read(stderr)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        println!("stderr: {line}");
    }
    Ok(())
}

/// The number before a word, as in `ok. 3 passed; 0 failed`.
pub fn count(line: &str, word: &str) -> u64 {
    line.split([';', '.'])
        .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Options, Part, Root, Suite, count, needs_root, parts};

    #[test]
    fn results_are_counted() {
        let line =
            "FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.02s";
        assert_eq!(count(line, "passed"), 12);
        assert_eq!(count(line, "failed"), 3);
        assert_eq!(count(line, "ignored"), 1);
        assert_eq!(count(line, "skipped"), 0);
    }

    #[test]
    fn what_needs_no_root_runs_as_the_user() {
        let suite = |root| Suite {
            name: String::new(),
            package: PathBuf::new(),
            program: PathBuf::new(),
            root,
            serial: false,
        };
        let options = |unit, e2e| Options {
            unit,
            e2e,
            threads: 1,
            filters: Vec::new(),
        };
        let mixed = [Part::WithoutRoot, Part::InModule];
        assert_eq!(parts(&suite(Root::Module), &options(false, false)), mixed);
        assert_eq!(
            parts(&suite(Root::Module), &options(true, false)),
            [Part::WithoutRoot]
        );
        assert!(parts(&suite(Root::Everything), &options(true, false)).is_empty());
        assert!(parts(&suite(Root::Nothing), &options(false, true)).is_empty());
        assert_eq!(
            parts(&suite(Root::Nothing), &options(false, false)),
            [Part::Whole]
        );
    }

    #[test]
    fn suites_with_tests_as_root_are_listed() {
        assert_eq!(needs_root("test", "commands"), Root::Module);
        assert_eq!(needs_root("test", "decisions"), Root::Nothing);
        assert_eq!(needs_root("bin", "system"), Root::Nothing);
    }
}
