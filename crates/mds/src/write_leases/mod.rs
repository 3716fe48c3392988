//! # write_leases: the order of the requests that need a write lease released
//!
//! Owns   the queue of each file, and the signal that a lease has ended.
//! Never  sends a callback (`glimpse` does), or knows which session holds a lease (the records do).
//! Enter  at `LeaseQueues::enqueue`, `LeaseContext`.

mod context;
mod queue;

pub use context::LeaseContext;
pub use queue::LeaseQueues;

use tokio::sync::Notify;

#[derive(Default)]
pub struct WriteLeases {
    pub queues: LeaseQueues,
    /// Signals that a session released or downgraded its write lease, or lost it.
    pub ended: Notify,
}
