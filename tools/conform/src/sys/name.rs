//! The namespace: make, link, rename and remove names.

use std::os::fd::AsRawFd;

use super::{CWD, c, count, done};
use crate::outcome::Answer;

pub use libc::{AT_EACCESS, AT_EMPTY_PATH, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW};
pub use libc::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
pub use libc::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK, S_ISGID};

pub fn mkdirat(dir: impl AsRawFd, name: impl AsRef<[u8]>, mode: u32) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("mkdir", unsafe {
        libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode)
    })
}

pub fn mkdir(name: impl AsRef<[u8]>, mode: u32) -> Answer {
    mkdirat(CWD, name, mode)
}

pub fn unlinkat(dir: impl AsRawFd, name: impl AsRef<[u8]>, flags: i32) -> Answer {
    let name = c(name);
    let call = if flags & AT_REMOVEDIR != 0 {
        "rmdir"
    } else {
        "unlink"
    };
    // SAFETY: see the module.
    done(call, unsafe {
        libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), flags)
    })
}

pub fn unlink(name: impl AsRef<[u8]>) -> Answer {
    unlinkat(CWD, name, 0)
}

pub fn rmdir(name: impl AsRef<[u8]>) -> Answer {
    unlinkat(CWD, name, AT_REMOVEDIR)
}

pub fn renameat2(
    from_dir: impl AsRawFd,
    from: impl AsRef<[u8]>,
    to_dir: impl AsRawFd,
    to: impl AsRef<[u8]>,
    flags: u32,
) -> Answer {
    let (from, to) = (c(from), c(to));
    // SAFETY: see the module.
    done("rename", unsafe {
        libc::renameat2(
            from_dir.as_raw_fd(),
            from.as_ptr(),
            to_dir.as_raw_fd(),
            to.as_ptr(),
            flags,
        )
    })
}

pub fn rename(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Answer {
    renameat2(CWD, from, CWD, to, 0)
}

pub fn rename_flags(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, flags: u32) -> Answer {
    renameat2(CWD, from, CWD, to, flags)
}

pub fn linkat(
    from_dir: impl AsRawFd,
    from: impl AsRef<[u8]>,
    to_dir: impl AsRawFd,
    to: impl AsRef<[u8]>,
    flags: i32,
) -> Answer {
    let (from, to) = (c(from), c(to));
    // SAFETY: see the module.
    done("link", unsafe {
        libc::linkat(
            from_dir.as_raw_fd(),
            from.as_ptr(),
            to_dir.as_raw_fd(),
            to.as_ptr(),
            flags,
        )
    })
}

pub fn link(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Answer {
    linkat(CWD, from, CWD, to, 0)
}

pub fn symlinkat(target: impl AsRef<[u8]>, dir: impl AsRawFd, name: impl AsRef<[u8]>) -> Answer {
    let (target, name) = (c(target), c(name));
    // SAFETY: see the module.
    done("symlink", unsafe {
        libc::symlinkat(target.as_ptr(), dir.as_raw_fd(), name.as_ptr())
    })
}

pub fn symlink(target: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Answer {
    symlinkat(target, CWD, name)
}

/// At most `length` bytes of the target.
pub fn readlinkat(dir: impl AsRawFd, name: impl AsRef<[u8]>, length: usize) -> Answer<Vec<u8>> {
    let name = c(name);
    let mut target = vec![0u8; length];
    // SAFETY: see the module. The raw call, because length 0 is ours to try.
    let got = count("readlink", unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            dir.as_raw_fd(),
            name.as_ptr(),
            target.as_mut_ptr(),
            length,
        )
    })?;
    target.truncate(got);
    Ok(target)
}

pub fn readlink(name: impl AsRef<[u8]>) -> Answer<Vec<u8>> {
    readlinkat(CWD, name, libc::PATH_MAX as usize)
}

pub fn mknodat(dir: impl AsRawFd, name: impl AsRef<[u8]>, mode: u32, device: u64) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("mknod", unsafe {
        libc::mknodat(dir.as_raw_fd(), name.as_ptr(), mode, device)
    })
}

pub fn mknod(name: impl AsRef<[u8]>, mode: u32, device: u64) -> Answer {
    mknodat(CWD, name, mode, device)
}

pub fn mkfifo(name: impl AsRef<[u8]>, mode: u32) -> Answer {
    mknod(name, S_IFIFO | mode, 0)
}

pub fn makedev(major: u32, minor: u32) -> u64 {
    libc::makedev(major, minor)
}

/// A path argument that points nowhere, for every call that takes one.
pub fn nowhere_path(call: &'static str) -> Answer {
    let null = std::ptr::null::<libc::c_char>();
    let buffer = [0u8; 512];
    let out = buffer.as_ptr();
    // SAFETY: page 0 is never mapped: the kernel reads no path, answers EFAULT, and touches no other argument.
    let returned = unsafe {
        match call {
            "open" => libc::syscall(libc::SYS_openat, CWD, null, libc::O_RDONLY, 0),
            "stat" => libc::syscall(libc::SYS_newfstatat, CWD, null, out, 0),
            "mkdir" => libc::syscall(libc::SYS_mkdirat, CWD, null, 0o755),
            "unlink" => libc::syscall(libc::SYS_unlinkat, CWD, null, 0),
            "rmdir" => libc::syscall(libc::SYS_unlinkat, CWD, null, AT_REMOVEDIR),
            "rename" => libc::syscall(libc::SYS_renameat2, CWD, null, CWD, c"x".as_ptr(), 0),
            "link" => libc::syscall(libc::SYS_linkat, CWD, null, CWD, c"x".as_ptr(), 0),
            "symlink" => libc::syscall(libc::SYS_symlinkat, null, CWD, c"x".as_ptr()),
            "readlink" => libc::syscall(libc::SYS_readlinkat, CWD, null, out, 16),
            "mknod" => libc::syscall(libc::SYS_mknodat, CWD, null, S_IFIFO | 0o644, 0),
            "chmod" => libc::syscall(libc::SYS_fchmodat, CWD, null, 0o644),
            "chown" => libc::syscall(libc::SYS_fchownat, CWD, null, 0, 0, 0),
            "truncate" => libc::syscall(libc::SYS_truncate, null, 0),
            "access" => libc::syscall(libc::SYS_faccessat, CWD, null, libc::F_OK),
            "getxattr" => libc::syscall(libc::SYS_getxattr, null, c"user.a".as_ptr(), out, 16),
            "statfs" => libc::syscall(libc::SYS_statfs, null, out),
            other => panic!("no null path for {other}"),
        }
    };
    done(call, returned)
}
