//! Bounds of the arbiter.

use std::time::Duration;

/// A register holds an owner, its epoch and the copies that count.
pub const VALUE_MAX: usize = 4096;

/// How much the clocks of two hosts may differ in their rates, in per cent of the time that passes, both ways together.
pub const CLOCK_PERCENT: u32 = 2;

/// A watch of a silent member fails after this time and a call's. (etcd ends connections that are asked more often than each 5 s.)
pub const KEEP_ALIVE: Duration = Duration::from_secs(6);

/// A call without a reply fails after this time: a holder renews its lease once a second, and tries several times in a term of three.
pub const CALL_TIMEOUT: Duration = Duration::from_millis(900);

/// A call that changes nothing, or may be done twice, is sent to one more member after each such time: a take-over needs five calls, and a host that is
/// dark has a member, too. A member that lives answers in some milliseconds.
pub const HEDGE_DELAY: Duration = Duration::from_millis(200);
const _: () = assert!(HEDGE_DELAY.as_millis() * 4 < CALL_TIMEOUT.as_millis());
