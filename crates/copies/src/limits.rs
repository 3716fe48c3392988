//! Bounds and times of the copies, with their reasons.

use std::time::Duration;

/// The term of the owner's lease. A copy takes over after it at the earliest: programs wait so long when the owner's host vanishes.
pub const TERM: Duration = Duration::from_secs(3);

/// The owner renews its lease so often: two renewals may fail before it has to stop answering.
pub const RENEW_INTERVAL: Duration = Duration::from_millis(750);
const _: () = assert!(RENEW_INTERVAL.as_millis() * 3 < TERM.as_millis());

/// A copy that has not taken a group of records by then is struck from those that count. All programs wait for it meanwhile.
pub const APPEND_TIMEOUT: Duration = Duration::from_secs(1);

/// A process that was struck so often within this time because it did not answer in time is left out: each time all programs wait a second for it.
pub const SLOW_STRIKES_MAX: usize = 3;
pub const SLOW_WITHIN: Duration = Duration::from_secs(600);

/// A sync may take longer: a disk with a deep queue needs some hundred milliseconds, and only those wait who asked for it.
pub const SYNC_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The owner's question whether a copy still obeys it must be answered before the next one is asked.
pub const PROMISE_TIMEOUT: Duration = Duration::from_millis(700);

/// A live host answers what changes nothing, or only memory, by then.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// A copy that reopens its log reads what its index lacks, and syncs.
pub const REOPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A copy that begins anew removes its former files, and syncs the new ones at the end.
pub const LOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after an error of the arbiter or of another copy.
pub const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The log has a warning when so many calls of the arbiter in a row got no reply.
pub const FAILURES_LOGGED: u32 = 3;

/// The register is read again after this time even if the arbiter has told of no change.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(2);

/// For so long after an orderly stop the other copies let the one take over that was named.
pub const PREFERRED_WAIT: Duration = Duration::from_secs(1);

/// If no copy has kept its memory, the most advanced of a majority owns the metadata after this time; sooner when all have
/// answered.
pub const ELECTION_WAIT: Duration = Duration::from_secs(30);

/// Bytes of records in one message: a message carries at most 4 MiB, and a single record has less than that.
pub const PART_BYTES: usize = 3 << 20;

/// Copies of one cluster. The register, which holds their addresses, is small.
pub const MEMBERS_MAX: usize = 8;

/// Bytes of the list of the clients' keys: some ten thousand keys.
pub const KEY_LIST_MAX: usize = 4 << 20;
