//! Extended attributes, by name, by link and by descriptor.

use std::os::fd::AsRawFd;

use super::{c, count, done};
use crate::outcome::Answer;

pub use libc::{XATTR_CREATE, XATTR_REPLACE};

pub fn setxattr(
    file: impl AsRef<[u8]>,
    name: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    flags: i32,
) -> Answer {
    let (file, name, value) = (c(file), c(name), value.as_ref());
    // SAFETY: see the module.
    done("setxattr", unsafe {
        libc::setxattr(
            file.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    })
}

pub fn lsetxattr(
    file: impl AsRef<[u8]>,
    name: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    flags: i32,
) -> Answer {
    let (file, name, value) = (c(file), c(name), value.as_ref());
    // SAFETY: see the module.
    done("lsetxattr", unsafe {
        libc::lsetxattr(
            file.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    })
}

pub fn fsetxattr(
    fd: impl AsRawFd,
    name: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    flags: i32,
) -> Answer {
    let (name, value) = (c(name), value.as_ref());
    // SAFETY: see the module.
    done("fsetxattr", unsafe {
        libc::fsetxattr(
            fd.as_raw_fd(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    })
}

/// Room for the largest value that Linux allows.
const VALUE_MAX: usize = 64 * 1024;

pub fn getxattr(file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Answer<Vec<u8>> {
    let mut value = vec![0u8; VALUE_MAX];
    let got = getxattr_into(file, name, &mut value)?;
    value.truncate(got);
    Ok(value)
}

/// With a buffer of the caller's size: an empty one asks for the length, a small one says ERANGE.
pub fn getxattr_into(
    file: impl AsRef<[u8]>,
    name: impl AsRef<[u8]>,
    value: &mut [u8],
) -> Answer<usize> {
    let (file, name) = (c(file), c(name));
    // SAFETY: see the module.
    count("getxattr", unsafe {
        libc::getxattr(
            file.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    })
}

pub fn lgetxattr(file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Answer<Vec<u8>> {
    let (file, name) = (c(file), c(name));
    let mut value = vec![0u8; VALUE_MAX];
    // SAFETY: see the module.
    let got = count("lgetxattr", unsafe {
        libc::lgetxattr(
            file.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    })?;
    value.truncate(got);
    Ok(value)
}

pub fn fgetxattr(fd: impl AsRawFd, name: impl AsRef<[u8]>) -> Answer<Vec<u8>> {
    let name = c(name);
    let mut value = vec![0u8; VALUE_MAX];
    // SAFETY: see the module.
    let got = count("fgetxattr", unsafe {
        libc::fgetxattr(
            fd.as_raw_fd(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    })?;
    value.truncate(got);
    Ok(value)
}

/// All attribute names, sorted.
pub fn listxattr(file: impl AsRef<[u8]>) -> Answer<Vec<Vec<u8>>> {
    let mut names = vec![0u8; VALUE_MAX];
    let got = listxattr_into(file, &mut names)?;
    Ok(split(&names[..got]))
}

/// With a buffer of the caller's size.
pub fn listxattr_into(file: impl AsRef<[u8]>, names: &mut [u8]) -> Answer<usize> {
    let file = c(file);
    // SAFETY: see the module.
    count("listxattr", unsafe {
        libc::listxattr(file.as_ptr(), names.as_mut_ptr().cast(), names.len())
    })
}

pub fn llistxattr(file: impl AsRef<[u8]>) -> Answer<Vec<Vec<u8>>> {
    let file = c(file);
    let mut names = vec![0u8; VALUE_MAX];
    // SAFETY: see the module.
    let got = count("llistxattr", unsafe {
        libc::llistxattr(file.as_ptr(), names.as_mut_ptr().cast(), names.len())
    })?;
    Ok(split(&names[..got]))
}

pub fn flistxattr(fd: impl AsRawFd) -> Answer<Vec<Vec<u8>>> {
    let mut names = vec![0u8; VALUE_MAX];
    // SAFETY: see the module.
    let got = count("flistxattr", unsafe {
        libc::flistxattr(fd.as_raw_fd(), names.as_mut_ptr().cast(), names.len())
    })?;
    Ok(split(&names[..got]))
}

pub fn removexattr(file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Answer {
    let (file, name) = (c(file), c(name));
    // SAFETY: see the module.
    done("removexattr", unsafe {
        libc::removexattr(file.as_ptr(), name.as_ptr())
    })
}

pub fn lremovexattr(file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Answer {
    let (file, name) = (c(file), c(name));
    // SAFETY: see the module.
    done("lremovexattr", unsafe {
        libc::lremovexattr(file.as_ptr(), name.as_ptr())
    })
}

pub fn fremovexattr(fd: impl AsRawFd, name: impl AsRef<[u8]>) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("fremovexattr", unsafe {
        libc::fremovexattr(fd.as_raw_fd(), name.as_ptr())
    })
}

fn split(names: &[u8]) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    names.sort();
    names
}
