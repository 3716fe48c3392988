//! The error of a reply.

use std::fmt;

/// A Linux error number, positive. This crate passes on the file system's error and creates only EIO (for a handler that
/// panicked or was dropped, and for a request that cannot be parsed) and ENOSYS (for operations that are not implemented).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(i32);

/// The result of a handler.
pub type Result<T, E = Errno> = std::result::Result<T, E>;

macro_rules! names {
    ($($name:ident)*) => {
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*

            /// The symbolic name, if the number is in this list.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(libc::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

names! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM
    ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA ETIME ENOLINK EPROTO EBADMSG EOVERFLOW
    EUCLEAN EILSEQ EUSERS ENOTCONN EOPNOTSUPP ECONNABORTED ECONNRESET ESHUTDOWN ETIMEDOUT ECONNREFUSED EHOSTDOWN
    EHOSTUNREACH EALREADY EINPROGRESS ESTALE EDQUOT EREMOTEIO EMEDIUMTYPE ENOMEDIUM ECANCELED ENOKEY EKEYEXPIRED
    EKEYREVOKED EKEYREJECTED ENOTRECOVERABLE
}

impl Errno {
    /// Linux reserves 512 and above, and rejects a reply with such a number.
    const RESERVED: i32 = 512;

    /// `None` for numbers that no reply may carry: zero, negative numbers, and those that Linux reserves.
    pub const fn from_raw(raw: i32) -> Option<Errno> {
        if raw > 0 && raw < Self::RESERVED {
            Some(Errno(raw))
        } else {
            None
        }
    }

    /// The positive number.
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}: {}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl std::error::Error for Errno {}

/// The operating system's error number if there is one; EIO for errors that only a library made.
impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        error
            .raw_os_error()
            .and_then(Errno::from_raw)
            .unwrap_or(Errno::EIO)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Errno {
        Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_reserved_by_linux_are_not_errors() {
        assert_eq!(Errno::from_raw(0), None);
        assert_eq!(Errno::from_raw(-2), None);
        assert_eq!(Errno::from_raw(512), None);
        assert_eq!(Errno::from_raw(2), Some(Errno::ENOENT));
        assert_eq!(Errno::from_raw(511).map(Errno::raw), Some(511));
    }

    #[test]
    fn an_error_of_the_library_becomes_eio() {
        assert_eq!(Errno::from(std::io::Error::other("made up")), Errno::EIO);
        assert_eq!(
            Errno::from(std::io::Error::from_raw_os_error(libc::ENOSPC)),
            Errno::ENOSPC
        );
    }
}
