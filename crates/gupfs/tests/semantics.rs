//! Compares docs/SEMANTICS.md with the code: every promise names tests that exist.

use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The promises: headings of the second level before "What is not promised", with the lines below them.
fn promises(page: &str) -> Vec<(&str, Vec<&str>)> {
    let kept = page
        .split("\n# What is not promised")
        .next()
        .unwrap_or(page);
    kept.split("\n## ")
        .skip(1)
        .map(|part| {
            let mut lines = part.lines();
            (lines.next().unwrap_or_default(), lines.collect())
        })
        .collect()
}

/// Why a line that names a test names none.
fn missing(line: &str) -> Option<String> {
    if let Some(test) = line.strip_prefix("Test: ") {
        let Some((file, function)) = test.split_once("::") else {
            return Some(format!("'{test}' is not file::function"));
        };
        let Ok(code) = std::fs::read_to_string(project().join(file)) else {
            return Some(format!("there is no file {file}"));
        };
        let found = code.contains(&format!("fn {function}("));
        return (!found).then(|| format!("{file} has no function {function}"));
    }
    if let Some(pattern) = line.strip_prefix("Conform: ") {
        let wanted = pattern.trim_end_matches('*');
        let found = gupfs_conform::checks::all()
            .iter()
            .any(|check| check.name.starts_with(wanted));
        return (!found).then(|| format!("the suite has no check {pattern}"));
    }
    None
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = std::fs::read_to_string(project().join("docs/SEMANTICS.md")).unwrap();
    let promises = promises(&page);
    assert!(promises.len() >= 5, "the page has lost its headings");
    let mut wrong = Vec::new();
    for (promise, lines) in promises {
        let named = lines
            .iter()
            .filter(|line| line.starts_with("Test: ") || line.starts_with("Conform: "))
            .count();
        if named == 0 {
            wrong.push(format!("'{promise}' names no test"));
        }
        let gone = lines.iter().filter_map(|line| missing(line));
        wrong.extend(gone.map(|why| format!("'{promise}': {why}")));
    }
    assert!(wrong.is_empty(), "docs/SEMANTICS.md:\n{}", wrong.join("\n"));
}

#[test]
fn a_promise_without_a_test_is_noticed() {
    assert!(missing("Test: crates/gupfs/tests/semantics.rs::no_such_test").is_some());
    assert!(missing("Test: crates/no/such/file.rs::x").is_some());
    assert!(missing("Conform: no-such-group/x").is_some());
    assert!(
        missing("Test: crates/gupfs/tests/semantics.rs::a_promise_without_a_test_is_noticed")
            .is_none()
    );
}
