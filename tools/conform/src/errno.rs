//! The kernel's error numbers by name.
//!
//! A report says `ENOTEMPTY`, never `39`, and a check compares the exact number that the system call answered.

use std::fmt;

/// One error number as a system call answered it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The error of the system call that has just failed on this thread.
    pub fn last() -> Errno {
        // SAFETY: errno's address is valid for the life of the thread.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// `ENOENT` and the like; `None` for a number that this table does not know.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(number, _)| *number == self.0)
            .map(|(_, name)| *name)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! errnos {
    ($($name:ident)*) => {
        $(pub const $name: Errno = Errno(libc::$name);)*
        const NAMES: &[(i32, &str)] = &[$((libc::$name, stringify!($name))),*];
    };
}

errnos! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM
    ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA EOVERFLOW EOPNOTSUPP EADDRINUSE ECONNREFUSED
    ENOTCONN ENOTSOCK ETIMEDOUT ESTALE EDQUOT EUCLEAN EPROTO EHOSTDOWN EREMOTEIO ECANCELED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_prints_its_name_and_an_unknown_one_its_number() {
        assert_eq!(ENOTEMPTY.to_string(), "ENOTEMPTY");
        assert_eq!(Errno(3999).to_string(), "errno 3999");
    }
}
