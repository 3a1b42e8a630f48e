//! What one source file declares and which paths it names, read from its tokens.
//!
//! Tokens are enough: comments and string contents are gone, groups are nested, and, unlike in a
//! syntax tree, the paths inside macro calls are visible. They also cost a fraction of the time
//! that a full parser takes to compile, and every first `cargo xtask` waits for that.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// The contents of one module, without anything compiled only for tests.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) children: Vec<Child>,
    pub(super) uses: Vec<Use>,
    pub(super) mentions: Vec<Mention>,
}

/// A `mod` declaration.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: String,
    /// The file, if a `path` attribute names it.
    pub(super) file: Option<String>,
    /// The contents, if they follow in braces.
    pub(super) inline: Option<Body>,
}

/// One leaf of a `use` declaration.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) path: Vec<String>,
    /// The name that it binds: `None` for `*`.
    pub(super) name: Option<String>,
    /// Whether it passes the name on to other modules.
    pub(super) reexport: bool,
    pub(super) line: usize,
}

/// A path, or a single name, in code.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// Reads a file.
pub(super) fn scan(text: &str) -> Result<Body> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let mut body = Body::default();
    scan_tokens(tokens, &mut body);
    Ok(body)
}

fn scan_tokens(tokens: TokenStream, body: &mut Body) {
    let mut cursor = Cursor::new(tokens);
    while !cursor.at_end() {
        cursor.item(body);
    }
}

/// A position in the tokens of one group.
struct Cursor {
    tokens: Vec<TokenTree>,
    at: usize,
}

impl Cursor {
    fn new(tokens: TokenStream) -> Self {
        Self {
            tokens: tokens.into_iter().collect(),
            at: 0,
        }
    }

    fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn peek(&self, ahead: usize) -> Option<&TokenTree> {
        self.tokens.get(self.at + ahead)
    }

    fn punct(&self, ahead: usize, wanted: char) -> bool {
        matches!(self.peek(ahead), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
    }

    fn ident(&self, ahead: usize) -> Option<String> {
        match self.peek(ahead)? {
            TokenTree::Ident(ident) => Some(ident.to_string().trim_start_matches("r#").to_owned()),
            _ => None,
        }
    }

    fn group(&self, ahead: usize, delimiter: Delimiter) -> Option<&Group> {
        match self.peek(ahead)? {
            TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
            _ => None,
        }
    }

    fn line(&self) -> usize {
        self.peek(0).map_or(0, |token| token.span().start().line)
    }

    /// Whether `::` starts here.
    fn separator(&self, ahead: usize) -> bool {
        self.at_separator(self.at + ahead)
    }

    fn at_separator(&self, at: usize) -> bool {
        let colon = |at: usize| match self.tokens.get(at) {
            Some(TokenTree::Punct(punct)) if punct.as_char() == ':' => Some(punct.spacing()),
            _ => None,
        };
        colon(at) == Some(Spacing::Joint) && colon(at + 1).is_some()
    }

    /// Whether the token before this one is `wanted`.
    fn after(&self, wanted: char) -> bool {
        let before = |back: usize| match self.at.checked_sub(back).map(|at| &self.tokens[at]) {
            Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
            _ => None,
        };
        before(1) == Some(wanted) && (wanted != '.' || before(2) != Some('.'))
    }

    fn after_word(&self, wanted: &str) -> bool {
        self.at > 0 && matches!(&self.tokens[self.at - 1], TokenTree::Ident(i) if i == wanted)
    }

    /// Reads whatever starts here, with the attributes in front of it.
    fn item(&mut self, body: &mut Body) {
        let mut file = None;
        let mut tests = false;
        while self.punct(0, '#') {
            let inner = usize::from(self.punct(1, '!'));
            let Some(group) = self.group(1 + inner, Delimiter::Bracket) else {
                break;
            };
            let attribute = Attribute::read(group);
            tests |= attribute.tests;
            file = attribute.file.or(file);
            if !attribute.tests {
                body.mentions.extend(attribute.mentions);
            } else if inner == 1 {
                // This entire module is for tests.
                self.at = self.tokens.len();
                return;
            }
            self.at += 2 + inner;
        }
        if tests {
            self.skip_item();
            return;
        }
        let public = self.visibility();
        match self.ident(0).as_deref() {
            Some("use") if !self.punct(1, '<') => self.use_declaration(public, body),
            Some("mod") if self.ident(1).is_some() => self.module(file, body),
            Some(_) => self.path(body),
            None => self.other(body),
        }
    }

    /// Steps over `pub` and its restriction, whose path is not a dependency.
    fn visibility(&mut self) -> bool {
        if self.ident(0).as_deref() != Some("pub") {
            return false;
        }
        self.at += 1;
        let restricted = self
            .group(0, Delimiter::Parenthesis)
            .and_then(|group| group.stream().into_iter().next())
            .is_some_and(|first| {
                ["crate", "self", "super", "in"].contains(&first.to_string().as_str())
            });
        self.at += usize::from(restricted);
        true
    }

    fn module(&mut self, file: Option<String>, body: &mut Body) {
        let name = self.ident(1).unwrap_or_default();
        let inline = self.group(2, Delimiter::Brace).map(|group| {
            let mut inner = Body::default();
            scan_tokens(group.stream(), &mut inner);
            inner
        });
        body.children.push(Child { name, file, inline });
        self.at += 3;
    }

    fn use_declaration(&mut self, reexport: bool, body: &mut Body) {
        self.at += 1;
        let mut leaves = Vec::new();
        self.use_tree(Vec::new(), reexport, &mut leaves);
        body.uses.append(&mut leaves);
        self.at += usize::from(self.punct(0, ';'));
    }

    fn use_tree(&mut self, mut path: Vec<String>, reexport: bool, leaves: &mut Vec<Use>) {
        let line = self.line();
        loop {
            if self.separator(0) {
                // At the start of a path: what follows is a crate's name.
                if path.is_empty() {
                    path.push(String::new());
                }
                self.at += 2;
            }
            if self.punct(0, '*') {
                self.at += 1;
                leaves.push(Use {
                    path,
                    name: None,
                    reexport,
                    line,
                });
                return;
            }
            if let Some(group) = self.group(0, Delimiter::Brace) {
                let mut inner = Self::new(group.stream());
                while !inner.at_end() {
                    inner.use_tree(path.clone(), reexport, leaves);
                    inner.at += usize::from(inner.punct(0, ','));
                }
                self.at += 1;
                return;
            }
            let Some(segment) = self.ident(0) else {
                // Not Rust: let the compiler say so.
                self.at += 1;
                return;
            };
            self.at += 1;
            // `a::{self}` names `a` itself.
            if segment != "self" || path.is_empty() {
                path.push(segment);
            }
            if !self.separator(0) {
                break;
            }
        }
        let mut name = path.last().cloned();
        if self.ident(0).as_deref() == Some("as") {
            name = self.ident(1);
            self.at += 2;
        }
        leaves.push(Use {
            path,
            name,
            reexport,
            line,
        });
    }

    /// A path or a single name in code.
    fn path(&mut self, body: &mut Body) {
        let line = self.line();
        let mut path = Vec::new();
        // Fields, methods, lifetimes, definitions and macro variables name nothing from elsewhere.
        let mut foreign = self.after('.') || self.after('\'') || self.after_word("fn");
        foreign |= self.after('$') && self.ident(0).as_deref() != Some("crate");
        if self.after(':') && self.at > 1 && self.at_separator(self.at - 2) {
            match self.at.checked_sub(3).map(|at| &self.tokens[at]) {
                // `<T as Trait>::Name`
                Some(TokenTree::Punct(punct)) if punct.as_char() == '>' => foreign = true,
                // `::name` is a crate's name.
                _ => path.push(String::new()),
            }
        }
        while let Some(segment) = self.ident(0) {
            path.push(segment);
            self.at += 1;
            if !self.separator(0) || self.ident(2).is_none() {
                break;
            }
            self.at += 2;
        }
        // A lower-case name by itself is a variable or a field, unless it is called.
        let called = self.group(0, Delimiter::Parenthesis).is_some();
        let variable = path.len() == 1 && path[0].starts_with(char::is_lowercase) && !called;
        if !foreign && !variable {
            body.mentions.push(Mention { path, line });
        }
    }

    fn other(&mut self, body: &mut Body) {
        if let Some(TokenTree::Group(group)) = self.peek(0) {
            let stream = group.stream();
            scan_tokens(stream, body);
        }
        self.at += 1;
    }

    /// Steps over the item, statement, field or variant that an attribute excludes.
    fn skip_item(&mut self) {
        self.visibility();
        let to_semicolon = ["use", "const", "static", "type", "let"];
        let to_brace = [
            "fn",
            "impl",
            "struct",
            "enum",
            "trait",
            "mod",
            "unsafe",
            "async",
            "extern",
            "union",
            "macro_rules",
        ];
        let first = self.ident(0).unwrap_or_default();
        // `const fn`, and the like.
        let function = self
            .ident(1)
            .is_some_and(|word| to_brace.contains(&word.as_str()));
        let statement = to_semicolon.contains(&first.as_str()) && !function;
        let item = to_brace.contains(&first.as_str()) || function;
        while !self.at_end() {
            let brace = self.group(0, Delimiter::Brace).is_some() && !statement;
            let end = brace || self.punct(0, ';') || (self.punct(0, ',') && !item && !statement);
            self.at += 1;
            if end {
                return;
            }
        }
    }
}

/// The relevant parts of an attribute.
struct Attribute {
    /// It limits what follows to tests.
    tests: bool,
    file: Option<String>,
    mentions: Vec<Mention>,
}

impl Attribute {
    fn read(group: &Group) -> Self {
        let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
        let name = tokens.first().map(ToString::to_string).unwrap_or_default();
        let mut attribute = Self {
            tests: name == "test",
            file: None,
            mentions: Vec::new(),
        };
        match (name.as_str(), tokens.get(1), tokens.get(2)) {
            ("cfg", Some(TokenTree::Group(condition)), _) => {
                attribute.tests = needs_test(condition.stream());
            }
            ("path", _, Some(TokenTree::Literal(file))) => {
                attribute.file = Some(file.to_string().trim_matches('"').to_owned());
            }
            ("doc", ..) => {}
            _ => {
                let mut body = Body::default();
                scan_tokens(group.stream(), &mut body);
                if name == "serde" {
                    functions(group.stream(), &mut body.mentions);
                }
                attribute.mentions = body.mentions;
            }
        }
        attribute
    }
}

/// Whether a `cfg` condition holds only in tests: `test`, or `all(…)` with it.
fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Ident(ident) => ident == "test",
        TokenTree::Group(group) => {
            let all = at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(i) if i == "all");
            all && needs_test(group.stream())
        }
        _ => false,
    })
}

/// Serde names functions in strings, as in `deserialize_with = "size::seconds"`.
fn functions(tokens: TokenStream, mentions: &mut Vec<Mention>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => functions(group.stream(), mentions),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let path = text.trim_matches('"');
                let plain = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                if path.contains("::") && path.chars().all(plain) {
                    mentions.push(Mention {
                        path: path.split("::").map(str::to_owned).collect(),
                        line: literal.span().start().line,
                    });
                }
            }
            _ => {}
        }
    }
}
