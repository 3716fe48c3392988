//! Finding and opening targets.

use super::DescriptorBudget;
use gupfs_platform::{Disk, Platform};
use gupfs_store::object::{Objects, TargetId};
use std::path::{Path, PathBuf};

/// A directory and its subdirectories, where targets may be.
///
/// # Errors
/// If the directory cannot be read.
pub fn dir_and_subdirs(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            dirs.push(path);
        }
    }
    dirs.sort();
    dirs.insert(0, dir.to_path_buf());
    Ok(dirs)
}

/// The cluster and number of the target in a directory; None if it holds no target.
///
/// # Errors
/// If the superblock cannot be read; names the directory.
pub async fn read_target_id(dir: &Path) -> Result<Option<TargetId>, String> {
    let at = |why: String| format!("'{}': {why}", dir.display());
    let disk = Disk::real(dir).map_err(|error| at(error_chain(&error)))?;
    let found = Objects::peek(&disk).await;
    let found = found.map_err(|error| at(error_chain(&error)))?;
    Ok(found.map(|(target_id, _)| target_id))
}

/// # Errors
/// Why the target cannot be opened; names the directory.
pub async fn open_target(
    dir: &Path,
    target_id: TargetId,
    budget: DescriptorBudget,
    platform: &Platform,
) -> Result<Objects, String> {
    let at = |why: String| format!("'{}': {why}", dir.display());
    let disk = Disk::real(dir).map_err(|error| at(error_chain(&error)))?;
    Objects::open(disk, platform.clone(), target_id, budget.target)
        .await
        .map_err(|error| at(error_chain(&error)))
}

/// An error and its sources on one line.
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
