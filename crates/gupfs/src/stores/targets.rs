//! Targets: where they lie, which they are, and opening them.

use super::DescriptorBudget;
use gupfs_platform::{Disk, Platform};
use gupfs_store::object::{Objects, TargetId};
use std::path::{Path, PathBuf};

/// A directory and those right below it: where targets may lie if it is named.
pub fn dir_and_subdirs(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            below.push(path);
        }
    }
    below.sort();
    below.insert(0, dir.to_path_buf());
    Ok(below)
}

/// Whose target a directory holds; None if it holds none. Err says why it cannot be told, with the directory.
pub async fn read_target_id(dir: &Path) -> Result<Option<TargetId>, String> {
    let at = |why: String| format!("'{}': {why}", dir.display());
    let disk = Disk::real(dir).map_err(|error| at(error_chain(&error)))?;
    let found = Objects::peek(&disk).await;
    let found = found.map_err(|error| at(error_chain(&error)))?;
    Ok(found.map(|(target_id, _)| target_id))
}

/// Err says why, with the directory.
pub async fn open_target(
    dir: &Path,
    target_id: TargetId,
    share: DescriptorBudget,
    platform: &Platform,
) -> Result<Objects, String> {
    let at = |why: String| format!("'{}': {why}", dir.display());
    let disk = Disk::real(dir).map_err(|error| at(error_chain(&error)))?;
    Objects::open(disk, platform.clone(), target_id, share.target)
        .await
        .map_err(|error| at(error_chain(&error)))
}

/// An error with all it rests on, on one line.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        if !text.contains(&error.to_string()) {
            text = format!("{text}: {error}");
        }
        next = error.source();
    }
    text
}
