//! Compares the dependencies between crates and between modules with docs/rooms.toml.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Edges = BTreeMap<String, BTreeSet<String>>;

/// docs/rooms.toml.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    rooms: Edges,
    tests: Edges,
    /// Crate → its module → modules of the same crate that it may use.
    #[serde(default)]
    inside: BTreeMap<String, Edges>,
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn allowed() -> Allowed {
    let text = std::fs::read_to_string(project().join("docs/rooms.toml")).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("docs/rooms.toml: {error}"))
}

fn rooms() -> BTreeSet<String> {
    let entries = std::fs::read_dir(project().join("crates")).unwrap();
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// The rooms that a table of the room's Cargo.toml names.
fn uses(room: &str, table: &str) -> BTreeSet<String> {
    let path = project().join("crates").join(room).join("Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let dependencies = manifest.get(table).and_then(|table| table.as_table());
    dependencies
        .into_iter()
        .flat_map(|table| table.keys())
        .filter_map(|name| name.strip_prefix("gupfs-"))
        .map(String::from)
        .collect()
}

#[test]
fn crates_use_only_permitted_crates() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    for room in rooms() {
        let Some(may) = allowed.rooms.get(&room) else {
            wrong.push(format!("{room} is not in [rooms]"));
            continue;
        };
        for used in uses(&room, "dependencies").difference(may) {
            wrong.push(format!("{room} → {used} is not in [rooms]"));
        }
        let none = BTreeSet::new();
        let besides = allowed.tests.get(&room).unwrap_or(&none);
        for used in uses(&room, "dev-dependencies") {
            if used != room && !may.contains(&used) && !besides.contains(&used) {
                wrong.push(format!("{room}'s tests → {used} is not in [tests]"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/rooms.toml:\n{}", wrong.join("\n"));
}

#[test]
fn the_list_names_only_crates_that_exist_and_has_no_cycle() {
    let allowed = allowed();
    let rooms = rooms();
    let named = allowed
        .rooms
        .iter()
        .chain(&allowed.tests)
        .flat_map(|(room, may)| std::iter::once(room).chain(may));
    let unknown: BTreeSet<&String> = named.filter(|room| !rooms.contains(*room)).collect();
    assert!(unknown.is_empty(), "no such rooms: {unknown:?}");

    // Taking away those that use nothing that is left must take away all.
    let mut left = allowed.rooms.clone();
    while !left.is_empty() {
        let present: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|_, may| !may.is_disjoint(&present));
        assert!(left.len() < present.len(), "a circle among {present:?}");
    }
}

/// Directions inside a crate, for those that docs/rooms.toml lists. A module is a file or folder directly under src.
#[test]
fn modules_use_only_permitted_modules() {
    let mut wrong = Vec::new();
    for (room, modules) in allowed().inside {
        let src = project().join("crates").join(&room).join("src");
        let known: BTreeSet<String> = modules.keys().cloned().collect();
        for module in modules_of(&src) {
            let Some(may) = modules.get(&module) else {
                wrong.push(format!("{room}: module {module} is not in [inside.{room}]"));
                continue;
            };
            for used in used_modules(&src, &module).intersection(&known) {
                if *used != module && !may.contains(used) {
                    wrong.push(format!(
                        "{room}: {module} → {used} is not in [inside.{room}]"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "docs/rooms.toml:\n{}", wrong.join("\n"));
}

fn modules_of(src: &Path) -> BTreeSet<String> {
    std::fs::read_dir(src)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|ext| ext == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| !["lib", "main"].contains(&name.as_str()))
        .collect()
}

/// First segments behind `crate::`, and those inside `use crate::{…}`.
fn used_modules(src: &Path, module: &str) -> BTreeSet<String> {
    let mut files = vec![src.join(format!("{module}.rs"))];
    let mut dirs = vec![src.join(module)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.push(path);
            }
        }
    }
    let mut used = BTreeSet::new();
    for text in files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
    {
        // Tests of a module may use any module.
        let code = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or(&text);
        for rest in code.split("crate::").skip(1) {
            match rest.strip_prefix('{') {
                Some(list) => {
                    let list = list.split(';').next().unwrap_or_default();
                    used.extend(top_names(list));
                }
                None => used.extend(first_name(rest)),
            }
        }
    }
    used
}

fn first_name(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_string())
}

/// "a::{b, c}, d}" → a, d.
fn top_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut start = true;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && c.is_alphabetic() => {
                names.extend(first_name(&list[at..]));
                start = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn a_list_of_uses_is_parsed() {
    assert_eq!(top_names("a::{b, c}, d, e::f}"), ["a", "d", "e"]);
    assert_eq!(first_name("log::Log;"), Some("log".into()));
}
