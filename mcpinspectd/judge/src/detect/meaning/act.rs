//! What a sentence may ask of an agent that a description has no business asking.

use crate::detect::category::Category;

/// An act.
#[derive(Debug)]
pub struct Act {
    /// Its name in training data.
    pub name: &'static str,
    /// The id of its finding; suppressions name it.
    pub pattern: &'static str,
    /// The category of its finding.
    pub category: Category,
    /// The sentence that explains it.
    pub says: &'static str,
}

const fn act(
    name: &'static str,
    pattern: &'static str,
    category: Category,
    says: &'static str,
) -> Act {
    Act {
        name,
        pattern,
        category,
        says,
    }
}

/// All acts, in the order of the model's answers.
pub const ACTS: [Act; 12] = [
    act(
        "orders_other_tool",
        "meaning-orders-other-tool",
        Category::ForcedPrerequisite,
        "Ties the use of another tool to this one.",
    ),
    act(
        "adds_arguments",
        "meaning-adds-arguments",
        Category::ArgumentHijack,
        "Adds to the arguments of a call, or changes them.",
    ),
    act(
        "scripts_answer",
        "meaning-scripts-answer",
        Category::HiddenInstructions,
        "Tells the agent what to answer the user, whatever happened.",
    ),
    act(
        "hides_from_user",
        "meaning-hides-from-user",
        Category::Concealment,
        "Keeps something from the user.",
    ),
    act(
        "sends_outward",
        "meaning-sends-outward",
        Category::Exfiltration,
        "Has data passed on that the tool does not need.",
    ),
    act(
        "skips_confirmation",
        "meaning-skips-confirmation",
        Category::HiddenInstructions,
        "Has the agent act without asking the user.",
    ),
    act(
        "runs_as_check",
        "meaning-runs-as-check",
        Category::CommandInjection,
        "Has a command run or a file read as if it were a check.",
    ),
    act(
        "collects_context",
        "meaning-collects-context",
        Category::ContextLeak,
        "Collects what the agent knows: the conversation, its instructions, its tools.",
    ),
    act(
        "praises_itself",
        "meaning-praises-itself",
        Category::PreferenceManipulation,
        "Wants to be preferred to other tools.",
    ),
    act(
        "disables_rival",
        "meaning-disables-rival",
        Category::PreferenceManipulation,
        "Says that another tool must not be used.",
    ),
    act(
        "claims_authority",
        "meaning-claims-authority",
        Category::HiddenInstructions,
        "Claims an authority that a tool's description does not have.",
    ),
    act(
        "waits_for_trigger",
        "meaning-waits-for-trigger",
        Category::HiddenInstructions,
        "Asks for something else once a condition is met.",
    ),
];
