//! # stores: opening the stores of a process
//!
//! Owns   the files of a copy of the metadata, how file descriptors are divided among stores, opening a metadata store or a target, reading a target's superblock.
//! Never  serves a request, changes a record.
//! Enter  at `DescriptorBudget::of_this_process`, `open_metadata`, `open_target`.

mod copy_directory;
mod descriptors;
mod metadata;
mod targets;

pub use copy_directory::CopyDirectory;
pub use descriptors::DescriptorBudget;
pub use metadata::{metadata_store_id, open_metadata, refuse_lost_metadata};
pub use targets::{dir_and_subdirs, open_target, read_target_id};
