//! Counters of the client, and an observer that receives every call.

use crate::server_call::ServerCall;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Receives every call to a server when the call ends. Runs on the caller's task: it must be quick.
pub trait Observer: Send + Sync {
    fn call_finished(&self, call: &ServerCall, took: Duration, succeeded: bool);
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        /// Counts since the client started.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
        pub struct ClientCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub fn read(&self) -> ClientCounts {
                ClientCounts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    reads,
    bytes_read,
    writes,
    bytes_written,
    /// Writes whose data stayed inline in the inode.
    inline_writes,
    /// Files whose bytes went into the inode with the release of the write lease.
    small_files,
    /// Files whose inline data moved into objects.
    spills,
    /// Reads whose bytes did not match their checksum at first.
    checksum_retries,
    /// Attributes requested again because the file was closed, or its lease was released, while the reply was in transit.
    asked_again,
    fsyncs,
    /// Writes that were answered before an object server had them, and how often a file's unsent bytes were sent together.
    writes_behind,
    flushes,
    /// Operations that leases answered, without a request; and those that leases could have answered and did not.
    lease_hits,
    lease_misses,
    /// Revocations of the metadata server, and values that were dropped for them.
    lease_revocations,
    revoked_values,
    /// Requests for a lease on data, or for a write lease, before the kernel got bytes for its page cache.
    page_leases,
    /// Reads that were answered from this client's memory, and bytes that were read ahead.
    cached_reads,
    bytes_read_ahead,
    /// Members of mirrored stripes that are stale because a change of this client did not reach them.
    members_left_out,
    /// Members of mirrored stripes that got a write from another object server, not from this client.
    writes_relayed,
}

impl Counters {
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Relaxed);
    }
}
