//! Numbers with a unit, so that code cannot use a file offset as an object offset.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub u64);
        impl $name {
            pub const fn get(self) -> u64 {
                self.0
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

unit!(/// Bytes from the start of a file.
    FileOffset);
unit!(/// Bytes from the start of an object.
    ObjectOffset);
unit!(/// A length in bytes.
    ByteCount);

macro_rules! position {
    ($name:ident) => {
        impl $name {
            pub const MAX: $name = $name(u64::MAX);

            pub const fn saturating_add(self, len: ByteCount) -> $name {
                $name(self.0.saturating_add(len.0))
            }
        }
        impl Add<ByteCount> for $name {
            type Output = $name;
            fn add(self, len: ByteCount) -> $name {
                $name(self.0 + len.0)
            }
        }
        /// The bytes between two positions.
        impl Sub for $name {
            type Output = ByteCount;
            fn sub(self, from: $name) -> ByteCount {
                ByteCount(self.0 - from.0)
            }
        }
    };
}

position!(FileOffset);
position!(ObjectOffset);

impl AddAssign for ByteCount {
    fn add_assign(&mut self, more: ByteCount) {
        self.0 += more.0;
    }
}

impl Sub for ByteCount {
    type Output = ByteCount;
    fn sub(self, less: ByteCount) -> ByteCount {
        ByteCount(self.0 - less.0)
    }
}

impl ByteCount {
    pub const fn kib(n: u64) -> ByteCount {
        ByteCount(n << 10)
    }
    pub const fn mib(n: u64) -> ByteCount {
        ByteCount(n << 20)
    }
    pub const fn gib(n: u64) -> ByteCount {
        ByteCount(n << 30)
    }
}
