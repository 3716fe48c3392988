//! Making, listing and removing what lies in a store directory.

use super::cannot;
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
    read().map_err(|error| cannot("list", dir, &error))
}

/// For its owner alone, whatever the umask.
pub fn make_dir(dir: &Path) -> CliResult<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(cannot("make the directory", dir, &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn remove_tree(path: &Path) -> CliResult<()> {
    let gone = if path.is_dir() && !path.is_symlink() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    unless_absent(gone).map_err(|error| cannot("remove", path, &error))
}

pub(super) fn remove_file(path: &Path) -> CliResult<()> {
    unless_absent(std::fs::remove_file(path)).map_err(|error| cannot("remove", path, &error))
}

fn unless_absent(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub(super) fn is_empty(dir: &Path) -> bool {
    names(dir).is_ok_and(|names| names.iter().all(|name| name == "lost+found"))
}
