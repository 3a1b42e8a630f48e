//! Reads a policy, and shows its mistakes.

use std::path::PathBuf;

use mcpinspect_cli::terminal;
use mcpinspect_judge::policy::Policy;
use mcpinspect_settings::policy_files;
pub use mcpinspect_settings::policy_files::zone;

/// The policy in these files and directories. `None` if there is a mistake in it, which is reported on standard
/// error: half a policy is no policy.
pub fn load(paths: &[PathBuf]) -> Option<Policy> {
    let loaded = policy_files::load(paths);
    loaded
        .map_err(|errors| {
            for error in &errors {
                terminal::complain(format_args!("{error}"));
            }
        })
        .ok()
}
