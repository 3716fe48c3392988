//! Reads that wait for a device without a thread of the pool: on threads that have a ring of their own, which the rooms above
//! know and this one does not.

use bytes::BytesMut;
use std::future::Future;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

/// A file that stays open while it is read.
pub type OpenFile = Arc<dyn AsFd + Send + Sync>;

/// The buffer with what was read behind what it held: nothing more if the file ends there. After an error it is gone, and the
/// read is tried in another way.
pub type ReadingAside = Pin<Box<dyn Future<Output = std::io::Result<BytesMut>> + Send>>;

pub trait ReadAside: Send + Sync {
    /// Begins to read up to `len` bytes into the spare room of `into`, at least so long.
    ///
    /// # Errors
    /// Returns the buffer if the calling thread cannot, or should not for so much.
    fn read(
        &self,
        file: &OpenFile,
        into: BytesMut,
        len: usize,
        offset: u64,
    ) -> Result<ReadingAside, BytesMut>;
}

static WAY: OnceLock<&'static dyn ReadAside> = OnceLock::new();

/// For this process and as long as it lives; the first one stays.
pub fn read_aside_with(way: &'static dyn ReadAside) {
    let _ = WAY.set(way);
}

pub(super) fn way() -> Option<&'static dyn ReadAside> {
    WAY.get().copied()
}
