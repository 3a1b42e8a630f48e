//! The policy that the daemon evaluates for each message.

use std::sync::Arc;

use mcpinspect_settings::config::PolicySection;
use mcpinspect_settings::policy_files;
use mcpinspectd::pipeline::ShadowPolicy;

/// Reads the policy, if there is one.
///
/// # Errors
/// Its mistakes, in words.
pub fn load(section: &PolicySection) -> Result<Option<ShadowPolicy>, String> {
    if !section.enabled || !section.path.exists() {
        return Ok(None);
    }
    let loaded = policy_files::load(std::slice::from_ref(&section.path));
    let policy = loaded.map_err(|mistakes| {
        let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        format!("the policy has mistakes: {}", mistakes.join("; "))
    })?;
    if policy.rules().is_empty() {
        return Ok(None);
    }
    tracing::info!(rules = policy.rules().len(), policy = %section.path.display(), "policy loaded");
    Ok(Some(ShadowPolicy {
        policy: Arc::new(policy),
        zone: policy_files::zone(),
        users: policy_files::users(),
    }))
}
