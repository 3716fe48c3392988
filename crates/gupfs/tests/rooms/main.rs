//! docs/rooms.toml lists which crate may use which, and which module of a crate may use which; these tests compare it with the
//! code, and forbid cycles.

mod modules;
mod source;

use modules::Modules;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Edges = BTreeMap<String, BTreeSet<String>>;

/// docs/rooms.toml.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    rooms: Edges,
    tests: Edges,
    /// Crate → its module → modules of the same crate that it may use; "(root)" is lib.rs.
    inside: BTreeMap<String, Edges>,
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn allowed() -> Allowed {
    let text = std::fs::read_to_string(project().join("docs/rooms.toml")).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("docs/rooms.toml: {error}"))
}

/// Every crate with its folder: those of the file system, and those of the tools beside it.
fn crates() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for folder in ["crates", "tools"] {
        for entry in std::fs::read_dir(project().join(folder))
            .into_iter()
            .flatten()
        {
            let entry = entry.unwrap();
            if entry.path().join("Cargo.toml").exists() {
                found.insert(entry.file_name().into_string().unwrap(), entry.path());
            }
        }
    }
    found
}

/// The crates of the project that a table of Cargo.toml names.
fn uses(folder: &Path, table: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies = manifest.get(table).and_then(|table| table.as_table());
    dependencies
        .into_iter()
        .flat_map(|table| table.keys())
        .filter_map(|name| name.strip_prefix("gupfs-"))
        .map(String::from)
        .collect()
}

fn fail_if_any(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "docs/rooms.toml:\n{}", wrong.join("\n"));
}

#[test]
fn crates_use_only_crates_they_may() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    for (name, folder) in crates() {
        let Some(may) = allowed.rooms.get(&name) else {
            wrong.push(format!("{name} is not in [rooms]"));
            continue;
        };
        for used in uses(&folder, "dependencies").difference(may) {
            wrong.push(format!("{name} → {used} is not in [rooms]"));
        }
        let none = BTreeSet::new();
        let besides = allowed.tests.get(&name).unwrap_or(&none);
        for used in uses(&folder, "dev-dependencies") {
            if used != name && !may.contains(&used) && !besides.contains(&used) {
                wrong.push(format!("{name}'s tests → {used} is not in [tests]"));
            }
        }
    }
    fail_if_any(wrong);
}

#[test]
fn the_list_names_only_crates_that_exist_and_has_no_cycle() {
    let allowed = allowed();
    let crates = crates();
    let named = allowed
        .rooms
        .iter()
        .chain(&allowed.tests)
        .flat_map(|(name, may)| std::iter::once(name).chain(may));
    let named = named.chain(allowed.inside.keys());
    let unknown: BTreeSet<&String> = named.filter(|name| !crates.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "no such crates: {unknown:?}");
    assert_eq!(
        modules::cyclic(&with_units(&allowed.rooms)),
        BTreeSet::new(),
        "a cycle of crates"
    );
}

fn with_units(edges: &Edges) -> BTreeMap<String, BTreeMap<String, ()>> {
    let units = |may: &BTreeSet<String>| may.iter().map(|name| (name.clone(), ())).collect();
    edges
        .iter()
        .map(|(name, may)| (name.clone(), units(may)))
        .collect()
}

/// Modules directly under src: each edge is listed, each listed edge exists, and the list has no cycle.
#[test]
fn modules_use_only_modules_they_may() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    let none = BTreeSet::new();
    for (name, folder) in crates() {
        let mut modules = Modules::read(&folder.join("src"));
        let edges = modules.edges();
        let Some(inside) = allowed.inside.get(&name) else {
            wrong.push(format!("{name} has no section [inside.{name}]"));
            continue;
        };
        let used = modules::among_siblings(&edges, &[]);
        for module in modules
            .children(&[])
            .iter()
            .filter(|module| !inside.contains_key(*module))
        {
            wrong.push(format!("{name}: module {module} is not in [inside.{name}]"));
        }
        for (from, used) in &used {
            let may = inside.get(from).unwrap_or(&none);
            for (to, places) in used.iter().filter(|(to, _)| !may.contains(*to)) {
                wrong.push(format!(
                    "{name}: {from} → {to} is not in [inside.{name}]: {}",
                    places[0]
                ));
            }
        }
        for (from, may) in inside {
            let uses = |to: &String| used.get(from).is_some_and(|used| used.contains_key(to));
            for to in may.iter().filter(|to| !uses(to)) {
                wrong.push(format!(
                    "{name}: {from} does not use {to}: take it from [inside.{name}]"
                ));
            }
        }
        let cycle = modules::cyclic(&with_units(inside));
        if !cycle.is_empty() {
            wrong.push(format!("[inside.{name}] has a cycle among {cycle:?}"));
        }
    }
    fail_if_any(wrong);
}

/// Deeper modules too: among the modules of one folder there is no cycle.
#[test]
fn no_folder_has_a_cycle_of_modules() {
    let mut wrong = Vec::new();
    for (name, folder) in crates() {
        let mut modules = Modules::read(&folder.join("src"));
        let edges = modules.edges();
        for parent in modules.parents() {
            let used = modules::among_siblings(&edges, &parent);
            let cycle = modules::cyclic(&used);
            for from in &cycle {
                for (to, places) in used[from].iter().filter(|(to, _)| cycle.contains(*to)) {
                    let place = format!("{name}/{}: {from} → {to}", parent.join("/"));
                    wrong.push(format!("{place}: {}", places[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "cycles of modules:\n{}", wrong.join("\n"));
}
