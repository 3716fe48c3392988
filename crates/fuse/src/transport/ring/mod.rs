//! # ring: messages through FUSE over io_uring
//!
//! Owns   the memory of each entry in the kernel's queues, the rings, the return path of a reply that another thread sends, and
//!        file reads that a ring does beside its requests.
//! Never  parses a message.
//! Enter  at `Ring`; an `IncomingRequest` is a request that came through it.
//!
//! The kernel has a queue for each possible CPU, and uses that of the CPU on which the calling program runs. A queue has
//! *entries*: memory into which the kernel puts a request and from which it takes the reply. At any time either the kernel or
//! this process has an entry:
//!
//! ```text
//! kernel ──completion──► this process: parses the message, runs the handler, writes the reply ──commit──► kernel
//! ```
//!
//! While this process has an entry, `EntryRef`s count the users of its memory: the responder, the payload of a WRITE, scratch
//! memory for a READ. The reply is sent when the last of them is dropped.

mod cpus;
#[cfg(any(test, fuzzing))]
mod detached_entry;
mod entry;
mod inbox;
mod layout;
mod memory;
mod queue;
mod retry_budget;
mod uring;

pub(crate) use cpus::possible_cpus;
pub(crate) use entry::{EntryPayload, EntryRef, IncomingRequest};
pub(crate) use inbox::RingInbox;
pub(crate) use layout::payload_size;
pub(crate) use queue::Ring;
pub(crate) use uring::creation_error;
#[cfg(any(test, fuzzing))]
pub(crate) use {
    cpus::count_cpus,
    detached_entry::DetachedEntry,
    layout::{COMMIT_ID, HEADERS, OP_HEADER, OP_HEADER_MAX, PAYLOAD_BYTES},
};
