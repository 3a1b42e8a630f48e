//! Has the program behind each server examined, off the data path.
//!
//! Reading a large program takes long, so a separate thread does it. Its result comes back as an
//! input of its own.

use std::borrow::Cow;

use mcpinspect_core::model::Input;

use super::host::Host;
use super::step::Step;

/// Has the program examined when a session's server becomes known, and passes on what was found.
pub(super) fn pass(host: &impl Host, step: Step<'_>, on: &mut dyn FnMut(Step<'_>)) {
    match &step {
        Step::Input(Input::SessionStarted(start)) => {
            if let Some(server) = &start.server_party {
                host.examine(&start.id, server.pid, Some(server.start_time));
            }
        }
        Step::Input(Input::PartiesChanged {
            session,
            server_pid: Some(pid),
            ..
        }) => host.examine(session, *pid, None),
        Step::Input(_) => {}
        Step::Time(now) => {
            while let Some((session, program)) = host.examined() {
                on(Step::Input(Input::Program {
                    session: Cow::Borrowed(&session),
                    definition: program.definition().into(),
                    time: *now,
                }));
            }
        }
    }
    on(step);
}
