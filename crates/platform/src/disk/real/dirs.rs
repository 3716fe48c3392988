//! Directories: create, remove, rename, list, and sync; attributes of the file system.

use super::super::path::check_path;
use super::super::{DiskEntry, DiskSpace, DiskStat, EntryKind, OpenHow, Result};
use super::file::{RealFile, stat_of};
use super::{RealDisk, failed, is_missing};
use crate::tasks::run_on_pool;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// Only gupfs uses these files; it checks the permissions of its users itself, and never with these bits.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;

impl RealDisk {
    pub async fn open(&self, path: &str, how: OpenHow) -> Result<RealFile> {
        check_path(path);
        let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
        flags |= if how.write {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        for (wanted, flag) in [
            (how.create, OFlags::CREATE),
            (how.exclusive, OFlags::EXCL),
            (how.direct, OFlags::DIRECT),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        let fd = rustix::fs::openat(&self.root, path, flags, FILE_MODE)
            .map_err(|errno| failed("open", path, errno))?;
        Ok(RealFile::new(fd, path, how.direct))
    }

    pub async fn create_dir(&self, path: &str) -> Result<bool> {
        check_path(path);
        match rustix::fs::mkdirat(&self.root, path, DIR_MODE) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed("create the directory", path, errno)),
        }
    }

    pub async fn remove_dir(&self, path: &str) -> Result<()> {
        check_path(path);
        rustix::fs::unlinkat(&self.root, path, AtFlags::REMOVEDIR)
            .map_err(|errno| failed("remove the directory", path, errno))
    }

    /// On the pool: the kernel frees the blocks of a large file before it returns.
    pub async fn remove_file(&self, path: &str) -> Result<()> {
        check_path(path);
        let root = self.duplicate()?;
        let name = path.to_owned();
        run_on_pool(move || rustix::fs::unlinkat(&root, name.as_str(), AtFlags::empty()))
            .await
            .map_err(|errno| failed("remove", path, errno))
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_path(from);
        check_path(to);
        rustix::fs::renameat(&self.root, from, &self.root, to)
            .map_err(|errno| failed("rename", from, errno))
    }

    pub async fn exchange(&self, a: &str, b: &str) -> Result<()> {
        check_path(a);
        check_path(b);
        let exchanged =
            rustix::fs::renameat_with(&self.root, a, &self.root, b, RenameFlags::EXCHANGE);
        exchanged.map_err(|errno| match errno {
            // Linux's answer of a file system without it.
            rustix::io::Errno::INVAL => failed("exchange", a, rustix::io::Errno::OPNOTSUPP),
            errno => failed("exchange", a, errno),
        })
    }

    pub async fn list(&self, dir: &str) -> Result<Vec<DiskEntry>> {
        let list = |errno| failed("list", dir, errno);
        let fd = self.open_dir(dir).map_err(list)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&fd).map_err(list)? {
            let entry = entry.map_err(list)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Dir,
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&fd, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)
                        .map_err(list)?;
                    match FileType::from_raw_mode(stat.st_mode) {
                        FileType::RegularFile => EntryKind::File,
                        FileType::Directory => EntryKind::Dir,
                        _ => EntryKind::Other,
                    }
                }
                _ => EntryKind::Other,
            };
            found.push(DiskEntry { name, kind });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    pub async fn sync_dir(&self, dir: &str) -> Result<()> {
        let sync = |errno| failed("sync the directory", dir, errno);
        let fd = self.open_dir(dir).map_err(sync)?;
        run_on_pool(move || rustix::fs::fsync(fd))
            .await
            .map_err(sync)
    }

    pub async fn syncfs(&self) -> Result<()> {
        let sync = |errno| failed("sync the file system of", ".", errno);
        // The root's own descriptor, which was opened before the first write through this handle: the kernel reports a write
        // error once to each descriptor that was open when it happened, and to one that was opened later only if it has not
        // reported the error to any. A duplicate counts as the same descriptor.
        let root = self.duplicate()?;
        run_on_pool(move || rustix::fs::syncfs(root))
            .await
            .map_err(sync)
    }

    pub fn syncfs_reports_errors(&self) -> bool {
        static REPORTS: LazyLock<bool> = LazyLock::new(|| {
            let uname = rustix::system::uname();
            kernel_syncfs_reports_errors(&uname.release().to_string_lossy())
        });
        *REPORTS
    }

    pub async fn stat(&self, path: &str) -> Result<Option<DiskStat>> {
        check_path(path);
        let found = rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("stat", path, errno));
        match found {
            Ok(stat) => Ok(Some(stat_of(&stat))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn space(&self) -> Result<DiskSpace> {
        let found = rustix::fs::fstatvfs(&self.root)
            .map_err(|errno| failed("get the free space of", ".", errno))?;
        let stat = rustix::fs::fstat(&self.root)
            .map_err(|errno| failed("get the file system of", ".", errno))?;
        Ok(DiskSpace {
            volume: volume(stat.st_dev),
            total: found.f_blocks * found.f_frsize,
            free: found.f_bfree * found.f_frsize,
            available: found.f_bavail * found.f_frsize,
            inodes_total: found.f_files,
            inodes_free: found.f_favail,
        })
    }

    pub fn page_cache_id(&self) -> Result<u64> {
        // The unique mount id, which no later mount on this host gets. Before Linux 6.8 the kernel has none, and only the device
        // number identifies the mount.
        let unique_mount = libc::STATX_MNT_ID_UNIQUE;
        let found = rustix::fs::statx(
            &self.root,
            "",
            AtFlags::EMPTY_PATH,
            StatxFlags::from_bits_retain(unique_mount),
        )
        .map_err(|errno| failed("get the mount of", ".", errno))?;
        let mount = (found.stx_mask & unique_mount != 0).then_some(found.stx_mnt_id);
        let words = [
            mount.map_or(0, |mount| mount.wrapping_add(1)),
            u64::from(found.stx_dev_major),
            u64::from(found.stx_dev_minor),
        ];
        let mount = crc32c::crc32c(words.map(u64::to_le_bytes).as_flattened());
        // Stored on disk and compared by later versions: the hash function must not change.
        let number = u64::from(crc32c::crc32c(boot_id())) << 32 | u64::from(mount);
        Ok(number.max(1))
    }

    fn open_dir(&self, dir: &str) -> rustix::io::Result<std::os::fd::OwnedFd> {
        check_path(dir);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.root, dir, flags, Mode::empty())
    }

    fn duplicate(&self) -> Result<std::os::fd::OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.root, 0)
            .map_err(|errno| failed("duplicate the handle of", ".", errno))
    }
}

/// Volume number: a device number together with the boot id, since a device number is valid on one host until its next boot.
fn volume(device: u64) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (boot_id(), device).hash(&mut hasher);
    hasher.finish()
}

/// The boot id of the host. Where the kernel has none (no /proc), a random number of this process, because the host may have been
/// restarted between two processes.
fn boot_id() -> &'static [u8] {
    static ID: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let boot_id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        or_random(boot_id)
    });
    &ID
}

fn or_random(boot_id: Vec<u8>) -> Vec<u8> {
    if !boot_id.trim_ascii().is_empty() {
        return boot_id;
    }
    let mut random = vec![0; 16];
    getrandom::fill(&mut random).expect("the kernel gives random bytes");
    random
}

/// Whether syncfs(2) of this kernel reports failed writes; before Linux 5.8 it returns success.
fn kernel_syncfs_reports_errors(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (5, 8),
        // An unknown release string: do not rely on it.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncfs_reports_errors_since_linux_5_8() {
        for release in ["5.8.0", "5.15.0-91-generic", "6.18.44-fc", "10.0", "5.10"] {
            assert!(kernel_syncfs_reports_errors(release), "{release}");
        }
        for release in [
            "5.7.19",
            "4.18.0-553.el8.x86_64",
            "5",
            "",
            "unknown",
            "3.10.0",
        ] {
            assert!(!kernel_syncfs_reports_errors(release), "{release}");
        }
    }

    #[test]
    fn without_a_boot_id_each_call_returns_a_different_number() {
        let boot_id = b"b3f5b1d6-8ad1-4f0c-93a7-57cf6ac8d2a1\n".to_vec();
        assert_eq!(or_random(boot_id.clone()), boot_id);
        let (one, other) = (or_random(Vec::new()), or_random(b"\n".to_vec()));
        assert_eq!((one.len(), other.len()), (16, 16));
        assert_ne!(one, other);
    }
}
