//! Numbers with a unit, so that code cannot use a file offset as an object offset.

use serde::{Deserialize, Serialize};
use std::fmt;

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
