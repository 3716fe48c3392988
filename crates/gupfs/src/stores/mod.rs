//! # stores: opening the stores of a process
//!
//! Owns   how file descriptors are divided among stores, opening a metadata store or a target, reading a target's superblock.
//! Never  serves a request, changes a record.
//! Enter  at `DescriptorBudget::of_this_process`, `open_metadata`, `open_target`.

mod descriptors;
mod metadata;
mod targets;

pub use descriptors::DescriptorBudget;
pub use metadata::{open_metadata, refuse_lost_metadata};
pub use targets::{dir_and_subdirs, open_target, read_target_id};
