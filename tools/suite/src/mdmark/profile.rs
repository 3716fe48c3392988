//! The profile of a real tree: densities of files and subdirectories at each level, and of sizes.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::density::Density;
use crate::error::{ErrorContext, SuiteError, SuiteResult};

#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// From the top down.
    pub levels: Vec<Level>,
    /// Bytes of files.
    pub sizes: Density,
}

/// All directories that are so far below the top.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Files of a directory.
    pub files: Density,
    /// Subdirectories of a directory.
    pub directories: Density,
}

impl Profile {
    /// Looks at every directory and file below the top. How many directories could not be read: they count as empty.
    pub fn scan(top: &Path) -> SuiteResult<(Profile, u64)> {
        Profile::scan_each(top, || Ok(()))
    }

    /// The same, saying after each entry that it was looked at.
    pub fn scan_each(
        top: &Path,
        mut looked: impl FnMut() -> SuiteResult<()>,
    ) -> SuiteResult<(Profile, u64)> {
        let mut profile = Profile::default();
        let mut unread = 0;
        let mut left = vec![(top.to_path_buf(), 0)];
        while let Some((dir, level)) = left.pop() {
            let entries = match fs::read_dir(&dir) {
                // Another program may be working in the tree.
                Err(error) if error.kind() == ErrorKind::NotFound && level > 0 => continue,
                Err(error) if error.kind() == ErrorKind::PermissionDenied && level > 0 => {
                    unread += 1;
                    continue;
                }
                entries => entries.doing("list", &dir)?,
            };
            let (mut files, mut directories) = (0, 0);
            for entry in entries {
                let entry = entry.doing("list", &dir)?;
                let found = match entry.metadata() {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    found => found.doing("stat", &entry.path())?,
                };
                if found.is_dir() {
                    directories += 1;
                    left.push((entry.path(), level + 1));
                } else if found.is_file() {
                    files += 1;
                    profile.sizes.add(found.len());
                }
                looked()?;
            }
            if profile.levels.len() <= level {
                profile.levels.resize_with(level + 1, Level::default);
            }
            profile.levels[level].files.add(files);
            profile.levels[level].directories.add(directories);
        }
        Ok((profile, unread))
    }

    pub fn read(path: &Path) -> SuiteResult<Profile> {
        let bytes = fs::read(path).doing("read the profile", path)?;
        let bad = |what: String| {
            SuiteError::usage(format!(
                "{} is no profile: {what}; make one with mdmark --scan DIR --profile FILE",
                path.display()
            ))
        };
        let profile: Profile =
            serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        let sound = |level: &Level| level.files.is_sound() && level.directories.is_sound();
        if !(profile.sizes.is_sound() && profile.levels.iter().all(sound)) {
            return Err(bad("a density has too many steps or counts".into()));
        }
        Ok(profile)
    }

    pub fn write(&self, path: &Path) -> SuiteResult<()> {
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| SuiteError::failed(format!("the profile as JSON: {error}")))?;
        bytes.push(b'\n');
        fs::write(path, bytes).doing("write the profile", path)
    }

    /// The profile without a scan: a made-up home directory. Wide above, narrow below; most files are of some KB.
    pub fn made_up() -> Profile {
        let level = |files: &[u64], directories: &[u64]| Level {
            files: Density::of(files),
            directories: Density::of(directories),
        };
        Profile {
            levels: vec![
                level(&[0, 0, 1, 2, 4, 2, 1], &[0, 0, 1, 3, 4, 1]),
                level(&[4, 2, 4, 6, 6, 4, 2, 1], &[8, 4, 4, 3, 1]),
                level(&[6, 4, 4, 6, 6, 3, 2, 1], &[14, 3, 2, 1]),
                level(&[8, 4, 4, 6, 5, 2, 1], &[18, 2, 1]),
                level(&[8, 6, 4, 4, 2, 1], &[1]),
            ],
            // 0, 1 B, … , 16 to 32 KB, … , up to 16 MB.
            sizes: Density::of(&[
                8, 1, 1, 1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 88, 80, 64, 48, 32, 24, 16, 8, 4, 2,
                1, 1,
            ]),
        }
    }
}
