//! Files that a person names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};

/// The text of a file of at most this many bytes; of standard input for `-`.
pub fn read_bounded(path: &Path, most: u64) -> anyhow::Result<String> {
    let name = path.display();
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().take(most + 1).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text)),
    };
    read.with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > most {
        bail!("{name} is larger than {} MiB", most >> 20);
    }
    Ok(text)
}
