//! `cargo xtask docs`: the generated parts of the manual.
//!
//! A test generates them and compares; told to update, it writes them. The D-Bus reference comes from
//! the introspection data in `packaging`, which another test compares with the running daemon's
//! objects. That one needs root and is left out without it.

use anyhow::Result;

use crate::shell::{self, say};

/// Writes them.
pub fn update() -> Result<()> {
    if shell::is_root() {
        say("reading the introspection data of the daemon's objects");
        let mut test = shell::cargo();
        test.args(["test", "--quiet", "--package", "mcpinspect-tests"]);
        test.args(["--test", "service", "introspection"]);
        shell::run(test.env("UPDATE_INTROSPECTION", "1"))?;
    } else {
        say("without root, the introspection data in `packaging` is not updated");
    }
    say("generating the reference chapters");
    let mut test = shell::cargo();
    test.args(["test", "--quiet", "--package", "mcpinspect-tests"]);
    test.args(["--test", "commands", "is_up_to_date"]);
    shell::run(test.env("UPDATE_MANUAL", "1"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::Result;
    use clap::CommandFactory as _;

    use crate::{Command, shell};

    /// Every `cargo xtask` command and option in the papers exists.
    #[test]
    fn the_papers_name_commands_that_exist() -> Result<()> {
        let mut xtask = Command::command();
        xtask.build();
        let mut mistakes = Vec::new();
        let mut commands = 0;
        for folder in ["", "mcpinspectd", "mcpinspectd/docs"] {
            for entry in fs::read_dir(shell::root().join(folder))? {
                let path = entry?.path();
                if path.extension().is_none_or(|extension| extension != "md") {
                    continue;
                }
                let text = fs::read_to_string(&path)?;
                for rest in text.split("cargo xtask ").skip(1) {
                    let line = rest.split(['\n', '`', '#']).next().unwrap_or_default();
                    let mut words = line.split_whitespace();
                    let name = words.next().unwrap_or_default();
                    commands += 1;
                    let Some(command) = xtask.find_subcommand(name) else {
                        mistakes.push(format!("{}: {name}", path.display()));
                        continue;
                    };
                    for option in words.filter_map(|word| word.strip_prefix("--")) {
                        let known = |argument: &clap::Arg| argument.get_long() == Some(option);
                        if !command.get_arguments().any(known) {
                            mistakes.push(format!("{}: {name} --{option}", path.display()));
                        }
                    }
                }
            }
        }
        assert!(mistakes.is_empty(), "{mistakes:#?}");
        assert!(commands > 10, "{commands}");
        Ok(())
    }
}
