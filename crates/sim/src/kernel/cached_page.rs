//! A page of a file in the page cache.

use bytes::Bytes;
use gupfs_fuse::FileHandle;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Size of a page.
pub const PAGE: u64 = 4096;

/// A page, with its lock.
pub type Page = Arc<Mutex<CachedPage>>;

#[derive(Default)]
pub struct CachedPage {
    /// None until the page is filled. Shorter than a page at the end of the file.
    pub bytes: Option<Bytes>,
    /// A mapping stored into the page. It must be written through this open file before it is dropped.
    pub dirty: Option<FileHandle>,
}
