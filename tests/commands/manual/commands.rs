//! Every command and option in the papers is one that the programs have.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use mcpinspect_tests::places::repository;

use super::{blocks, papers};
use crate::support::built;

/// The programs.
const PROGRAMS: [&str; 3] = ["mcpinspectd", "mcpinspect", "mcpinspect-notify"];

#[test]
fn every_command_exists() {
    let mut programs = Help::default();
    let mut mistakes = Vec::new();
    let mut commands = 0;
    for paper in papers() {
        let text = fs::read_to_string(repository().join(&paper)).unwrap();
        for line in typed(&text) {
            commands += 1;
            if let Err(mistake) = programs.check(&line) {
                mistakes.push(format!(
                    "{}: `{}`: {mistake}",
                    paper.display(),
                    line.join(" ")
                ));
            }
        }
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    assert!(commands > 40, "{commands}");
}

/// What a text has people type that begins with one of our programs: in blocks of shell commands, and
/// in code font.
fn typed(text: &str) -> Vec<Vec<String>> {
    let block = blocks(text, "sh").into_iter().flat_map(str::lines);
    let outside: String = text.split("```").step_by(2).collect();
    let inline = outside.split('`').skip(1).step_by(2);
    let lines = block.map(without_comment).chain(inline);
    // One line may hold several commands.
    let parts = lines.flat_map(|line| line.split(['|', ';', '&']));
    parts
        .filter_map(|part| {
            let mut words = part.split_whitespace().map(str::to_owned).peekable();
            words.next_if_eq("sudo");
            let is_ours = |word: &String| PROGRAMS.contains(&word.as_str());
            words.peek().is_some_and(is_ours).then(|| words.collect())
        })
        .collect()
}

fn without_comment(line: &str) -> &str {
    line.split("  #").next().unwrap_or(line)
}

/// The programs' help, asked for once each.
#[derive(Default)]
struct Help(HashMap<Vec<String>, Option<String>>);

impl Help {
    fn check(&mut self, words: &[String]) -> Result<(), String> {
        let mut command = vec![words[0].clone()];
        // Commands may have commands of their own: as long as words are commands, they are names.
        for word in &words[1..] {
            let names =
                word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
            let mut longer = command.clone();
            longer.push(word.clone());
            if !names || self.of(&longer).is_none() {
                break;
            }
            command = longer;
        }
        let help = self.of(&command).ok_or("there is no such program")?;
        // Some have commands and take arguments too.
        let only_commands = help.contains("\nCommands:\n") && !help.contains("\nArguments:\n");
        if only_commands
            && let Some(word) = words.get(command.len())
            && !word.starts_with('-')
        {
            return Err(format!("there is no command `{word}`"));
        }
        // What stands behind `--` is another program's.
        for word in words[command.len()..]
            .iter()
            .take_while(|word| *word != "--")
        {
            let option = word.split('=').next().unwrap_or(word);
            let known = |option: &str| {
                let mut words =
                    help.split(|c: char| c.is_whitespace() || c == ',' || c == '=' || c == '[');
                words.any(|word| word == option)
            };
            // `-7d` is a value.
            let is_option = option
                .trim_start_matches('-')
                .starts_with(char::is_alphabetic);
            if option.starts_with('-') && is_option && !known(option) {
                return Err(format!("there is no option `{option}`"));
            }
        }
        Ok(())
    }

    /// The help of a command; `None` if there is no such command.
    fn of(&mut self, command: &[String]) -> Option<String> {
        self.0
            .entry(command.to_vec())
            .or_insert_with(|| {
                let program = PROGRAMS.iter().find(|name| **name == command[0])?;
                let output = Command::new(built(program))
                    .args(&command[1..])
                    .arg("--help")
                    .output()
                    .unwrap();
                let text = String::from_utf8(output.stdout).unwrap();
                // A word that is no command may be an argument, before which `--help` helps too.
                let about = format!("Usage: {}", command.join(" "));
                (output.status.success() && text.contains(&about)).then_some(text)
            })
            .clone()
    }
}
