//! Compares docs/glossary.md with the code, and public type names with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All source files of the crates and tools, each with its crate's name. Tests and examples are not among them.
fn sources() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let folders = ["crates", "tools"].map(|folder| project().join(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        collect(&path.join("src"), &name, &mut found);
    }
    assert!(found.len() > 300, "{} source files", found.len());
    found
}

fn collect(dir: &Path, name: &str, found: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, name, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((name.to_string(), path));
        }
    }
}

/// The name that a line defines, if it begins with one of these.
fn defined<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let keyword_and_name = line.trim_start();
    let after = keywords
        .iter()
        .find_map(|keyword| keyword_and_name.strip_prefix(keyword))?;
    let end = after
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(after.len());
    (end > 0).then(|| &after[..end])
}

/// Identifiers in the last column of the glossary's tables.
fn glossary_identifiers() -> Vec<String> {
    let text = std::fs::read_to_string(project().join("docs/glossary.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next())
        .flat_map(|column| column.split('`').skip(1).step_by(2))
        .map(String::from)
        .collect()
}

#[test]
fn every_identifier_of_the_glossary_exists() {
    let mut names = BTreeSet::new();
    for (name, path) in sources() {
        names.insert(format!("gupfs_{name}"));
        let text = std::fs::read_to_string(path).unwrap();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        names.extend(code.flat_map(|line| line.split(|c| !is_part(c)).map(String::from)));
    }
    let listed = glossary_identifiers();
    assert!(listed.len() >= 300, "{} identifiers", listed.len());
    let missing: Vec<&String> = listed
        .iter()
        .filter(|name| !names.contains(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/glossary.md names what does not exist: {missing:?}"
    );
}

/// Programs and tests of their own, which no other crate builds upon.
const PROGRAMS: &[&str] = &["bench", "conform", "sim", "suite", "verify"];

/// Public types of two crates with the same name; each has the reason why they cannot be confused.
const SHARED_NAMES: &[(&str, &str)] = &[
    ("Client", "gupfs: the subcommand of that name"),
    (
        "EntryName",
        "a name in a directory, as the kernel sends it and as the client takes it",
    ),
    ("Layout", "gupfs: the subcommand of that name"),
    ("Lock", "fuse: the request of that name"),
    ("Log", "gupfs: a section of the configuration"),
    ("Mds", "gupfs: the subcommand of that name"),
    ("Mount", "gupfs: the subcommand of that name"),
    ("Node", "platform: an entry of the simulated disk"),
    ("Oss", "gupfs: the subcommand of that name"),
    ("OstPeer", "the same: where requests to an OST go"),
    ("RequestCounts", "counters of the requests of one crate"),
    ("Result", "the crate's own results"),
    ("Set", "gupfs: the subcommand of that name"),
    ("SetTime", "utimensat's argument in two protocols"),
];

#[test]
fn no_public_type_name_has_two_meanings() {
    let keywords = [
        "pub struct ",
        "pub enum ",
        "pub trait ",
        "pub type ",
        "pub union ",
    ];
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, path) in sources() {
        if PROGRAMS.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let public = text.lines().filter(|line| line.starts_with("pub "));
        for type_name in public.filter_map(|line| defined(line, &keywords)) {
            let crates = found.entry(type_name.to_string()).or_default();
            crates.insert(name.clone());
        }
    }
    found.retain(|_, crates| crates.len() > 1);
    let is_shared = |name: &str| SHARED_NAMES.iter().any(|(shared, _)| *shared == name);
    let twice: Vec<_> = found.iter().filter(|(name, _)| !is_shared(name)).collect();
    assert!(twice.is_empty(), "type names with two meanings: {twice:?}");
    let once: Vec<_> = SHARED_NAMES
        .iter()
        .filter(|(name, _)| !found.contains_key(*name))
        .collect();
    assert!(once.is_empty(), "no longer shared: {once:?}");
}
