//! The machine and the mounts of the runs.

use std::path::Path;

use gupfs_kit::machine::{cpus, memory, processor};

use crate::plan::MachineNumbers;
use crate::results::{Machine, TargetMount};

pub fn numbers() -> MachineNumbers {
    MachineNumbers {
        cpus: cpus() as u64,
        memory: memory("MemTotal").unwrap_or(1 << 30),
    }
}

pub fn look() -> Machine {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Machine {
        host: text(uname.nodename()),
        kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
        processor: processor().unwrap_or_else(|| text(uname.machine())),
        cpus: cpus(),
        memory_mb: memory("MemTotal").unwrap_or(0) >> 20,
    }
}

/// The mount that a directory is in.
pub fn place(dir: &Path, version: Option<String>) -> TargetMount {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mount_of(&dir, &mounts).unwrap_or(("unknown", "unknown"));
    TargetMount {
        source: found.0.to_owned(),
        file_system: found.1.to_owned(),
        version,
    }
}

/// Source and type of the last mount whose point is the longest above the directory.
fn mount_of<'a>(dir: &Path, mounts: &'a str) -> Option<(&'a str, &'a str)> {
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (source, point, kind) = (words.next()?, words.next()?, words.next()?);
        let point = point.replace("\\040", " ");
        dir.starts_with(&point)
            .then_some((point.len(), (source, kind)))
    });
    above
        .max_by_key(|(length, _)| *length)
        .map(|(_, found)| found)
}

#[test]
fn a_directory_is_in_the_deepest_mount_above_it() {
    let mounts =
        "/dev/a / ext4 rw 0 0\ntmpfs /mnt/my\\040disk tmpfs rw 0 0\nserver /mnt nfs4 rw 0 0\n";
    let find = |dir: &str| mount_of(Path::new(dir), mounts).unwrap().1;
    assert_eq!(find("/mnt/my disk/x"), "tmpfs");
    assert_eq!(find("/mnt/my"), "nfs4");
    assert_eq!(find("/mntx"), "ext4");
}
