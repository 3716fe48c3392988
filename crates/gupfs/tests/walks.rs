//! Compares docs/walks with the code: every `file::function` in them exists.

use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The `crates/….rs::name` between backticks.
fn references(page: &str) -> Vec<(&str, &str)> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("crates/"))
        .filter_map(|text| text.split_once("::"))
        .collect()
}

#[test]
fn walks_name_functions_that_exist() {
    let mut wrong = Vec::new();
    let pages = std::fs::read_dir(project().join("docs/walks")).unwrap();
    for page in pages.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&page).unwrap();
        let steps = references(&text);
        assert!(steps.len() > 5, "{} leads nowhere", page.display());
        for (file, function) in steps {
            let code = std::fs::read_to_string(project().join(file)).unwrap_or_default();
            let plain = format!("fn {function}(");
            let generic = format!("fn {function}<");
            if !code.contains(&plain) && !code.contains(&generic) {
                wrong.push(format!("{}: {file}::{function}", page.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these are not there:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn references_are_between_backticks() {
    let page = "goes to `crates/a/src/b.rs::c` with `other` and `crates/x.rs`";
    assert_eq!(references(page), [("crates/a/src/b.rs", "c")]);
}
