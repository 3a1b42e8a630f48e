//! Key formats that have a fixed prefix and a body of known letters.
//!
//! To support another vendor, add it to the table. A prefix alone is never enough: the body has to be long
//! enough. If the prefix is ordinary text (`sk-`, `SG.`), the body also has to contain a digit, which a
//! random key of that length almost always does and a hyphenated word almost never.

/// The letters that the body of a key consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// `A-Z 0-9`
    Upper,
    /// `A-Z a-z 0-9`
    Alnum,
    /// `A-Z a-z 0-9 _ -`
    UrlSafe,
    /// [`Body::UrlSafe`] and `.`, for keys of several parts
    Dotted,
    /// `A-Z a-z 0-9 . _ ~ + / = -`: what may follow an authentication scheme (RFC 9110 token68)
    Token68,
}

impl Body {
    /// How many classes there are; caches are indexed by class.
    pub(super) const COUNT: usize = 5;

    pub(super) fn has(self, b: u8) -> bool {
        match self {
            Self::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Self::Alnum => b.is_ascii_alphanumeric(),
            Self::UrlSafe => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'),
            Self::Dotted => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'),
            Self::Token68 => {
                b.is_ascii_alphanumeric()
                    || matches!(b, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'-')
            }
        }
    }
}

/// One vendor's format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// What every key begins with, in this case.
    pub(super) prefix: &'static str,
    pub(super) kind: &'static str,
    pub(super) body: Body,
    /// The fewest letters after the prefix.
    pub(super) min: usize,
    /// The most letters after the prefix; a longer run is something else.
    pub(super) max: usize,
    /// Whether the body has to contain a digit.
    pub(super) digit: bool,
}

const fn key(prefix: &'static str, kind: &'static str, body: Body, min: usize) -> Format {
    Format {
        prefix,
        kind,
        body,
        min,
        max: usize::MAX,
        digit: true,
    }
}

const fn aws(prefix: &'static str) -> Format {
    Format {
        prefix,
        kind: "aws_key",
        body: Body::Upper,
        min: 16,
        max: 16,
        digit: false,
    }
}

use Body::{Alnum, Dotted, UrlSafe};

/// Every format. Minimum lengths are a little below the vendors' own, so that a new generation of keys, or a
/// key that was cut, is still caught.
pub(super) const FORMATS: &[Format] = &[
    aws("AKIA"),
    aws("ASIA"),
    aws("ABIA"),
    aws("ACCA"),
    key("ghp_", "github_token", Alnum, 20),
    key("gho_", "github_token", Alnum, 20),
    key("ghu_", "github_token", Alnum, 20),
    key("ghs_", "github_token", Alnum, 20),
    key("ghr_", "github_token", Alnum, 20),
    key("github_pat_", "github_token", UrlSafe, 20),
    key("glpat-", "gitlab_token", Dotted, 16),
    key("gldt-", "gitlab_token", Dotted, 16),
    key("glrt-", "gitlab_token", Dotted, 16),
    key("glptt-", "gitlab_token", Dotted, 16),
    key("sk-ant-", "anthropic_key", UrlSafe, 16),
    key("sk-", "openai_key", UrlSafe, 20),
    key("xoxa-", "slack_token", UrlSafe, 10),
    key("xoxb-", "slack_token", UrlSafe, 10),
    key("xoxc-", "slack_token", UrlSafe, 10),
    key("xoxd-", "slack_token", UrlSafe, 10),
    key("xoxe-", "slack_token", UrlSafe, 10),
    key("xoxe.", "slack_token", Dotted, 10),
    key("xoxo-", "slack_token", UrlSafe, 10),
    key("xoxp-", "slack_token", UrlSafe, 10),
    key("xoxr-", "slack_token", UrlSafe, 10),
    key("xoxs-", "slack_token", UrlSafe, 10),
    key("xapp-", "slack_token", UrlSafe, 10),
    key(
        "hooks.slack.com/services/",
        "slack_webhook",
        Body::Token68,
        20,
    ),
    key("AIza", "google_key", UrlSafe, 30),
    key("ya29.", "google_token", Dotted, 20),
    key("GOCSPX-", "google_secret", UrlSafe, 20),
    key("sk_live_", "stripe_key", Alnum, 10),
    key("sk_test_", "stripe_key", Alnum, 10),
    key("rk_live_", "stripe_key", Alnum, 10),
    key("rk_test_", "stripe_key", Alnum, 10),
    key("whsec_", "stripe_key", Body::Token68, 20),
    key("npm_", "npm_token", Alnum, 30),
    key("pypi-", "pypi_token", UrlSafe, 50),
    key("hf_", "huggingface_token", Alnum, 30),
    key("SG.", "sendgrid_key", Dotted, 40),
    key("dop_v1_", "digitalocean_token", Alnum, 40),
    key("shpat_", "shopify_token", Alnum, 30),
    key("lin_api_", "linear_key", Alnum, 30),
    key("ntn_", "notion_token", Alnum, 30),
    key("gsk_", "groq_key", Alnum, 30),
    key("xai-", "xai_key", Alnum, 40),
    key("pplx-", "perplexity_key", Alnum, 40),
    key("tvly-", "tavily_key", UrlSafe, 24),
    key("figd_", "figma_token", UrlSafe, 30),
    key("dckr_pat_", "docker_token", UrlSafe, 20),
    key("ATATT3", "atlassian_token", Body::Token68, 40),
    key("hvs.", "vault_token", UrlSafe, 20),
    key("sntrys_", "sentry_token", Body::Token68, 30),
    key("sbp_", "supabase_key", Alnum, 30),
    key("dapi", "databricks_token", Alnum, 32),
    key("AGE-SECRET-KEY-1", "private_key", Body::Upper, 40),
];
