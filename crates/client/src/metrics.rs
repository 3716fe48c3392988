//! Numbers: counters that are always kept, and a hook for whoever wants every call.

use crate::calls::Call;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Is told of every call to a server when it is over. Runs on the caller's task: it must be quick.
pub trait Observer: Send + Sync {
    fn called(&self, call: &Call, took: Duration, succeeded: bool);
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        /// What happened since the client started.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
        pub struct Counted {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub fn read(&self) -> Counted {
                Counted { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    reads,
    bytes_read,
    writes,
    bytes_written,
    /// Writes that stayed in the inode.
    inline_writes,
    /// Files whose bytes moved from the inode into objects.
    spills,
    /// Reads whose bytes did not match their checksum at first.
    checksum_retries,
    /// Attributes asked again because the file was closed while the answer was under way.
    asked_again,
    fsyncs,
}

impl Counters {
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Relaxed);
    }
}
