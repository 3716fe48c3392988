//! # conversion: files that get another layout
//!
//! Owns   copying the bytes of a file that rests to new objects, and the batch that makes them the file's.
//! Never  lets a session read or write by two layouts; leaves an object behind that no layout names, but for a crash (the sweep removes it).
//! Enter  at `FileConverter::convert`; users ask through `pending_work::ConversionQueue`, which `ConversionTask` serves. At
//!        `FileConverter::move_components` for other targets of parts of a file, at the pace of a rebalance.
//!
//! The new objects have generations that no layout of the file ever had, and that are reserved durably before the first object is made. So
//! no late write of a conversion that was given up reaches an object that a program reads. The batch is applied only if the file's record is
//! still as it was when the copying began; it ends every lease on the file's data first.

mod copy;
mod file;
mod pace;
mod task;

pub use file::{ComponentTargets, FileConversion, FileConverter};
pub use pace::CopyPace;
pub use task::ConversionTask;
