//! Labelled rows: one JSON object a line, with a tool or a message and what it is.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, ensure};
use mcpinspect_judge::detect::analysis::message;
use mcpinspect_judge::detect::category::Surface;
use mcpinspect_judge::detect::json::Json;
use serde::Deserialize;
use serde_json::Value;

/// A labelled line.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// Its name in the file.
    #[serde(default)]
    pub id: String,
    /// `malicious` or `benign`.
    pub label: String,
    /// The family of attacks, or the source.
    #[serde(default)]
    pub group: String,
    /// Which kind of row it is within its class.
    #[serde(default)]
    pub tier: Option<String>,
    /// The server that it belongs to.
    #[serde(default)]
    pub server: Option<String>,
    /// A tool's definition.
    #[serde(default)]
    pub tool: Option<Value>,
    /// Or a message.
    #[serde(default)]
    pub message: Option<Value>,
}

impl Row {
    /// Whether the row is labelled as an attack.
    pub fn malicious(&self) -> bool {
        self.label == "malicious"
    }

    /// Its tier, or nothing.
    pub fn tier(&self) -> &str {
        self.tier.as_deref().unwrap_or_default()
    }

    /// Which weights judge it.
    pub fn surface(&self) -> Surface {
        match &self.message {
            Some(message) => message::surface(&Json::from(message)),
            None => Surface::Definition,
        }
    }
}

/// Reads the rows of a file, or of every `*.jsonl` file in a directory.
pub fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let mut files = Vec::new();
    if path.is_dir() {
        let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
        for entry in entries {
            let file = entry.with_context(|| path.display().to_string())?.path();
            if file.extension().is_some_and(|it| it == "jsonl") {
                files.push(file);
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut rows = Vec::new();
    for file in files {
        let lines = File::open(&file).with_context(|| file.display().to_string())?;
        for (index, line) in BufReader::new(lines).lines().enumerate() {
            let line = line.with_context(|| file.display().to_string())?;
            if line.trim().is_empty() {
                continue;
            }
            let row = serde_json::from_str(&line)
                .with_context(|| format!("{}:{}", file.display(), index + 1))?;
            rows.push(row);
        }
    }
    ensure!(
        !rows.is_empty(),
        "{}: no *.jsonl file with labelled lines",
        path.display()
    );
    Ok(rows)
}
