//! The limits of locks, each with its reason.

/// Locks of one session: enough for a busy host's programs, and only a few megabytes in this server's memory and in a `Replay`
/// request.
pub const LOCKS_OF_SESSION: usize = 1 << 16;

/// Locks of one file, over all sessions: each request on the file compares all of them, in some ten microseconds.
pub const LOCKS_OF_FILE: usize = 1 << 14;

/// Locks of all sessions: about 100 bytes each.
pub const LOCKS_OF_ALL: usize = 1 << 20;
const _: () = assert!(LOCKS_OF_FILE <= LOCKS_OF_SESSION && LOCKS_OF_SESSION <= LOCKS_OF_ALL);

/// Waiting requests of one session: one per program, or thread.
pub const WAITING_OF_SESSION: usize = 1 << 12;

/// Stored replies of one session for retransmitted requests. A client has fewer requests outstanding.
pub const REPLIES_KEPT: usize = 1 << 10;
