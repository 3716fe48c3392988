//! Local file systems that are known to differ, each with its reason.
//!
//! An exception does not switch a check off: it runs, its failure is shown as known, and a pass is noted so that the
//! line here can go.

use crate::filter::Exception;

/// The kind of file system, by the number that statfs tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
    Fuse,
    Other(i64),
}

impl FileSystem {
    pub fn of_magic(magic: i64) -> FileSystem {
        match magic {
            0xef53 => FileSystem::Ext4,
            0x5846_5342 => FileSystem::Xfs,
            0x9123_683e => FileSystem::Btrfs,
            0x0102_1994 => FileSystem::Tmpfs,
            0x6573_5546 => FileSystem::Fuse,
            other => FileSystem::Other(other),
        }
    }

    pub fn name(self) -> String {
        match self {
            FileSystem::Ext4 => "ext4".into(),
            FileSystem::Xfs => "xfs".into(),
            FileSystem::Btrfs => "btrfs".into(),
            FileSystem::Tmpfs => "tmpfs".into(),
            FileSystem::Fuse => "fuse".into(),
            FileSystem::Other(magic) => format!("type {magic:#x}"),
        }
    }
}

/// The known deviations of this kind of file system.
pub fn known_exceptions(file_system: FileSystem) -> Vec<Exception> {
    let lines = match file_system {
        FileSystem::Ext4 => EXT4,
        FileSystem::Xfs => XFS,
        FileSystem::Btrfs => BTRFS,
        FileSystem::Tmpfs => TMPFS,
        FileSystem::Fuse | FileSystem::Other(_) => &[],
    };
    lines.iter().map(KnownFailure::exception).collect()
}

/// A line of the tables below.
struct KnownFailure {
    check: &'static str,
    reason: &'static str,
    sometimes: bool,
}

impl KnownFailure {
    fn exception(&self) -> Exception {
        Exception {
            sometimes: self.sometimes,
            ..Exception::new(self.check, self.reason)
        }
    }
}

/// Always fails.
const fn known(check: &'static str, reason: &'static str) -> KnownFailure {
    KnownFailure {
        check,
        reason,
        sometimes: false,
    }
}

const READS_DO_NOT_LOCK: KnownFailure = KnownFailure {
    check: "race/a-4-KiB-block-is-read-old-or-new",
    reason: "a buffered read takes no lock against a write of the same page",
    sometimes: true,
};

const EXT4: &[KnownFailure] = &[READS_DO_NOT_LOCK];

const XFS: &[KnownFailure] = &[known(
    "mknod/device-numbers-come-back",
    "it stores minor numbers of 18 bits",
)];

const FREE_SPACE_IS_AN_ESTIMATE: &str =
    "its free space is an estimate that commits of the tree bring up to date";

const BTRFS: &[KnownFailure] = &[
    READS_DO_NOT_LOCK,
    known(
        "SEEK_DATA/at-and-behind-the-end-says-ENXIO",
        "it takes a negative offset for 0",
    ),
    known(
        "xattr/trusted-is-for-root",
        "it lists the names of trusted attributes to everybody",
    ),
    KnownFailure {
        check: "statfs/free-space-shrinks-by-what-is-written",
        reason: FREE_SPACE_IS_AN_ESTIMATE,
        sometimes: true,
    },
    KnownFailure {
        check: "unlink/gives-a-large-files-space-back",
        reason: FREE_SPACE_IS_AN_ESTIMATE,
        sometimes: true,
    },
];

const TMPFS: &[KnownFailure] = &[
    READS_DO_NOT_LOCK,
    known(
        "mmap/a-store-behind-the-end-does-not-grow-the-file",
        "a page of tmpfs is the file itself: nothing zeroes its tail when the file grows over it",
    ),
];
