//! # send_deadline: until when this process may send
//!
//! Owns   the boot time that the renewals of a lease move forward, and a stream that sends nothing after it.
//! Never  takes back bytes that the kernel has taken before that time: they may arrive later.
//! Enter  at `SendDeadline::until`.

use gupfs_platform::{BootTime, Clock, Stream};
use std::io::{Error, IoSlice, Result};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// The boot time until which this process may send over a connection; clones share it. The owner of a lease sends answers only until
/// its last renewal says: afterwards another process may be the owner. A process that was stopped meanwhile and goes on sends nothing.
#[derive(Clone, Default)]
pub struct SendDeadline(Option<Arc<Deadline>>);

struct Deadline {
    clock: Clock,
    /// Nanoseconds of boot time, or `ENDED`.
    until: AtomicU64,
}

/// Nothing may be sent any more. It is the largest number, so that no extension changes it.
const ENDED: u64 = u64::MAX;

impl SendDeadline {
    /// No deadline: this process may always send.
    pub fn none() -> SendDeadline {
        SendDeadline(None)
    }

    /// This process may send until the boot time `until` of `clock`.
    pub fn until(clock: Clock, until: BootTime) -> SendDeadline {
        SendDeadline(Some(Arc::new(Deadline {
            clock,
            until: AtomicU64::new(until.0.min(ENDED - 1)),
        })))
    }

    /// Moves the deadline to this boot time; never backwards. A deadline that has passed may be moved too. Does nothing after `end`.
    pub fn extend(&self, until: BootTime) {
        if let Some(deadline) = &self.0 {
            deadline.until.fetch_max(until.0.min(ENDED - 1), SeqCst);
        }
    }

    /// From now on nothing may be sent, not even after an `extend`.
    pub fn end(&self) {
        if let Some(deadline) = &self.0 {
            deadline.until.store(ENDED, SeqCst);
        }
    }

    /// Whether this process may send now.
    pub fn may_send(&self) -> bool {
        let Some(deadline) = &self.0 else {
            return true;
        };
        // The clock last: this thread may have been stopped in between.
        let until = deadline.until.load(SeqCst);
        until != ENDED && deadline.clock.boot().0 < until
    }
}

/// A stream that writes nothing after a deadline.
pub(crate) struct DeadlineStream {
    stream: Stream,
    /// Empty if there is none.
    deadline: OnceLock<SendDeadline>,
}

impl DeadlineStream {
    /// Without a deadline.
    pub fn new(stream: Stream) -> DeadlineStream {
        DeadlineStream {
            stream,
            deadline: OnceLock::new(),
        }
    }

    /// From now on it writes only until this deadline.
    pub fn set_deadline(&self, deadline: &SendDeadline) {
        if deadline.0.is_some() {
            // A connection has one deadline.
            let _ = self.deadline.set(deadline.clone());
        }
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// # Errors
    /// As of `Stream::try_write`; an error that is not `WouldBlock` if the deadline has passed.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        match self.deadline.get() {
            Some(deadline) if !deadline.may_send() => {
                Err(Error::other("this process may not send any more"))
            }
            _ => self.stream.try_write(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakeClock;
    use std::time::Duration;

    #[test]
    fn a_deadline_passes_is_extended_and_ends_for_ever() {
        let clock = FakeClock::by_hand();
        let at = |seconds: u64| BootTime(seconds * 1_000_000_000);
        let deadline = SendDeadline::until(Clock::fake(clock.clone()), at(0));
        assert!(!deadline.may_send());
        deadline.extend(at(5));
        deadline.extend(at(3));
        clock.advance(Duration::from_secs(4));
        assert!(deadline.clone().may_send());
        clock.advance(Duration::from_secs(1));
        assert!(!deadline.may_send());
        deadline.extend(at(u64::MAX / 1_000_000_000));
        deadline.extend(BootTime(u64::MAX));
        assert!(deadline.may_send());
        deadline.clone().end();
        deadline.extend(BootTime(u64::MAX));
        assert!(!deadline.may_send());
    }

    #[test]
    fn without_a_deadline_nothing_ends() {
        let none = SendDeadline::none();
        none.extend(BootTime(0));
        none.end();
        assert!(none.may_send());
    }
}
