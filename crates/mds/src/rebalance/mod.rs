//! # rebalance: evens out the use of the targets, after targets were added for instance
//!
//! Owns   the choice of what moves where, the walks over all files, the record of the rebalance that an administrator has begun.
//! Never  copies a byte or changes a layout: `FileConverter::move_components` does. Begins a copy while a drain or a replacement has work.
//! Enter  at `RebalanceControl::manage` for an administrator, and at `RebalanceTask::run`.

mod control;
mod plan;
mod task;

pub use control::RebalanceControl;
pub use task::RebalanceTask;
