//! The limits of leases, each with its reason.

use gupfs_proto::limits::{BACKGROUND_BATCH, GRANTS_MAX, REVOKED_KEYS_MAX};
use std::time::Duration;

/// Bytes that one lease of one session takes in memory, at most: a test measures it.
pub const LEASE_BYTES_MAX: usize = 128;

/// Leases of one session: the names and attributes of some 30,000 files, in at most 8 MiB.
pub const LEASES_OF_SESSION: usize = 1 << 16;

/// Leases of all sessions: at most 512 MiB.
pub const LEASES_OF_ALL: usize = 1 << 22;
const _: () = assert!(LEASES_OF_SESSION <= LEASES_OF_ALL);
const _: () = assert!(LEASES_OF_ALL * LEASE_BYTES_MAX <= 512 << 20);

/// Leases that the server revokes at once when the table, or a session's part of it, is nearly full: the least recently granted. So much
/// room is left when it begins, enough for the replies that are sent meanwhile.
pub const EXCESS_STEP: usize = REVOKED_KEYS_MAX;
const _: () = assert!(EXCESS_STEP >= GRANTS_MAX);
const _: () = assert!(4 * EXCESS_STEP <= LEASES_OF_SESSION);

/// The bounds of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseLimits {
    pub of_session: usize,
    pub of_all: usize,
    pub excess_step: usize,
}

impl Default for LeaseLimits {
    fn default() -> LeaseLimits {
        LeaseLimits {
            of_session: LEASES_OF_SESSION,
            of_all: LEASES_OF_ALL,
            excess_step: EXCESS_STEP,
        }
    }
}

/// The keys of one batch fit one revocation: a record has at most two keys, and a name's record also stands for its directory's listing.
const _: () = assert!(3 * BACKGROUND_BATCH <= REVOKED_KEYS_MAX);

/// A lease lives at least so long before it is revoked, so that a session can use what it has read although another one changes it all
/// the time. It is also the longest delay that this adds to a change.
pub const LEASE_MIN: Duration = Duration::from_millis(10);

/// A directory that two sessions have changed within this time is shared...
pub const SHARED_WITHIN: Duration = Duration::from_secs(1);

/// ... until no session has changed it for this time. Meanwhile a lease on it would be revoked sooner than it saves a request.
pub const SHARED_QUIET: Duration = Duration::from_secs(5);
const _: () = assert!(LEASE_MIN.as_millis() < SHARED_WITHIN.as_millis());
const _: () = assert!(SHARED_WITHIN.as_millis() <= SHARED_QUIET.as_millis());

/// Directories whose last changes the server remembers: about 64 bytes each. Beyond it forgets the one it has watched longest, which then
/// counts as not shared.
pub const DIRECTORIES_WATCHED: usize = 1 << 16;
