//! Points in time as files carry them.

use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970 (negative seconds before it). `nanos` < 1,000,000,000.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Timestamp {
    pub secs: i64,
    pub nanos: u32,
}

impl Timestamp {
    pub const fn new(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    /// Nanoseconds since 1970; saturates beyond ± 292 years.
    pub fn as_nanos(self) -> i64 {
        self.secs
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(self.nanos))
    }

    pub fn from_nanos(nanos: i64) -> Timestamp {
        Timestamp {
            secs: nanos.div_euclid(1_000_000_000),
            nanos: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }
}
