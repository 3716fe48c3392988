//! The processes that use a mount, as far as /proc shows them.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A process and one way in which it uses the mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountUser {
    pub pid: u32,
    pub command: String,
    pub how: MountUse,
    pub path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MountUse {
    WorksIn,
    Runs,
    HasOpen,
    HasMapped,
}

impl fmt::Display for MountUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            MountUse::WorksIn => "works in",
            MountUse::Runs => "runs",
            MountUse::HasOpen => "has open",
            MountUse::HasMapped => "has mapped",
        };
        write!(
            f,
            "process {} ({}) {how} '{}'",
            self.pid,
            self.command,
            self.path.display()
        )
    }
}

/// The first use of each process. Reads only the texts of links, so it never waits for the mount itself. Only root sees the processes of
/// other users.
pub fn mount_users(mount: &Path) -> Vec<MountUser> {
    let mut found = Vec::new();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return found;
    };
    for process in processes.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some((how, path)) = first_use(&process.path(), mount) {
            let command = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(MountUser {
                pid,
                command: command.trim().into(),
                how,
                path,
            });
        }
    }
    found.sort_by_key(|user| user.pid);
    found
}

fn first_use(process: &Path, mount: &Path) -> Option<(MountUse, PathBuf)> {
    let link = |path: PathBuf| {
        std::fs::read_link(path)
            .ok()
            .filter(|to| to.starts_with(mount))
    };
    for name in ["cwd", "root"] {
        if let Some(path) = link(process.join(name)) {
            return Some((MountUse::WorksIn, path));
        }
    }
    if let Some(path) = link(process.join("exe")) {
        return Some((MountUse::Runs, path));
    }
    for fd in std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if let Some(path) = link(fd.path()) {
            return Some((MountUse::HasOpen, path));
        }
    }
    mapped(process, mount).map(|path| (MountUse::HasMapped, path))
}

fn mapped(process: &Path, mount: &Path) -> Option<PathBuf> {
    let maps = std::fs::read(process.join("maps")).ok()?;
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        let path = Path::new(std::ffi::OsStr::from_bytes(&line[start..]));
        path.starts_with(mount).then(|| path.to_path_buf())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert_eq!(mount_users(&root), []);
        let _open = std::fs::File::create(root.join("held")).unwrap();
        let found = mount_users(&root);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, std::process::id());
        assert_eq!(
            (found[0].how, found[0].path.clone()),
            (MountUse::HasOpen, root.join("held"))
        );
    }
}
