//! Every patch in `mutants` applies: the code that it changes exists. (`make mutants` plants the bugs.)

#![allow(clippy::disallowed_methods)] // The test reads the files of the source tree.

use std::fs;
use std::path::Path;

/// The old lines of each hunk, by file.
fn expected(patch: &str) -> Vec<(String, String)> {
    let mut file = String::new();
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("--- a/") {
            file = path.to_string();
        } else if line.starts_with("@@") {
            hunks.push((file.clone(), String::new()));
        } else if let (Some((_, text)), false) = (hunks.last_mut(), line.starts_with('+'))
            && !line.starts_with("--- ")
        {
            *text += line.get(1..).unwrap_or_default();
            *text += "\n";
        }
    }
    hunks
}

#[test]
fn every_patch_of_a_planted_bug_applies() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = here.join("../..");
    let mut planted = 0;
    for entry in fs::read_dir(here.join("mutants")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "patch")
        {
            continue;
        }
        let hunks = expected(&fs::read_to_string(&path).unwrap());
        assert!(!hunks.is_empty(), "{} changes nothing", path.display());
        for (file, lines) in hunks {
            let code = fs::read_to_string(tree.join(&file)).unwrap_or_default();
            let found = code.contains(&lines);
            assert!(
                found,
                "{}: {file} has no such lines:\n{lines}",
                path.display()
            );
        }
        planted += 1;
    }
    assert!(planted >= 15, "{planted}");
}
