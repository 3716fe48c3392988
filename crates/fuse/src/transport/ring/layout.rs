//! Memory layout of a ring entry, and the commands of the kernel's header file.
//!
//! | page | bytes | content |
//! |---|---|---|
//! | first | 0 … 127 | header of the request, then of the reply |
//! | | 128 … 255 | the request's fixed part |
//! | | 256 … 287 | flags u64, commit id u64, payload bytes u32, unused u32, u64 |
//! | | … 4,095 | the assembled message, which ends at the payload |
//! | others | | payload of the request, then the reply without its header |

use rustix::param::page_size;

use crate::limits::{ALIGN, IN_HEADER};

/// `struct fuse_uring_req_header`.
pub const HEADERS: usize = 288;
pub const OP_HEADER: usize = 128;
pub const OP_HEADER_MAX: usize = 128;
pub const COMMIT_ID: usize = 256 + 8;
pub const PAYLOAD_BYTES: usize = 256 + 16;

/// Offset of the payload in an entry.
pub const PAYLOAD_OFFSET: usize = ALIGN;
const _: () = assert!(HEADERS + IN_HEADER + OP_HEADER_MAX <= PAYLOAD_OFFSET);

/// `enum fuse_uring_cmd`.
pub const REGISTER: u32 = 1;
pub const COMMIT_AND_FETCH: u32 = 2;

/// REGISTER passes two memory ranges: headers and payload.
pub const IOVECS: u32 = 2;

/// `struct fuse_uring_cmd_req`: flags, commit id, queue; in the command's 80 bytes.
pub fn command(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// The payload size that the kernel requires: the larger of the largest WRITE and the largest READ.
pub fn payload_size(max_write: u32, max_pages: u16) -> usize {
    let page = page_size();
    let largest = (max_write as usize).max(usize::from(max_pages) * page);
    largest.max(2 * page).next_multiple_of(page)
}
