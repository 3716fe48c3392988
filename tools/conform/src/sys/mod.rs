//! # sys: the system calls, one thin function each
//!
//! Owns   every `unsafe` of the suite that reaches the kernel; the error exactly as the kernel gave it.
//! Never  retries, interprets, or hides an error; a short read is a short read.
//! Enter  by the call's own name: `open`, `rename`, `fcntl_lock`.
//!
//! Path arguments take anything that is bytes; `…at` functions take [`CWD`] or a descriptor. The invariant of all
//! `unsafe` blocks here is the same unless one says more: pointers come from live Rust values that outlive the call,
//! lengths are those of the very buffers passed, and structures are plain data that the kernel fills.

mod attr;
mod data;
mod dir;
mod file;
mod lock;
mod memory;
mod name;
mod process;
mod space;
mod xattr;

use std::ffi::CString;
use std::os::fd::{AsRawFd, RawFd};

pub use attr::*;
pub use data::*;
pub use dir::*;
pub use file::*;
pub use lock::*;
pub use memory::*;
pub use name::*;
pub use process::*;
pub use space::*;
pub use xattr::*;

use crate::errno::Errno;
use crate::outcome::{Answer, SyscallError};

/// The directory that relative names start from, as a descriptor argument.
pub const CWD: RawFd = libc::AT_FDCWD;

/// A file descriptor that closes itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd(RawFd);

impl Fd {
    /// Close it now and see what close(2) says.
    pub fn close(self) -> Answer {
        let number = self.0;
        std::mem::forget(self);
        // SAFETY: the descriptor is ours and is not used again.
        done("close", unsafe { libc::close(number) })
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and no code uses it after this.
        unsafe { libc::close(self.0) };
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsRawFd for &Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// A number that a call returned, or the refusal that −1 stands for.
fn number(call: &'static str, returned: impl Into<i64>) -> Answer<i64> {
    match returned.into() {
        -1 => Err(SyscallError {
            call,
            errno: Errno::last(),
        }),
        value => Ok(value),
    }
}

/// A call whose success carries no number.
fn done(call: &'static str, returned: impl Into<i64>) -> Answer {
    number(call, returned).map(|_| ())
}

/// A call that returns a count of bytes.
fn count(call: &'static str, returned: impl TryInto<i64>) -> Answer<usize> {
    let returned = returned.try_into().unwrap_or(i64::MAX);
    number(call, returned).map(|n| n as usize)
}

/// A call that returns a new descriptor.
fn descriptor(call: &'static str, returned: impl Into<i64>) -> Answer<Fd> {
    number(call, returned).map(|fd| Fd(fd as RawFd))
}

/// The bytes with a terminating NUL. Names in the suite hold none: a NUL cannot be passed to a system call.
fn c(name: impl AsRef<[u8]>) -> CString {
    CString::new(name.as_ref()).expect("a name that is passed to a system call holds no NUL")
}
