//! The modules of one crate, and where the paths in them lead.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::scan::{self, Body, Mention, Use};

/// How many re-exports a path may lead through.
const LONGEST_CHAIN: usize = 16;

/// A crate, from its root file down.
pub(super) struct Crate {
    pub(super) modules: Vec<Module>,
}

/// A module: a file, or a part of one in braces.
pub(super) struct Module {
    /// Its name; the crate's for the root.
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    pub(super) file: PathBuf,
    /// The module whose file it is written in: itself, unless it is in braces.
    pub(super) home: usize,
    children: HashMap<String, usize>,
    /// Names that `use` binds, and what they stand for.
    names: HashMap<String, Vec<String>>,
    uses: Vec<Use>,
    mentions: Vec<Mention>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Something that this module defines.
    Item(usize),
    /// The module itself.
    Module(usize),
    /// Another crate, by name.
    Foreign(String),
}

/// A path in a file that leads to another place.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// The module of the file that names the path.
    pub(super) from: usize,
    pub(super) target: Target,
    pub(super) line: usize,
    pub(super) path: String,
}

impl Crate {
    /// Reads a crate's files, beginning with `root`. Files are found as the compiler finds them;
    /// anything compiled only for tests is left out.
    pub(super) fn read(
        name: &str,
        root: &Path,
        load: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<Self> {
        let mut made = Self {
            modules: Vec::new(),
        };
        let text = load(root).with_context(|| format!("{} is missing", root.display()))?;
        let body = scan::scan(&text).with_context(|| root.display().to_string())?;
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        made.add(name, None, root, None, &folder, body, load)?;
        Ok(made)
    }

    /// Adds a module whose children's files are in `folder`.
    #[expect(
        clippy::too_many_arguments,
        reason = "each describes where the module is"
    )]
    fn add(
        &mut self,
        name: &str,
        parent: Option<usize>,
        file: &Path,
        home: Option<usize>,
        folder: &Path,
        body: Body,
        load: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<usize> {
        let index = self.modules.len();
        let names = body.uses.iter().filter_map(|found| {
            let name = found.name.as_ref()?;
            Some((name.clone(), found.path.clone()))
        });
        self.modules.push(Module {
            name: name.to_owned(),
            parent,
            file: file.to_owned(),
            home: home.unwrap_or(index),
            children: HashMap::new(),
            names: names.collect(),
            uses: body.uses,
            mentions: body.mentions,
        });
        for child in body.children {
            let inside = folder.join(&child.name);
            let added = if let Some(body) = child.inline {
                let home = self.modules[index].home;
                self.add(
                    &child.name,
                    Some(index),
                    file,
                    Some(home),
                    &inside,
                    body,
                    load,
                )?
            } else {
                let beside = file.parent().unwrap_or(Path::new(""));
                let candidates = match &child.file {
                    Some(named) => vec![beside.join(named)],
                    None => vec![
                        folder.join(format!("{}.rs", child.name)),
                        inside.join("mod.rs"),
                    ],
                };
                let (file, text) = candidates
                    .iter()
                    .find_map(|file| Some((file, load(file)?)))
                    .with_context(|| {
                        format!("{}: no file for `mod {}`", file.display(), child.name)
                    })?;
                let body = scan::scan(&text).with_context(|| file.display().to_string())?;
                self.add(&child.name, Some(index), file, None, &inside, body, load)?
            };
            self.modules[index].children.insert(child.name, added);
        }
        Ok(index)
    }

    /// The path of a module, as `crate_name::a::b`.
    pub(super) fn path(&self, module: usize) -> String {
        let mut names: Vec<&str> = self
            .ancestors(module)
            .map(|at| &*self.modules[at].name)
            .collect();
        names.reverse();
        names.join("::")
    }

    /// A module and the ones around it, up to the root.
    pub(super) fn ancestors(&self, module: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(module), |&at| self.modules[at].parent)
    }

    /// All paths that lead out of their file, one for each pair of a file and a target. A re-export
    /// alone is not among them: it is a signpost, and the module that follows it is counted as
    /// depending on the place to which it points.
    pub(super) fn references(&self) -> Vec<Reference> {
        let mut found: BTreeMap<(usize, String), Reference> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imports = module.uses.iter().filter(|import| !import.reexport);
            let paths = imports
                .map(|import| (&import.path, import.line, Some(import.name.is_none())))
                .chain(
                    module
                        .mentions
                        .iter()
                        .map(|mention| (&mention.path, mention.line, None)),
                );
            for (path, line, glob) in paths {
                let target = match self.resolve(index, path) {
                    Some(Target::Module(to)) if glob == Some(true) => Target::Item(to),
                    // `use aya as bpf;`
                    None if glob.is_some() => Target::Foreign(path.concat()),
                    // A module's name alone uses nothing from it; the paths that begin with it do.
                    Some(Target::Module(_)) | None => continue,
                    Some(target) => target,
                };
                let target = match target {
                    Target::Item(to) => Target::Item(self.modules[to].home),
                    other => other,
                };
                if target == Target::Item(module.home) {
                    continue;
                }
                let reference = Reference {
                    from: module.home,
                    target,
                    line,
                    path: path.join("::"),
                };
                let key = (module.home, format!("{:?}", reference.target));
                let kept = found.entry(key).or_insert_with(|| reference.clone());
                if kept.line > line {
                    *kept = reference;
                }
            }
        }
        found.into_values().collect()
    }

    /// What a path in the module `from` leads to. `None` for a name that is bound there
    /// (a local item, a variable, the prelude).
    fn resolve(&self, from: usize, path: &[String]) -> Option<Target> {
        self.resolve_within(from, path, LONGEST_CHAIN)
    }

    fn resolve_within(&self, from: usize, path: &[String], chain: usize) -> Option<Target> {
        let chain = chain.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "" => Some(Target::Foreign(rest.first()?.clone())),
            "crate" => self.walk(0, rest, chain),
            "self" => self.walk(from, rest, chain),
            "super" => {
                let parent = self.modules[from].parent?;
                let above = rest
                    .iter()
                    .take_while(|segment| *segment == "super")
                    .count();
                let top = (0..above).try_fold(parent, |at, _| self.modules[at].parent)?;
                self.walk(top, &rest[above..], chain)
            }
            name => {
                let module = &self.modules[from];
                if let Some(&child) = module.children.get(name) {
                    return self.walk(child, rest, chain);
                }
                match module.names.get(name) {
                    // `use serde_json;` binds the name to itself.
                    Some(bound) if bound.as_slice() != [name] => {
                        let full: Vec<String> = bound.iter().chain(rest).cloned().collect();
                        self.resolve_within(from, &full, chain)
                    }
                    None if rest.is_empty() => None,
                    _ => Some(Target::Foreign(name.to_owned())),
                }
            }
        }
    }

    /// Follows a path downwards from a module, through re-exports.
    fn walk(&self, from: usize, path: &[String], chain: usize) -> Option<Target> {
        let Some((first, rest)) = path.split_first() else {
            return Some(Target::Module(from));
        };
        let module = &self.modules[from];
        if let Some(&child) = module.children.get(first) {
            return self.walk(child, rest, chain);
        }
        let Some(bound) = module.names.get(first) else {
            return Some(Target::Item(from));
        };
        let full: Vec<String> = bound.iter().chain(rest).cloned().collect();
        match self.resolve_within(from, &full, chain)? {
            // Another crate's item, passed on by this module.
            Target::Foreign(_) => Some(Target::Item(from)),
            inside => Some(inside),
        }
    }
}
