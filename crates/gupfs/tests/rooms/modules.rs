//! The modules of a crate and which of them use which, read from the source text.
//!
//! A path counts wherever it stands: in `use`, in an expression, in a macro's arguments. A name that a module re-exports counts as
//! its origin's. Modules for tests are left out: they may use what they like.

use crate::source::{self, UsedPath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names of modules from the crate's root; empty for the root.
pub type ModulePath = Vec<String>;

/// A use of one module by another.
pub struct Edge {
    pub from: ModulePath,
    pub to: ModulePath,
    /// "file:line: path", for a person; the file from the folder of the sources.
    pub place: String,
}

#[derive(Default)]
struct Module {
    file: String,
    text: String,
    /// Names that the module has by `use`.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules of which it has all names.
    globs: Vec<Vec<String>>,
}

/// The modules of a crate.
pub struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the crate whose sources are in `src`.
    pub fn read(src: &Path) -> Modules {
        let mut modules = Modules(BTreeMap::new());
        // A package may have a library and a program, each with modules.
        for root in ["lib.rs", "main.rs"].map(|name| src.join(name)) {
            if root.exists() {
                modules.read_module(src, &root, src, Vec::new());
            }
        }
        assert!(
            !modules.0.is_empty(),
            "{}: no lib.rs or main.rs",
            src.display()
        );
        modules
    }

    fn read_module(&mut self, src: &Path, file: &Path, children: &Path, path: ModulePath) {
        let text = source::without_tests(&source::without_comments(
            &std::fs::read_to_string(file).unwrap(),
        ));
        for name in source::declared_modules(&text) {
            let (plain, nested) = (
                children.join(format!("{name}.rs")),
                children.join(&name).join("mod.rs"),
            );
            let mut child = path.clone();
            child.push(name.clone());
            let file = if plain.exists() { plain } else { nested };
            // A module that another attribute than cfg(test) leaves out of the source tree.
            if file.exists() {
                self.read_module(src, &file, &children.join(&name), child);
            }
        }
        let file = file.strip_prefix(src).unwrap_or(file).display().to_string();
        let module = self.0.entry(path).or_insert(Module {
            file,
            ..Module::default()
        });
        module.text.push_str(&text);
    }

    /// Modules directly below `parent`.
    pub fn children(&self, parent: &[String]) -> BTreeSet<String> {
        let below = self
            .0
            .keys()
            .filter(|path| path.len() == parent.len() + 1 && path.starts_with(parent));
        below.map(|path| path[parent.len()].clone()).collect()
    }

    /// Modules that have modules below them, the root first.
    pub fn parents(&self) -> Vec<ModulePath> {
        self.0
            .keys()
            .filter(|path| !self.children(path).is_empty())
            .cloned()
            .collect()
    }

    /// All uses of a module by another.
    pub fn edges(&mut self) -> Vec<Edge> {
        let mut uses: Vec<(ModulePath, UsedPath)> = Vec::new();
        for (path, module) in &mut self.0 {
            for used in source::imports(&module.text) {
                let first = used.segments.first().map(String::as_str);
                let is_local = matches!(first, Some("crate" | "super" | "self"))
                    || source::declared_modules(&module.text)
                        .iter()
                        .any(|name| Some(name.as_str()) == first);
                if !is_local {
                    continue;
                }
                match used.name.as_deref() {
                    Some("*") => module
                        .globs
                        .push(used.segments[..used.segments.len() - 1].to_vec()),
                    Some(name) => drop(
                        module
                            .imports
                            .insert(name.to_string(), used.segments.clone()),
                    ),
                    None => {}
                }
                uses.push((path.clone(), used));
            }
        }
        for (path, module) in &self.0 {
            let children = source::declared_modules(&module.text);
            let others = source::paths(&module.text, &children);
            uses.extend(others.into_iter().map(|used| (path.clone(), used)));
        }
        let mut edges = Vec::new();
        for (from, used) in uses {
            // The root's `pub use` is the crate's face: nothing inside depends on it.
            if from.is_empty() && used.is_reexport {
                continue;
            }
            let to = self.resolve(&from, &used.segments, 0);
            if to != from {
                let place = format!(
                    "{}:{}: {}",
                    self.0[&from].file,
                    used.line,
                    used.segments.join("::")
                );
                edges.push(Edge { from, to, place });
            }
        }
        edges
    }

    /// The module that defines what the path names in `from`.
    fn resolve(&self, from: &[String], segments: &[String], depth: usize) -> ModulePath {
        let mut at = from.to_vec();
        let mut rest = segments;
        if rest.first().is_some_and(|first| first == "crate") {
            (at, rest) = (Vec::new(), &rest[1..]);
        }
        while let Some(first @ ("super" | "self")) = rest.first().map(String::as_str) {
            if first == "super" {
                at.pop();
            }
            rest = &rest[1..];
        }
        while let Some(name) = rest.first() {
            let mut child = at.clone();
            child.push(name.clone());
            if self.0.contains_key(&child) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            let Some(module) = self.0.get(&at).filter(|_| depth < 8) else {
                break;
            };
            if let Some(origin) = module
                .imports
                .get(name)
                .filter(|origin| !(at == from && *origin == segments))
            {
                let origin = self.resolve(&at, origin, depth + 1);
                return match rest.len() {
                    1 => origin,
                    _ => self.resolve(&origin, &rest[1..], depth + 1),
                };
            }
            let globs = module
                .globs
                .iter()
                .map(|glob| self.resolve(&at, glob, depth + 1));
            let mut definers = globs.filter(|glob| {
                *glob != at
                    && self
                        .0
                        .get(glob)
                        .is_some_and(|of| source::defines(&of.text, name))
            });
            return definers.next().unwrap_or(at);
        }
        at
    }
}

/// Which of the modules directly below `parent` uses which, with the places; the name "(root)" stands for the crate's root.
pub fn among_siblings<'a>(
    edges: &'a [Edge],
    parent: &[String],
) -> BTreeMap<String, BTreeMap<String, Vec<&'a str>>> {
    let mut used: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    let side = |path: &ModulePath| match path.get(parent.len()) {
        Some(name) => Some(name.clone()),
        // Below the root a child may use what its parent defines.
        None => parent.is_empty().then(|| "(root)".to_string()),
    };
    for edge in edges {
        if !edge.from.starts_with(parent) || !edge.to.starts_with(parent) {
            continue;
        }
        if let (Some(from), Some(to)) = (side(&edge.from), side(&edge.to))
            && from != to
        {
            used.entry(from)
                .or_default()
                .entry(to)
                .or_default()
                .push(&edge.place);
        }
    }
    used
}

/// What is left when everything that uses nothing, or that nothing uses, has been taken away again and again: the members of
/// cycles, and what lies between two cycles.
pub fn cyclic<T>(uses: &BTreeMap<String, BTreeMap<String, T>>) -> BTreeSet<String> {
    let mut left: BTreeSet<String> = uses.keys().cloned().collect();
    loop {
        let uses_another = |name: &String| uses[name].keys().any(|used| left.contains(used));
        let is_used = |name: &String| left.iter().any(|user| uses[user].contains_key(name));
        let rest: BTreeSet<String> = left
            .iter()
            .filter(|name| uses_another(name) && is_used(name))
            .cloned()
            .collect();
        if rest.len() == left.len() {
            return rest;
        }
        left = rest;
    }
}
