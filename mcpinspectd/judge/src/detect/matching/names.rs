//! Names in a text, and what they say.
//!
//! A text that mentions its own tool or parameters speaks about itself. A text that names another tool, a
//! path or a key does not, and the form of some such names shows that they are sensitive.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::detect::cross_server::{MakerCache, Owner, ToolIndex};
use crate::detect::json::Json;
use crate::detect::meaning::token::{NameLookup, TokenClass};
use crate::detect::rules::TokenKind;
use crate::detect::text::extract;
use crate::detect::words::WORDS;

/// What is known about the names in a subject's text.
#[derive(Clone, Debug, Default)]
pub struct KnownNames<'a> {
    /// The subject's own name, in lower case.
    pub own: &'a str,
    /// The tool, if the subject is one. Its parameters and enum values are its own words too.
    pub tool: Option<&'a Json<'a>>,
    /// Those parameters and values, in lower case and sorted. Collected once a text has a word that could be
    /// one of them.
    pub parameters: OnceCell<Vec<Cow<'a, str>>>,
    /// The tools of all servers, and the name of the subject's server.
    pub servers: Option<(&'a ToolIndex, &'a str)>,
    /// Which servers have the same maker, as far as that was compared.
    pub makers: RefCell<MakerCache>,
    /// Whether a name may turn out to be that of another server's tool once the listing is complete.
    pub undecided: Cell<bool>,
}

impl KnownNames<'_> {
    /// The bit of a word that names the subject or one of its parameters.
    pub(super) fn own_word(&self, word: &str) -> Option<u128> {
        let is_parameter = || {
            self.parameters
                .get_or_init(|| self.tool.map(extract::parameter_names).unwrap_or_default())
                .binary_search_by(|name| (**name).cmp(word))
                .is_ok()
        };
        if word == self.own {
            Some(bit(TokenKind::OwnName))
        } else if is_parameter() {
            Some(bit(TokenKind::OwnParameter))
        } else {
            // A server may give any orders about its own tools.
            // Called for names that stand out as such, or are quoted.
            self.is_makers_tool(word).then_some(0)
        }
    }

    /// Whether a name is that of another tool of the same server or maker.
    fn is_makers_tool(&self, word: &str) -> bool {
        self.servers.is_some_and(|(tools, server)| {
            let owner = tools.owner(server, word, &mut self.makers.borrow_mut());
            matches!(owner, Owner::Own | Owner::SameMaker)
        })
    }

    /// The bit of a name that only other makers' tools have.
    pub(super) fn foreign(&self, word: &str) -> u128 {
        let Some((tools, server)) = self.servers else {
            return 0;
        };
        match tools.owner(server, word, &mut self.makers.borrow_mut()) {
            Owner::Foreign => bit(TokenKind::ForeignTool),
            Owner::Undecided => {
                self.undecided.set(true);
                0
            }
            Owner::Nobody | Owner::Own | Owner::SameMaker => 0,
        }
    }
}

impl NameLookup for KnownNames<'_> {
    fn class(&self, word: &str, plain: bool) -> Option<TokenClass> {
        // A name that is an ordinary word is read as that word.
        if plain {
            return None;
        }
        match self.own_word(word) {
            Some(own) if own == bit(TokenKind::OwnName) => return Some(TokenClass::Itself),
            Some(own) if own == bit(TokenKind::OwnParameter) => return Some(TokenClass::Parameter),
            Some(_) => return Some(TokenClass::OwnTool),
            None => {}
        }
        let (tools, server) = self.servers?;
        match tools.owner(server, word, &mut self.makers.borrow_mut()) {
            Owner::Own | Owner::SameMaker => Some(TokenClass::OwnTool),
            Owner::Foreign => Some(TokenClass::ForeignTool),
            Owner::Nobody | Owner::Undecided => None,
        }
    }
}

/// Parts of the names and paths of keys, credentials and accounts.
static SENSITIVE: LazyLock<AhoCorasick> = LazyLock::new(|| any_of(&WORDS.name_parts.sensitive));
/// Parts of the names of tools that have effects.
static RISKY: LazyLock<AhoCorasick> = LazyLock::new(|| any_of(&WORDS.name_parts.risky));

/// An automaton for `words`. Names and paths are short and many, so one pass has to find all words.
#[expect(clippy::expect_used, reason = "the words are the program's own")]
fn any_of(words: &[String]) -> AhoCorasick {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .expect("some dozens of short words")
}

/// The bit of a token.
pub(super) fn bit(token: TokenKind) -> u128 {
    1u128 << token as u32
}

/// What the name of another tool or thing suggests, as bits.
pub(super) fn name_traits(name: &str) -> u128 {
    let risky = name.len() > 4 && RISKY.is_match(name);
    let sensitive = SENSITIVE.is_match(name);
    u128::from(risky) << TokenKind::RiskyName as u32
        | u128::from(sensitive) << TokenKind::TellingName as u32
}

/// What a path suggests about the file, as bits.
pub(super) fn path_traits(path: &str) -> u128 {
    let sensitive = SENSITIVE.is_match(path);
    let temporary =
        path.starts_with("/tmp") || path.starts_with("/var/tmp") || path.starts_with("/dev/shm");
    let hidden = temporary && path.contains("/.");
    u128::from(sensitive) << TokenKind::TellingPath as u32
        | u128::from(hidden) << TokenKind::HiddenPath as u32
}
