//! Which checks run, and which failures are known beforehand.

/// The checks to run. The default runs everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Run the checks whose name contains one of these; all when empty.
    pub only: Vec<String>,
    /// Checks that may not be skipped: what the standard leaves optional, but this file system has promised. Whole
    /// names, or prefixes that end in `*`.
    pub required: Vec<String>,
    /// Known deviations of the directory's file system, beside those of [`crate::exceptions`].
    pub exceptions: Vec<Exception>,
}

/// Whether a whole name, or a prefix that ends in `*`, means this check.
fn means(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// A check that a file system is known to fail, and why that is accepted.
#[derive(Clone, Debug)]
pub struct Exception {
    /// The check's whole name, or a prefix of it that ends in `*`.
    pub check: String,
    pub reason: String,
    /// It fails only sometimes, by chance or kernel: a pass is no news.
    pub sometimes: bool,
}

impl Filter {
    /// Only checks whose name contains `text`.
    pub fn containing(text: impl Into<String>) -> Filter {
        Filter {
            only: vec![text.into()],
            ..Filter::default()
        }
    }

    /// A skip of this check is a failure.
    pub fn requires(&self, name: &str) -> bool {
        self.required.iter().any(|pattern| means(pattern, name))
    }

    pub fn admits(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }
}

impl Exception {
    /// A check that always fails here.
    pub fn new(check: impl Into<String>, reason: impl Into<String>) -> Exception {
        Exception {
            check: check.into(),
            reason: reason.into(),
            sometimes: false,
        }
    }

    pub fn covers(&self, name: &str) -> bool {
        means(&self.check, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_requires_by_name_or_prefix() {
        let filter = Filter {
            required: vec!["acl/*".into(), "clone/all".into()],
            ..Filter::default()
        };
        assert!(filter.requires("acl/mask") && filter.requires("clone/all"));
        assert!(!filter.requires("clone/all-of-it"));
        assert!(
            Filter {
                required: vec!["*".into()],
                ..Filter::default()
            }
            .requires("clone/all-of-it")
        );
    }

    #[test]
    fn a_filter_admits_by_any_of_its_texts() {
        let filter = Filter {
            only: vec!["rename/".into(), "ELOOP".into()],
            ..Filter::default()
        };
        assert!(filter.admits("rename/onto-itself") && filter.admits("open/loop-says-ELOOP"));
        assert!(!filter.admits("mkdir/exists"));
        assert!(Filter::default().admits("mkdir/exists"));
    }

    #[test]
    fn an_exception_covers_its_name_or_its_prefix_and_nothing_else() {
        let one = Exception::new("seek/hole", "");
        let many = Exception::new("acl/*", "");
        assert!(one.covers("seek/hole") && !one.covers("seek/hole-at-end"));
        assert!(many.covers("acl/mask") && !many.covers("seek/hole"));
    }
}
