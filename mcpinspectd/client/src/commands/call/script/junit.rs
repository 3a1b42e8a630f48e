//! The outcome of a script as JUnit XML, which every CI shows.

use std::io::{self, Write};

use mcpinspect_core::text::escape::markup;

use super::read::Script;
use super::run::StepResult;
use super::title;

/// Writes one test case per step; those that did not run are skipped.
pub fn write(out: &mut dyn Write, script: &Script, ran: &[StepResult]) -> io::Result<()> {
    let find = |at: usize| ran.iter().find(|ran| ran.at == at);
    let tests = script.steps.len();
    let failures = ran.iter().filter(|ran| !ran.envelope.has_passed()).count();
    let skipped = tests - ran.len();
    let seconds: f64 = ran.iter().map(|ran| ran.envelope.seconds()).sum();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.6}\""
    );
    writeln!(out, "<testsuites {counts}>")?;
    writeln!(out, "  <testsuite name=\"mcpinspect call\" {counts}>")?;
    for (at, step) in script.steps.iter().enumerate() {
        let name = markup(&title(at, step.name.as_deref()));
        let class = markup(&step.request.method);
        write!(out, "    <testcase name=\"{name}\" classname=\"{class}\"")?;
        let Some(ran) = find(at) else {
            writeln!(out, "><skipped/></testcase>")?;
            continue;
        };
        write!(out, " time=\"{:.6}\"", ran.envelope.seconds())?;
        if ran.envelope.has_passed() {
            writeln!(out, "/>")?;
            continue;
        }
        let (kind, message) = ran.envelope.complaint();
        let (kind, message) = (markup(kind), markup(&message));
        writeln!(
            out,
            "><failure type=\"{kind}\" message=\"{message}\"/></testcase>"
        )?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}
