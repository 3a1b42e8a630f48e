//! What to read, and with how much memory: options that commands share.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpinspect_fleet::collect;
use mcpinspect_fleet::collect::{Collected, Input, Options, Progress};
use mcpinspect_fleet::journal::Verify;
use mcpinspect_fleet::state::StateDirectory;

use super::progress;

/// Where systemd-journal-remote stores what it receives.
const COLLECTION: &str = "/var/log/journal/remote";

/// What to read, and how.
#[derive(clap::Args)]
pub struct InputOptions {
    /// Exported journals, journal files, or directories of journal files; `-` is standard input.
    /// Default: read the directory.
    pub files: Vec<PathBuf>,
    /// Directory with collected journals.
    #[arg(long, value_name = "DIR", default_value = COLLECTION)]
    directory: PathBuf,
    /// Stop reading journals after this many seconds and report on what was read.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Directory for temporary files [default: $TMPDIR, or /var/tmp]
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// The journals were sent over TLS, so `remote-NAME.journal` is named after the sender's
    /// certificate: reject entries of hosts with another name.
    #[arg(long)]
    certified: bool,
    /// Have journalctl verify each journal before it is read, and leave out those that are damaged.
    #[arg(long)]
    verify: bool,
    /// Verify the seals of sealed journals too, with the key in this file.
    #[arg(long, value_name = "FILE", requires = "verify")]
    verify_key: Option<PathBuf>,
    /// Keep up to this many MiB of rows in memory.
    #[arg(long, value_name = "MIB", default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
}

impl InputOptions {
    /// Bytes that rows may take.
    pub fn memory(&self) -> usize {
        (self.memory as usize) << 20
    }

    /// Reads what is new since `state`, if there is one, and from journals what is new since `since`. With
    /// `events`, each event is also a row.
    pub fn collect(
        &self,
        state: Option<&StateDirectory>,
        since: Option<&str>,
        events: bool,
        progress: &Progress,
    ) -> anyhow::Result<Collected> {
        let inputs = self.inputs(since)?;
        anyhow::ensure!(
            state.is_none() || !inputs.contains(&Input::Standard),
            "--state cannot be used with standard input; write it to a file first"
        );
        let mut options = Options {
            memory: self.memory(),
            since: since.map(str::to_owned),
            events,
            certified: self.certified,
            verify: self.verify()?,
            deadline: self
                .timeout
                .map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            ..Options::default()
        };
        if let Some(temporary) = &self.temporary {
            options.temporary.clone_from(temporary);
        }
        let collected = progress::shown(progress, || {
            collect::collect(inputs, state, &options, progress)
        })?;
        Ok(collected)
    }

    fn verify(&self) -> anyhow::Result<Option<Verify>> {
        let key = match &self.verify_key {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                Some(text.trim().to_owned())
            }
        };
        Ok(self.verify.then_some(Verify { key }))
    }

    fn inputs(&self, since: Option<&str>) -> anyhow::Result<Vec<Input>> {
        let cannot_read = |path: &Path| format!("cannot read {}", path.display());
        if self.files.is_empty() {
            let directory = &self.directory;
            anyhow::ensure!(
                directory.is_dir(),
                "no collected journals in {}; set up systemd-journal-remote, or use --directory",
                directory.display()
            );
            return Input::at(directory).with_context(|| cannot_read(directory));
        }
        let mut inputs = Vec::new();
        for path in &self.files {
            if path == Path::new("-") {
                inputs.push(Input::Standard);
            } else {
                inputs.extend(Input::at(path).with_context(|| cannot_read(path))?);
            }
        }
        let is_file = |input: &Input| !matches!(input, Input::Journal(_));
        anyhow::ensure!(
            since.is_none() || !inputs.iter().any(is_file),
            "--since works only for journals; use `journalctl --since` when you export"
        );
        Ok(inputs)
    }
}
