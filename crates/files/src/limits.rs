//! Bounds, each with its reason.

use std::time::Duration;

/// Symbolic links that one path may follow, as in Linux (MAXSYMLINKS).
pub const LINKS_MAX: u32 = 40;

/// Bytes of a path with its NUL, as in Linux.
pub const PATH_MAX: usize = 4096;

/// How often an operation resolves its path again because another client removed or replaced a part of it meanwhile.
pub const STALE_TRIES: u32 = 8;

/// Bytes of one read or write of the client; a longer one takes several. A kernel's requests have 1 MiB; four of them load the four targets
/// of the default layout.
pub const PIECE: u64 = 4 << 20;

/// Calls of one operation that are under way at the same time: attributes of listed files, pieces of many files. Servers admit some hundred
/// requests of one client.
pub const CONCURRENT_CALLS: usize = 64;

/// Bytes that the pieces of one `read_ranges` may have under way.
pub const CONCURRENT_BYTES: u64 = 64 << 20;
const _: () = assert!(CONCURRENT_BYTES >= PIECE);

/// A call's deadline, the same as that of a mount: longer than a server takes to restart.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How long connecting waits for servers that do not answer at all. (A refusal is reported at once.)
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
