//! A page of docs/walks: the functions that it names, in order, and those of them that report when they run.

use std::path::{Path, PathBuf};

pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project().join("docs/walks")).unwrap();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

/// A function, as a page names it: file and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Step {
    pub file: String,
    pub function: String,
}

impl Step {
    pub fn new(file: &str, function: &str) -> Step {
        Step {
            file: file.into(),
            function: function.into(),
        }
    }

    /// Whether the source has the function.
    pub fn exists(&self) -> bool {
        let code = self.code();
        let function = &self.function;
        code.contains(&format!("fn {function}(")) || code.contains(&format!("fn {function}<"))
    }

    /// Whether the function has a line that reports that it runs.
    pub fn is_traced(&self) -> bool {
        let line = format!(
            "tracing::trace!(target: \"walk\", file = file!(), \"{}\");",
            self.function
        );
        self.code().contains(&line)
    }

    fn code(&self) -> String {
        std::fs::read_to_string(project().join(&self.file)).unwrap_or_default()
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.file, self.function)
    }
}

/// What stands between backticks and reads `crates/….rs::name`, in the order of the text.
pub fn references(text: &str) -> Vec<Step> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("crates/"))
        .filter_map(|text| text.split_once("::"))
        .map(|(file, function)| Step::new(file, function))
        .collect()
}

/// The traced functions of the numbered steps, each where it is named first. Paragraphs without a number tell of what may
/// happen before, after or instead.
pub fn traced_steps(text: &str) -> Vec<Step> {
    let numbered = text.split("\n\n").filter(|paragraph| {
        paragraph
            .strip_prefix("**")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let steps = numbered.flat_map(references).filter(Step::is_traced);
    first_occurrences(steps)
}

pub fn first_occurrences(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for step in steps {
        if !found.contains(&step) {
            found.push(step);
        }
    }
    found
}

#[test]
fn references_are_what_stands_between_backticks() {
    let page = "goes to `crates/a/src/b.rs::c` with `other` and `crates/x.rs`";
    assert_eq!(references(page), [Step::new("crates/a/src/b.rs", "c")]);
}
