//! How often a ring may be refused before it counts as broken.

use std::io;
use std::time::Duration;

use crate::limits::{RING_REFUSALS_MAX, RING_REFUSED_PAUSE};

/// Refusals one after the other.
#[derive(Default)]
pub(crate) struct Patience {
    refusals: u32,
}

impl Patience {
    /// What the system call said. How long to wait before the next one, if there may be a next one.
    pub fn after(&mut self, error: io::Error) -> io::Result<Duration> {
        match error.raw_os_error() {
            // A signal.
            Some(libc::EINTR) => Ok(Duration::ZERO),
            // No memory for the commands; completions that are to be taken first.
            Some(libc::EAGAIN | libc::EBUSY) if self.refusals < RING_REFUSALS_MAX => {
                self.refusals += 1;
                Ok(match self.refusals {
                    1 => Duration::ZERO,
                    _ => RING_REFUSED_PAUSE,
                })
            }
            Some(libc::EAGAIN | libc::EBUSY) => {
                let times = self.refusals;
                let why = format!(
                    "the kernel refused the ring's commands {times} times in a row: {error}"
                );
                Err(io::Error::new(error.kind(), why))
            }
            _ => Err(error),
        }
    }

    pub fn succeeded(&mut self) {
        self.refusals = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(patience: &mut Patience, errno: i32) -> io::Result<Duration> {
        patience.after(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn refusals_in_a_row_end_and_signals_do_not_count() {
        let mut patience = Patience::default();
        for _ in 0..RING_REFUSALS_MAX {
            after(&mut patience, libc::EAGAIN).unwrap();
            after(&mut patience, libc::EINTR).unwrap();
        }
        let error = after(&mut patience, libc::EBUSY).unwrap_err().to_string();
        assert!(error.contains("times in a row: "), "{error}");
        patience.succeeded();
        assert_eq!(after(&mut patience, libc::EBUSY).unwrap(), Duration::ZERO);
        let pause = after(&mut patience, libc::EBUSY).unwrap();
        assert_eq!(pause, RING_REFUSED_PAUSE);
        assert!(after(&mut patience, libc::EBADF).is_err());
    }
}
