//! Every bound of locks with its reason.

/// Locks of one session: what a busy host's programs hold, and no more than a few megabytes here and in a `Return`.
pub const LOCKS_OF_SESSION: usize = 1 << 16;

/// Locks of one file, over all sessions: each request about the file looks at all of them, in some ten microseconds.
pub const LOCKS_OF_FILE: usize = 1 << 14;

/// Locks of all sessions: about 100 bytes each.
pub const LOCKS_OF_ALL: usize = 1 << 20;
const _: () = assert!(LOCKS_OF_FILE <= LOCKS_OF_SESSION && LOCKS_OF_SESSION <= LOCKS_OF_ALL);

/// Requests of one session that wait: one a program, or thread.
pub const WAITING_OF_SESSION: usize = 1 << 12;

/// Answers kept in case they are asked for again. A client has fewer requests open at a time.
pub const ANSWERS_KEPT: usize = 1 << 10;
