//! Cleaning up after a run that ends early: the files that it made, and the faults that it made.
//!
//! Every process of a run knows all that the run makes, since any of them may be the last that lives.

use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

type Undo = Box<dyn FnOnce() -> Vec<String> + Send>;

static BROKE: Mutex<Option<Undo>> = Mutex::new(None);

fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    MADE.lock()
}

/// This process may break something: how to repair it, saying what there is to say of that.
pub fn repair_with(undo: impl FnOnce() -> Vec<String> + Send + 'static) {
    *BROKE.lock() = Some(Box::new(undo));
}

/// Repairs what this process broke.
pub fn repair() -> Vec<String> {
    // The lock is held meanwhile: a second caller waits until the fault is repaired.
    let mut broke = BROKE.lock();
    broke.take().map_or_else(Vec::new, |undo| undo())
}

/// Leaves what was made, which is named.
pub fn take_paths() -> Vec<PathBuf> {
    made().drain(..).collect()
}

/// A file or directory of this run will be at the path.
pub fn register(path: &Path) {
    made().push(path.to_path_buf());
}

/// All that was made shall stay, or is gone, and nothing is broken.
pub fn clear() {
    made().clear();
    *BROKE.lock() = None;
}

/// Removes the registered paths, directories with all in them. Returns a message for each that cannot be removed.
pub fn remove() -> Vec<String> {
    let mut left = Vec::new();
    for path in made().drain(..).rev() {
        let removed = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => Err(error),
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(&path),
            Ok(_) => std::fs::remove_file(&path),
        };
        // Another process of the run may have been faster.
        if let Err(error) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            left.push(format!("{} could not be removed: {error}", path.display()));
        }
    }
    left
}
