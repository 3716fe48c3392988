//! Creating, listing and removing entries of a store directory.

use super::path_error;
use crate::exit::CliResult;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub(super) fn names(dir: &Path) -> CliResult<Vec<String>> {
    let read = || -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    };
    read().map_err(|error| path_error("list", dir, &error))
}

/// Creates a directory that only its owner can access, whatever the umask; it may exist already.
pub fn make_dir(dir: &Path) -> CliResult<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(path_error("make the directory", dir, &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn remove_tree(path: &Path) -> CliResult<()> {
    let removed = if path.is_dir() && !path.is_symlink() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    ignore_absent(removed).map_err(|error| path_error("remove", path, &error))
}

pub(super) fn remove_file(path: &Path) -> CliResult<()> {
    ignore_absent(std::fs::remove_file(path)).map_err(|error| path_error("remove", path, &error))
}

fn ignore_absent(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub(super) fn is_empty(dir: &Path) -> bool {
    names(dir).is_ok_and(|names| names.iter().all(|name| name == "lost+found"))
}
