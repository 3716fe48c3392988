//! # copies: several hosts have the metadata, and one of them owns it
//!
//! Owns   the register that says who owns the metadata and which copies count; the owner's right to answer; sending the owner's log to the
//!        copies; the take-over by a copy.
//! Never  knows what a record of the store means, or serves a request about the file system.
//! Enter  at `MetadataCopy::new`, then `MetadataCopy::own`: it returns when this host owns the metadata. Requests of other copies
//!        go to `MetadataCopy::host`.
//!
//! Every process of a copy has a run number. The register counts a copy with its run: a later process has lost what the former one had in
//! memory, and counts again when the owner has brought it up to date.

mod election;
mod error;
mod files;
mod host;
pub mod limits;
mod options;
mod own;
mod owner;
mod peers;
mod register;
mod register_access;
mod report;
mod step;
mod take_over;

pub use error::CopiesError;
pub use files::CopyFiles;
pub use host::CopyHost;
pub use options::CopyOptions;
pub use own::{MetadataCopy, OwnedStore};
pub use owner::Ownership;
pub use register::{Member, Register, RegisterError, Standing};
