//! One file an operation. Each hands its part of a request to the target's objects and makes the answer.

pub mod allocate;
pub mod confirm;
pub mod cut;
pub mod fence;
pub mod list;
pub mod read;
pub mod remove;
pub mod seek;
pub mod set_aside;
pub mod space;
pub mod stat;
pub mod sync;
pub mod write;
pub mod zero;
