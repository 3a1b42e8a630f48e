//! The examples: sentences and definitions written for the purpose, and what is asked in them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::analysis::{Analyser, AnalysisContext, ReadSentence, Report};
use mcpinspect_judge::detect::cross_server::{Offer, ToolIndex};
use mcpinspect_judge::detect::json::Json;
use mcpinspect_judge::detect::meaning::act::ACTS;
use mcpinspect_judge::detect::meaning::features::{SentenceFeatures, features};
use serde::Deserialize;
use serde_json::{Value, json};

/// A sentence with its features.
#[derive(Clone, Debug)]
pub struct Example {
    /// Who wrote it.
    pub author: String,
    /// Its language.
    pub lang: String,
    /// What keeps an attack and its honest twin on one side of a split.
    pub pair: String,
    /// The features that count.
    pub features: SentenceFeatures,
    /// Whether it asks for something that it has no business asking for.
    pub attack: bool,
    /// Which acts, as bits in the order of [`ACTS`].
    pub acts: u16,
}

/// A definition with the sentences of its text.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Who wrote it.
    pub author: String,
    /// What keeps an attack and its honest twin on one side of a split.
    pub pair: String,
    /// Its language.
    pub lang: String,
    /// Whether it is an attack.
    pub attack: bool,
    /// The features of its sentences that count.
    pub sentences: Vec<SentenceFeatures>,
    /// The definition itself.
    pub tool: Value,
    /// The names of its server's tools.
    pub own_tools: Vec<String>,
}

/// A line of a training file.
#[derive(Deserialize)]
struct Line {
    label: String,
    #[serde(default)]
    author: String,
    #[serde(default)]
    pair: String,
    #[serde(default)]
    lang: String,
    #[serde(default)]
    place: String,
    #[serde(default)]
    own_tools: Vec<String>,
    /// The acts of a sentence; for a definition, each with a quotation.
    #[serde(default)]
    acts: Vec<Value>,
    /// The name of the tool, or the whole of it.
    tool: Value,
    #[serde(default)]
    text: Option<String>,
}

/// Reads examples the way the detection engine does.
struct Reader {
    analyser: Analyser,
    /// Sentences already taken, with their label: duplicates count once.
    seen: HashSet<(String, bool)>,
    examples: Vec<Example>,
    definitions: Vec<Definition>,
}

/// Reads all training files of a directory, and the samples that rules are tested with.
pub fn read(
    directory: &Path,
    samples: &[PathBuf],
) -> anyhow::Result<(Vec<Example>, Vec<Definition>)> {
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_some_and(|it| it == "jsonl") {
            files.push(file);
        }
    }
    // In a fixed order, so that the same files result in the same model.
    files.sort();
    files.extend_from_slice(samples);
    let mut reader = Reader {
        analyser: Analyser::new(WeightedRules::builtin()).keeping_sentences(),
        seen: HashSet::new(),
        examples: Vec::new(),
        definitions: Vec::new(),
    };
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for (index, line) in text.lines().enumerate() {
            let place = || format!("{}:{}", file.display(), index + 1);
            reader.line(serde_json::from_str(line).with_context(place)?);
        }
    }
    ensure!(!reader.examples.is_empty(), "no examples");
    Ok((reader.examples, reader.definitions))
}

/// What is found in a tool whose server offers `own` tools.
pub fn report(analyser: &mut Analyser, tool: &Value, own: &[String]) -> Report {
    let mut tools = ToolIndex::new();
    let names: Vec<&str> = own.iter().map(String::as_str).collect();
    let offer = Offer {
        names: &names,
        publisher: None,
        first: true,
        last: true,
    };
    tools.offer("own", &offer);
    let context = AnalysisContext {
        server: Some("own"),
        tools: Some(&tools),
        ..AnalysisContext::default()
    };
    analyser.tool(&Json::from(tool), context)
}

impl Reader {
    fn line(&mut self, line: Line) {
        match &line.text {
            Some(text) => self.sentence(&line, text),
            None if line.acts.is_empty() => self.sample(&line),
            None => self.definition(&line),
        }
    }

    /// The sentences of a tool whose server offers `own` tools, and the features of each.
    fn sentences(&mut self, tool: &Value, own: &[String]) -> Vec<(ReadSentence, SentenceFeatures)> {
        report(&mut self.analyser, tool, own);
        let topic = self.analyser.topic();
        let read = self.analyser.sentences().iter();
        read.map(|one| (one.clone(), features(&one.seen(topic))))
            .collect()
    }

    fn add(
        &mut self,
        line: &Line,
        text: &str,
        features: SentenceFeatures,
        attack: bool,
        acts: u16,
    ) {
        if !self.seen.insert((text.to_owned(), attack)) {
            return;
        }
        let pair = match line.pair.is_empty() {
            true => text,
            false => &line.pair,
        };
        self.examples.push(Example {
            author: line.author.clone(),
            lang: line.lang.clone(),
            pair: pair.to_owned(),
            features,
            attack,
            acts,
        });
    }

    /// A sentence or two, as one example.
    fn sentence(&mut self, line: &Line, text: &str) {
        let tool = match &*line.place {
            "parameter" => json!({
                "name": line.tool,
                "inputSchema": { "type": "object", "properties": {
                    "value": { "type": "string", "description": text },
                }},
            }),
            _ => json!({ "name": line.tool, "description": text }),
        };
        let acts = line.acts.iter().filter_map(Value::as_str).fold(0, bits);
        let whole = self.whole(&tool, &line.own_tools);
        if let Some(features) = whole {
            self.add(line, text, features, line.label == "attack", acts);
        }
    }

    /// All sentences of a tool, read as one.
    fn whole(&mut self, tool: &Value, own: &[String]) -> Option<SentenceFeatures> {
        let read = self.sentences(tool, own);
        let mut sentences = read.into_iter().map(|(sentence, _)| sentence);
        let mut first = sentences.next()?;
        for sentence in sentences {
            first.tokens.extend(sentence.tokens);
            first.rules.extend(sentence.rules);
            first.signs.extend(sentence.signs);
        }
        first.signs.sort_unstable();
        first.signs.dedup();
        Some(features(&first.seen(self.analyser.topic())))
    }

    /// A definition whose acts are quoted.
    fn definition(&mut self, line: &Line) {
        let attack = line.label == "attack";
        let quoted: Vec<(u16, &str)> = line
            .acts
            .iter()
            .filter_map(|act| Some((bits(0, act.get(0)?.as_str()?), act.get(1)?.as_str()?)))
            .collect();
        let read = self.sentences(&line.tool, &line.own_tools);
        self.definitions.push(Definition {
            author: line.author.clone(),
            pair: line.pair.clone(),
            lang: line.lang.clone(),
            attack,
            sentences: read.iter().map(|(_, features)| features.clone()).collect(),
            tool: line.tool.clone(),
            own_tools: line.own_tools.clone(),
        });
        for (sentence, features) in read {
            let text = &*sentence.text;
            let acts = quoted
                .iter()
                .filter(|(_, quote)| {
                    let quote = quote.trim();
                    text.contains(quote) || (text.len() > 8 && quote.contains(text))
                })
                .fold(0, |acts, (act, _)| acts | act);
            self.add(line, text, features, attack && acts != 0, acts);
        }
    }

    /// A definition that is only labelled: an attack is one example; of an honest one, so is each sentence.
    fn sample(&mut self, line: &Line) {
        let attack = matches!(&*line.label, "attack" | "malicious");
        if !attack {
            for (sentence, features) in self.sentences(&line.tool, &line.own_tools) {
                self.add(line, &sentence.text, features, false, 0);
            }
        }
        if let Some(features) = self.whole(&line.tool, &line.own_tools) {
            self.add(line, &line.tool.to_string(), features, attack, 0);
        }
    }
}

/// `acts` with another act added, if it is one that attacks use.
fn bits(acts: u16, name: &str) -> u16 {
    let known = ACTS.iter().position(|act| act.name == name);
    acts | known.map_or(0, |index| 1 << index)
}
