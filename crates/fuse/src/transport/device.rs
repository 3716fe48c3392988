//! Messages through /dev/fuse: one `read` per request, one `write` per reply.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::{Errno, sys};

const PATH: &str = "/dev/fuse";

/// One device descriptor of the connection. Each has its own queue of requests that were read and not replied to, so a reply
/// must be written to the descriptor that its request was read from.
pub(crate) struct Device {
    fd: OwnedFd,
    /// How long to poll the device before sleeping; the descriptor is non-blocking then.
    spin: Option<Duration>,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeviceRead {
    /// A message with this length in bytes.
    Message(usize),
    /// A signal, or a request that was interrupted before it was copied: read again.
    Retry,
    /// The mount has ended.
    Disconnected,
}

impl Device {
    /// A device descriptor without a connection; mount(2) connects it.
    pub fn open() -> Result<OwnedFd, Errno> {
        Ok(rustix::fs::open(
            PATH,
            OFlags::RDWR | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// One more device descriptor of the connection of `original`.
    pub fn clone_of(original: BorrowedFd<'_>, spin: Option<Duration>) -> Result<Device, Errno> {
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
        if spin.is_some() {
            flags |= OFlags::NONBLOCK;
        }
        let fd = rustix::fs::open(PATH, flags, Mode::empty())?;
        sys::join_connection(fd.as_fd(), original)?;
        Ok(Device { fd, spin })
    }

    /// Like `clone_of`, but reading never blocks; for an event loop that reads when the descriptor is readable.
    pub fn nonblocking_clone_of(original: BorrowedFd<'_>) -> Result<Device, Errno> {
        Device::clone_of(original, Some(Duration::ZERO))
    }

    /// The descriptor that was mounted, or a duplicate of it.
    pub fn of(fd: OwnedFd) -> Device {
        Device { fd, spin: None }
    }

    /// A duplicate descriptor, to poll for requests.
    pub fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    pub fn read(&self, buffer: &mut [u8]) -> Result<DeviceRead, Errno> {
        let received = match self.spin {
            None => rustix::io::read(&self.fd, buffer),
            Some(spin) => self.read_spinning(buffer, spin),
        };
        match received {
            Err(rustix::io::Errno::AGAIN) => Ok(DeviceRead::Retry),
            other => device_read_of(other),
        }
    }

    /// For a `nonblocking_clone_of`: None if no request is queued.
    pub fn read_now(&self, buffer: &mut [u8]) -> Result<Option<DeviceRead>, Errno> {
        match rustix::io::read(&self.fd, buffer) {
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            other => device_read_of(other).map(Some),
        }
    }

    /// Reads in a loop; after `spin` without a request it sleeps in poll(2).
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

    /// Writes one message with a single system call.
    pub fn write(&self, slices: &[IoSlice<'_>]) -> Result<(), Errno> {
        loop {
            let written = match slices {
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

fn device_read_of(read: rustix::io::Result<usize>) -> Result<DeviceRead, Errno> {
    match read {
        Ok(length) => Ok(DeviceRead::Message(length)),
        // ENOENT: the request was interrupted before it could be copied.
        Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT) => Ok(DeviceRead::Retry),
        // ECONNABORTED instead of ENODEV if ABORT_ERROR was negotiated.
        Err(rustix::io::Errno::NODEV | rustix::io::Errno::CONNABORTED) => {
            Ok(DeviceRead::Disconnected)
        }
        Err(error) => Err(error.into()),
    }
}
