//! Paths inside a tree.

/// # Panics
/// When a path could lead out of the tree. All paths come from gupfs, never from users.
pub(super) fn check_path(path: &str) {
    let is_inside = path == "."
        || path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..");
    assert!(is_inside, "'{path}' is not a path inside the tree");
}
