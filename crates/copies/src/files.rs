//! The files of a copy.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gupfs_platform::Disk;
use gupfs_store::index::Index;

/// Where a copy has its log and its index. An error is a text that names the file.
pub trait CopyFiles: Send + Sync + 'static {
    /// The disk of the log.
    ///
    /// # Errors
    /// If its directory cannot be opened.
    fn log_disk(&self) -> Result<Disk, String>;

    /// Opens the index. It may wait for the disk.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open_index(&self) -> Result<Index, String>;

    /// Removes the log and the index, which are closed: both are new and empty afterwards.
    fn clear(&self) -> BoxFuture<'static, Result<(), String>>;

    /// Whether the disk has more than the reserve of the metadata left, so that an owner lets it grow. True if that cannot be found out.
    fn has_room(&self) -> BoxFuture<'static, bool>;

    /// The list of the clients' keys as this host has it; None if it has none. It may wait for the disk.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read_key_list(&self) -> Result<Option<Bytes>, String>;

    /// Replaces the list of the clients' keys, durably. It may wait for the disk.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn write_key_list(&self, list: &[u8]) -> Result<(), String>;
}
