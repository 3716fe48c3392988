//! One file per operation. Each passes its part of a request to the target's objects and makes the reply.

pub mod allocate;
pub mod confirm;
pub mod fence;
pub mod list;
pub mod quarantine;
pub mod read;
pub mod remove;
pub mod seek;
pub mod space;
pub mod stat;
pub mod sync;
pub mod truncate;
pub mod write;
pub mod zero;
