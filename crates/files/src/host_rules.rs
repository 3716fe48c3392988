//! # host_rules: what a kernel checks in addition to the servers
//!
//! Owns   the rules of Linux for links and existing files in directories that all users may write (proc_sys_fs(5): protected_symlinks,
//!        protected_hardlinks, protected_regular).
//! Never  decides what modes, owners and ACLs decide: the servers check those at every request.
//! Enter  at `HostRules::read` once; then the check of each operation, a plain function.
//!
//! A program of this host gets the same answers from the library as through a mount of the host, so the rules follow the host's
//! settings.

use gupfs_proto::{Attr, Caller, FileKind, FileMode, FsError};

const OTHERS_WRITE: u16 = 0o002;
const GROUP_WRITES: u16 = 0o020;
const GROUP_EXECUTES: u16 = 0o010;

/// The settings of this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRules {
    pub protected_symlinks: bool,
    pub protected_hardlinks: bool,
    /// 0 to 2.
    pub protected_regular: u8,
}

impl HostRules {
    /// Those of Debian, for a host that does not say.
    pub const USUAL: HostRules = HostRules {
        protected_symlinks: true,
        protected_hardlinks: true,
        protected_regular: 2,
    };

    /// The settings of this host now.
    pub fn read() -> HostRules {
        let setting = |name: &str| -> Option<u8> {
            let text = std::fs::read_to_string(format!("/proc/sys/fs/{name}")).ok()?;
            text.trim().parse().ok()
        };
        let on = |name, usual| setting(name).map_or(usual, |value| value != 0);
        HostRules {
            protected_symlinks: on("protected_symlinks", HostRules::USUAL.protected_symlinks),
            protected_hardlinks: on("protected_hardlinks", HostRules::USUAL.protected_hardlinks),
            protected_regular: setting("protected_regular")
                .unwrap_or(HostRules::USUAL.protected_regular),
        }
    }

    /// Whether the last component of a path may be this symbolic link: in a sticky directory that others may write, the caller or the
    /// directory's owner must have made it.
    ///
    /// # Errors
    /// `Denied`.
    pub fn check_follow(self, caller: &Caller, dir: &Attr, link: &Attr) -> Result<(), FsError> {
        let is_exposed = dir.mode.has(FileMode::STICKY | OTHERS_WRITE);
        let is_trusted = link.uid == caller.uid || link.uid == dir.uid;
        match self.protected_symlinks && is_exposed && !is_trusted {
            true => Err(FsError::Denied),
            false => Ok(()),
        }
    }

    /// Whether the caller may give this file another name: it owns it, or could read and write it, and the file gives no rights to those who
    /// execute it. `may_use`: whether the caller may read and write it.
    ///
    /// # Errors
    /// `NotPermitted`.
    pub fn check_link(self, caller: &Caller, file: &Attr, may_use: bool) -> Result<(), FsError> {
        let is_owner = caller.is_root() || caller.uid == file.uid;
        let gives_rights =
            file.mode.has(FileMode::SETUID) || file.mode.has(FileMode::SETGID | GROUP_EXECUTES);
        let is_safe = file.kind == FileKind::Regular && !gives_rights && may_use;
        match self.protected_hardlinks && !is_owner && !is_safe {
            true => Err(FsError::NotPermitted),
            false => Ok(()),
        }
    }

    /// Whether open(2) with O_CREAT may open this existing file: in a sticky directory that others may write, the caller or the directory's
    /// owner must own it. Root has no exception.
    ///
    /// # Errors
    /// `Denied`.
    pub fn check_create_existing(
        self,
        caller: &Caller,
        dir: &Attr,
        file: &Attr,
    ) -> Result<(), FsError> {
        let is_trusted = file.uid == dir.uid || file.uid == caller.uid;
        if self.protected_regular == 0 || !dir.mode.has(FileMode::STICKY) || is_trusted {
            return Ok(());
        }
        let is_exposed = dir.mode.has(OTHERS_WRITE)
            || (self.protected_regular >= 2 && dir.mode.has(GROUP_WRITES));
        match is_exposed {
            true => Err(FsError::Denied),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::Timestamp;
    use gupfs_proto::attr::InodeFlags;
    use gupfs_proto::ids::{InodeId, ProjectId, VolumeId};

    fn attr(kind: FileKind, mode: u16, uid: u32) -> Attr {
        let time = Timestamp::default();
        Attr {
            ino: InodeId(7),
            kind,
            mode: FileMode(mode),
            nlink: 1,
            uid,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            change: 0,
            flags: InodeFlags::empty(),
            project: ProjectId(0),
            volume: VolumeId(0),
        }
    }

    fn user(uid: u32) -> Caller {
        Caller::new(uid, uid, [])
    }

    #[test]
    fn a_link_of_another_user_in_tmp_is_not_followed() {
        let rules = HostRules::USUAL;
        let tmp = attr(FileKind::Directory, 0o1777, 0);
        let link = |uid| attr(FileKind::Symlink, 0o777, uid);
        for (caller, dir, owner, expected) in [
            (1000, &tmp, 1000, Ok(())),
            (1000, &tmp, 0, Ok(())),
            (1000, &tmp, 2000, Err(FsError::Denied)),
            (0, &tmp, 2000, Err(FsError::Denied)),
            (1000, &attr(FileKind::Directory, 0o777, 0), 2000, Ok(())),
            (1000, &attr(FileKind::Directory, 0o1775, 0), 2000, Ok(())),
        ] {
            let found = rules.check_follow(&user(caller), dir, &link(owner));
            assert_eq!(found, expected, "{caller} {owner}");
        }
        let off = HostRules {
            protected_symlinks: false,
            ..rules
        };
        assert_eq!(off.check_follow(&user(1), &tmp, &link(2)), Ok(()));
    }

    #[test]
    fn a_file_of_another_user_gets_a_name_only_if_the_caller_may_use_it() {
        let rules = HostRules::USUAL;
        let plain = attr(FileKind::Regular, 0o666, 2000);
        assert_eq!(rules.check_link(&user(1000), &plain, true), Ok(()));
        let denied = Err(FsError::NotPermitted);
        assert_eq!(rules.check_link(&user(1000), &plain, false), denied);
        assert_eq!(rules.check_link(&user(2000), &plain, false), Ok(()));
        assert_eq!(rules.check_link(&user(0), &plain, false), Ok(()));
        for (kind, mode) in [
            (FileKind::Regular, 0o4777),
            (FileKind::Regular, 0o2777),
            (FileKind::Symlink, 0o777),
        ] {
            let file = attr(kind, mode, 2000);
            assert_eq!(rules.check_link(&user(1000), &file, true), denied);
        }
        let locks = attr(FileKind::Regular, 0o2767, 2000);
        assert_eq!(rules.check_link(&user(1000), &locks, true), Ok(()));
    }

    #[test]
    fn a_file_of_another_user_in_tmp_is_not_opened_for_creating() {
        let file = attr(FileKind::Regular, 0o666, 2000);
        let check = |regular: u8, mode: u16, caller: u32| {
            let rules = HostRules {
                protected_regular: regular,
                ..HostRules::USUAL
            };
            let dir = attr(FileKind::Directory, mode, 0);
            rules.check_create_existing(&user(caller), &dir, &file)
        };
        assert_eq!(check(1, 0o1777, 1000), Err(FsError::Denied));
        assert_eq!(check(1, 0o1777, 0), Err(FsError::Denied));
        assert_eq!(check(1, 0o1777, 2000), Ok(()));
        assert_eq!(check(1, 0o777, 1000), Ok(()));
        assert_eq!(check(1, 0o1770, 1000), Ok(()));
        assert_eq!(check(2, 0o1770, 1000), Err(FsError::Denied));
        assert_eq!(check(0, 0o1777, 1000), Ok(()));
    }
}
