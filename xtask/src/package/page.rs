//! `mcpinspectd.toml(5)`, generated from the shipped configuration file.
//!
//! That file explains every setting next to its default, and a test compares it with the settings
//! that the daemon has. The page is the same text: a comment block that ends in a setting (or in a
//! commented one, which has no default) becomes an entry, a block on its own becomes a paragraph.

use std::fmt::Write as _;

/// The page for the text of `config.toml`.
pub(super) fn of_configuration(settings: &str, version: &str) -> String {
    let mut page = format!(
        ".TH mcpinspectd.toml 5 \"\" \"mcpinspectd {version}\" \"mcpinspectd\"\n\
         .SH NAME\nmcpinspectd.toml \\- settings of mcpinspectd\n\
         .SH SYNOPSIS\n/etc/mcpinspectd/config.toml\n.SH DESCRIPTION\n"
    );
    for block in settings.split("\n\n") {
        let lines: Vec<&str> = block.lines().collect();
        let mut comment = Vec::new();
        if let Some(table) = table_shown(block) {
            let _ = writeln!(page, ".SH \"{}\"", escape(table));
        }
        for line in lines {
            let line = line.trim_end();
            if let Some(section) = line.strip_prefix('[') {
                flush(&mut page, &mut comment);
                let _ = writeln!(page, ".SH \"[{}\"", escape(section));
            } else if let Some(text) = line.strip_prefix("# ") {
                comment.push(text);
            } else if line == "#" {
                comment.push("");
            } else if let Some(example) = line.strip_prefix('#') {
                match example.split_once(" = ") {
                    Some((key, value)) if table_shown(block).is_none() => {
                        entry(
                            &mut page,
                            &mut comment,
                            key,
                            &format!("unset; for example {value}"),
                        );
                    }
                    _ => {
                        flush(&mut page, &mut comment);
                        let _ = writeln!(page, ".br\n\\fB{}\\fR", escape(example));
                    }
                }
            } else if let Some((key, value)) = line.split_once(" = ") {
                entry(&mut page, &mut comment, key, value);
            }
        }
        flush(&mut page, &mut comment);
    }
    page.push_str(
        ".SH FILES\n.TP\n.B /etc/mcpinspectd/config.toml\nThe installed file contains every setting \
         with its default.\n.SH SEE ALSO\n.BR mcpinspectd (8),\n.BR mcpinspect (1)\n",
    );
    page
}

/// The table that a block shows examples of; they stay together.
fn table_shown(block: &str) -> Option<&str> {
    let table = block.lines().find(|line| line.starts_with("#[["))?;
    table.strip_prefix('#')
}

fn entry(page: &mut String, comment: &mut Vec<&str>, key: &str, value: &str) {
    let _ = writeln!(page, ".TP\n\\fB{}\\fR ({})", escape(key), escape(value));
    for text in comment.drain(..) {
        let _ = writeln!(page, "{}", escape(text));
    }
}

/// Writes a comment of its own as a paragraph; indented lines stay lines.
fn flush(page: &mut String, comment: &mut Vec<&str>) {
    if comment.is_empty() {
        return;
    }
    page.push_str(".PP\n");
    for text in comment.drain(..) {
        if text.is_empty() {
            page.push_str(".PP\n");
        } else if text.starts_with(' ') {
            let _ = writeln!(page, ".br\n{}", escape(text.trim_start()));
        } else {
            let _ = writeln!(page, "{}", escape(text));
        }
    }
}

/// A line of text that roff does not mistake for a command.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::of_configuration;

    #[test]
    fn settings_become_entries() {
        let page = of_configuration(
            "# All of it.\n\n[events]\n# The journal.\njournal = true\n\n# A file.\n#jsonl = \"/x\"\n",
            "1.0",
        );
        for part in [
            ".PP\nAll of it.\n",
            ".SH \"[events]\"\n",
            ".TP\n\\fBjournal\\fR (true)\nThe journal.\n",
            ".TP\n\\fBjsonl\\fR (unset; for example \"/x\")\nA file.\n",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
    }

    #[test]
    fn examples_stay_together_and_nothing_is_a_command() {
        let page = of_configuration("# .so /etc/passwd\n#[[a.b]]\n#c = \"d\\\\e\"\n", "1");
        assert!(page.contains("\\&.so /etc/passwd"), "{page}");
        assert!(page.contains(".SH \"[[a.b]]\"\n"), "{page}");
        assert!(
            page.contains(".br\n\\fB[[a.b]]\\fR\n.br\n\\fBc = \"d\\e\\ee\"\\fR\n"),
            "{page}"
        );
    }
}
