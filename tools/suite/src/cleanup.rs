//! Cleaning up after a run that ends early: the files that it made, and the faults that it made.
//!
//! Every process of a run knows all that the run makes, since any of them may be the last that lives.

use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

static REGISTERED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

type Repair = Box<dyn FnOnce() -> Vec<String> + Send>;

static REPAIR: Mutex<Option<Repair>> = Mutex::new(None);

fn registered() -> MutexGuard<'static, Vec<PathBuf>> {
    REGISTERED.lock()
}

/// This process may make a fault, and this function repairs it. It returns messages for the user.
pub fn repair_with(repair: impl FnOnce() -> Vec<String> + Send + 'static) {
    *REPAIR.lock() = Some(Box::new(repair));
}

/// Repairs the fault that this process made, if it made one.
pub fn repair() -> Vec<String> {
    // The lock is held meanwhile: a second caller waits until the fault is repaired.
    let mut repair = REPAIR.lock();
    repair.take().map_or_else(Vec::new, |repair| repair())
}

/// Returns the registered paths, which stay where they are.
pub fn take_paths() -> Vec<PathBuf> {
    registered().drain(..).collect()
}

/// A file or directory of this run will be at the path.
pub fn register(path: &Path) {
    registered().push(path.to_path_buf());
}

/// All registered paths shall stay, or are gone, and no fault is left.
pub fn clear() {
    registered().clear();
    *REPAIR.lock() = None;
}

/// Removes the registered paths, directories with all in them. Returns a message for each that cannot be removed.
pub fn remove() -> Vec<String> {
    let mut left = Vec::new();
    for path in registered().drain(..).rev() {
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
