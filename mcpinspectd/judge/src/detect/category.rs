//! The vocabulary of findings: kinds of attack, kinds of evidence, surfaces, and parts of a subject.
//!
//! A *category* answers "what is being tried?" and is what people filter by. A kind of *evidence* answers
//! "what suggests that?"; a verdict needs several kinds to agree, because each one alone occurs in honest
//! tools. A *surface* answers "who wrote this text, and who reads it?": the same sentence weighs more in a
//! tool's description than in an e-mail that a tool fetched.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word for it in events and rule files.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The value that `word` names.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What is being tried.
    Category {
        /// Orders to the agent inside text that should only describe.
        HiddenInstructions = "hidden_instructions",
        /// The agent is told to keep something from the user.
        Concealment = "concealment",
        /// Another tool or step must come first, for no reason of the task.
        ForcedPrerequisite = "forced_prerequisite",
        /// The agent is told to change arguments of a call behind the user's back.
        ArgumentHijack = "argument_hijack",
        /// Another server's tool is impersonated or copied, or the agent is told how to use it.
        CrossServerShadowing = "cross_server_shadowing",
        /// The agent is told to read credentials or key files.
        CredentialAccess = "credential_access",
        /// The agent is told to send data somewhere.
        Exfiltration = "exfiltration",
        /// A parameter that collects the conversation, the prompt or secrets.
        ContextLeak = "context_leak",
        /// Characters that a person does not see and a model reads.
        UnicodeSmuggling = "unicode_smuggling",
        /// A payload in base64, hex or percent encoding.
        EncodedPayload = "encoded_payload",
        /// Shell commands or code that the agent is to run.
        CommandInjection = "command_injection",
        /// Paths that lead out of the directory where they belong.
        PathTraversal = "path_traversal",
        /// The tool presses to be preferred over others.
        PreferenceManipulation = "preference_manipulation",
        /// Annotations that contradict what the tool says it does.
        AnnotationDeception = "annotation_deception",
        /// A definition that turned bad after it was trusted.
        RugPull = "rug_pull",
        /// Orders to the agent inside a tool's result.
        ResultInjection = "result_injection",
        /// A call that does what a text ordered, for no other reason that can be seen.
        InjectionObeyed = "injection_obeyed",
        /// A server that uses sampling to steer the model.
        SamplingAbuse = "sampling_abuse",
        /// A server that asks the user for secrets.
        ElicitationAbuse = "elicitation_abuse",
        /// Untrusted text, then private data, then a send.
        ToxicFlow = "toxic_flow",
        /// Calls or messages at an unusual rate.
        RateAnomaly = "rate_anomaly",
        /// A key or a password in plain sight.
        SecretExposure = "secret_exposure",
        /// What one side sent is not what the other has, or hands back.
        WireTampering = "wire_tampering",
    }
}

words! {
    /// What suggests an attack. A verdict needs independent kinds to agree.
    Evidence {
        /// The agent is given an order.
        Directive = "directive",
        /// Something must be kept from the user.
        Secrecy = "secrecy",
        /// The text ranks itself above the user or the system.
        Priority = "priority",
        /// Another tool is tied to this one.
        Coupling = "coupling",
        /// Values that the user chose are replaced.
        Override = "override",
        /// A sensitive file or credential is the object.
        Sensitive = "sensitive",
        /// A place to which data is to go.
        Destination = "destination",
        /// Something is destroyed, disabled or spent.
        Harm = "harm",
        /// A command or code.
        Execution = "execution",
        /// The agent's context is the object.
        Context = "context",
        /// Urgency, threats, appeals to rules.
        Pressure = "pressure",
        /// The tool is advertised against others.
        Preference = "preference",
        /// Text is hidden or fenced off.
        Disguise = "disguise",
        /// A claimed property contradicts the text.
        Contradiction = "contradiction",
        /// Names or descriptions that imitate another server's.
        Imitation = "imitation",
        /// What happened at run time.
        Behaviour = "behaviour",
        /// Ordinary in honest tools: evidence against an attack.
        Honest = "honest",
    }
}

words! {
    /// Who wrote a text and who reads it.
    Surface {
        /// Tools, prompts, resources and instructions that a server declares.
        Definition = "definition",
        /// What a server answers or asks at run time.
        Content = "content",
        /// What the client sends to the server.
        Argument = "argument",
    }
}

words! {
    /// Which part of a subject a text belongs to.
    Part {
        /// The name.
        Name = "name",
        /// The title.
        Title = "title",
        /// The description, or a server's instructions.
        Description = "description",
        /// A key of a schema or of a structured value.
        Key = "key",
        /// A description, default, enum value or example in a schema.
        Schema = "schema",
        /// Anything else.
        Text = "text",
    }
}
