//! The directory of a run's files, and touching memory before a measurement.

use anyhow::Result;
use std::path::{Path, PathBuf};

/// A directory that goes when the run ends.
pub struct WorkDirectory {
    dir: tempfile::TempDir,
}

impl WorkDirectory {
    pub fn new(under: &Path) -> Result<WorkDirectory> {
        Ok(WorkDirectory {
            dir: tempfile::Builder::new()
                .prefix("gupfs-bench-")
                .tempdir_in(under)?,
        })
    }

    /// A fresh empty directory.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.path().join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// Touches memory, so that what is measured next does not pay for the host's first backing of it.
pub fn touch_memory(bytes: u64) {
    let mut block = vec![0u8; bytes as usize];
    for page in block.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&block);
}
