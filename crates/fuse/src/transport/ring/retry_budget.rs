//! How often the kernel may reject a ring's commands before the ring counts as broken.

use std::io;
use std::time::Duration;

use crate::limits::{RING_RETRIES_MAX, RING_RETRY_PAUSE};

/// Consecutive failures of submissions.
#[derive(Default)]
pub(crate) struct RetryBudget {
    failures: u32,
}

impl RetryBudget {
    /// Takes the error of a system call; returns how long to wait before the next try, or the error if there must be no next
    /// try.
    pub fn pause_after(&mut self, error: io::Error) -> io::Result<Duration> {
        match error.raw_os_error() {
            // A signal.
            Some(libc::EINTR) => Ok(Duration::ZERO),
            // No memory for the commands, or completions must be taken first.
            Some(libc::EAGAIN | libc::EBUSY) if self.failures < RING_RETRIES_MAX => {
                self.failures += 1;
                Ok(match self.failures {
                    1 => Duration::ZERO,
                    _ => RING_RETRY_PAUSE,
                })
            }
            Some(libc::EAGAIN | libc::EBUSY) => {
                let times = self.failures;
                let why = format!(
                    "the kernel rejected the ring's commands {times} times in a row: {error}"
                );
                Err(io::Error::new(error.kind(), why))
            }
            _ => Err(error),
        }
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause_after(budget: &mut RetryBudget, errno: i32) -> io::Result<Duration> {
        budget.pause_after(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn consecutive_failures_end_and_signals_do_not_count() {
        let mut budget = RetryBudget::default();
        for _ in 0..RING_RETRIES_MAX {
            pause_after(&mut budget, libc::EAGAIN).unwrap();
            pause_after(&mut budget, libc::EINTR).unwrap();
        }
        let error = pause_after(&mut budget, libc::EBUSY)
            .unwrap_err()
            .to_string();
        assert!(error.contains("times in a row: "), "{error}");
        budget.succeeded();
        assert_eq!(
            pause_after(&mut budget, libc::EBUSY).unwrap(),
            Duration::ZERO
        );
        let pause = pause_after(&mut budget, libc::EBUSY).unwrap();
        assert_eq!(pause, RING_RETRY_PAUSE);
        assert!(pause_after(&mut budget, libc::EBADF).is_err());
    }
}
