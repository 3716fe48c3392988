//! # ring: messages through FUSE over io_uring
//!
//! Owns   the memory of each place in the kernel's queues, the rings, the way back of an answer that another thread gives; reads
//!        of files that a ring does beside its requests.
//! Never  looks into a message.
//! Enter  at `Ring`; `Incoming` is a request that came through it.
//!
//! The kernel has a queue for each possible CPU, and uses that of the CPU on which a program asks. A queue has *places*:
//! memory into which the kernel puts a request and from which it takes the answer. So each place is in one of two hands:
//!
//! ```text
//! kernel's ──completion──► ours: the message is read, the handler runs, the answer is written ──commit──► kernel's
//! ```
//!
//! While it is ours, `Hold`s say who uses its memory: the duty to answer, the payload of a WRITE, scratch memory for a READ.
//! The answer is given when the last of them goes.

mod hold;
mod home;
mod layout;
#[cfg(any(test, fuzzing))]
mod loose;
mod memory;
mod patience;
mod queue;

pub(crate) use hold::{Hold, Incoming, Lent};
pub(crate) use home::Home;
pub(crate) use layout::payload_size;
pub(crate) use queue::{Ring, possible_cpus, unavailable};
#[cfg(any(test, fuzzing))]
pub(crate) use {
    layout::{COMMIT_ID, HEADERS, OP_HEADER, OP_HEADER_MAX, PAYLOAD_BYTES},
    loose::Loose,
    queue::count_cpus,
};
