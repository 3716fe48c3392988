//! Messages through /dev/fuse: one `read` a request, one `write` an answer.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::{Errno, sys};

const PATH: &str = "/dev/fuse";

/// One way into the connection. Each has its own queue of requests that were read and not answered, so an answer is
/// written to the device that its request was read from.
pub(crate) struct Device {
    fd: OwnedFd,
    /// How long to ask again and again before going to sleep; the descriptor does not block then.
    spin: Option<Duration>,
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message of so many bytes.
    Message(usize),
    /// A signal, or a request that was taken back: read again.
    Nothing,
    /// The mount is gone.
    End,
}

impl Device {
    /// A device that belongs to no connection yet: mount(2) makes one of it.
    pub fn open() -> Result<OwnedFd, Errno> {
        Ok(rustix::fs::open(
            PATH,
            OFlags::RDWR | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// One more way into the connection of `original`.
    pub fn clone_of(original: BorrowedFd<'_>, spin: Option<Duration>) -> Result<Device, Errno> {
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
        if spin.is_some() {
            flags |= OFlags::NONBLOCK;
        }
        let fd = rustix::fs::open(PATH, flags, Mode::empty())?;
        sys::join_connection(fd.as_fd(), original)?;
        Ok(Device { fd, spin })
    }

    /// The same for who asks only when something is there: reading never waits.
    pub fn watched_clone_of(original: BorrowedFd<'_>) -> Result<Device, Errno> {
        Device::clone_of(original, Some(Duration::ZERO))
    }

    /// The descriptor that was mounted, or a duplicate of it.
    pub fn of(fd: OwnedFd) -> Device {
        Device { fd, spin: None }
    }

    /// One more descriptor of the same way, to wait for what comes.
    pub fn to_watch(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    pub fn read(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        let received = match self.spin {
            None => rustix::io::read(&self.fd, buffer),
            Some(spin) => self.read_spinning(buffer, spin),
        };
        match received {
            Err(rustix::io::Errno::AGAIN) => Ok(Received::Nothing),
            other => received_of(other),
        }
    }

    /// Of a `watched_clone_of`: None if nothing is there.
    pub fn read_now(&self, buffer: &mut [u8]) -> Result<Option<Received>, Errno> {
        match rustix::io::read(&self.fd, buffer) {
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            other => received_of(other).map(Some),
        }
    }

    /// Asks until something comes; sleeps when nothing came for so long.
    fn read_spinning(&self, buffer: &mut [u8], spin: Duration) -> rustix::io::Result<usize> {
        let start = clock_gettime(ClockId::Monotonic);
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Err(rustix::io::Errno::AGAIN) => {}
                other => return other,
            }
            let waited = clock_gettime(ClockId::Monotonic) - start;
            if Duration::try_from(waited).is_ok_and(|waited| waited < spin) {
                std::hint::spin_loop();
                continue;
            }
            poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None)?;
        }
    }

    /// Writes one message, whole or not at all.
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> Result<(), Errno> {
        loop {
            let written = match pieces {
                [only] => rustix::io::write(&self.fd, only),
                several => rustix::io::writev(&self.fd, several),
            };
            match written {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn received_of(read: rustix::io::Result<usize>) -> Result<Received, Errno> {
    match read {
        Ok(length) => Ok(Received::Message(length)),
        // ENOENT: the request was interrupted before it could be copied.
        Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT) => Ok(Received::Nothing),
        // ECONNABORTED instead of ENODEV if ABORT_ERROR was agreed on.
        Err(rustix::io::Errno::NODEV | rustix::io::Errno::CONNABORTED) => Ok(Received::End),
        Err(error) => Err(error.into()),
    }
}
