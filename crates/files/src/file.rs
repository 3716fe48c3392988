//! An open file.

use crate::entries::OpenRequest;
use crate::held_inode::HeldInode;
use crate::limits::PIECE;
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use bytes::Bytes;
use gupfs_client::{OpenFile, OpenedFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{Attr, FsError, InodeId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open regular file. A drop closes it, and cannot return what `close` returns.
pub struct FileHandle {
    user: UserFiles,
    file: Arc<OpenFile>,
    /// Keeps the inode, also without a name, as long as the file is open.
    held: Arc<Mutex<Option<HeldInode>>>,
    request: OpenRequest,
    was_closed: Arc<AtomicBool>,
}

impl FileHandle {
    pub(crate) fn new(
        user: UserFiles,
        opened: OpenedFile,
        held: HeldInode,
        request: OpenRequest,
    ) -> FileHandle {
        FileHandle {
            user,
            file: opened.file,
            held: Arc::new(Mutex::new(Some(held))),
            request,
            was_closed: Arc::default(),
        }
    }

    pub fn ino(&self) -> InodeId {
        self.file.ino()
    }

    pub fn request(&self) -> OpenRequest {
        self.request
    }

    pub(crate) fn open_file(&self) -> &OpenFile {
        &self.file
    }

    /// # Errors
    /// `Stale` after `close`.
    fn check_open(&self) -> Result<(), FsError> {
        match self.was_closed.load(Ordering::Acquire) {
            true => Err(FsError::Stale),
            false => Ok(()),
        }
    }

    /// The bytes of `offset .. offset + len`, as segments; fewer at the end of the file, and after `limits::PIECE`.
    ///
    /// # Errors
    /// `Denied` if the file is not open for reading; `ObjectDamaged`, and those of the servers.
    pub fn read_at(&self, offset: u64, len: u64) -> RunToEnd<Vec<Bytes>> {
        let (core, file) = (self.user.core.clone(), self.file.clone());
        let (request, is_open) = (self.request, self.check_open());
        self.user.run(async move {
            is_open?;
            if !request.read {
                return Err(FsError::Denied);
            }
            let options = ReadOptions::new(request.leaves_atime);
            let len = len.min(PIECE);
            core.client.read(&file, offset, len, options).await
        })
    }

    /// The same of any length: fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// As `read_at`.
    pub(crate) async fn read_range(&self, offset: u64, len: u64) -> Result<Vec<Bytes>, FsError> {
        let (mut segments, mut at) = (Vec::new(), offset);
        let end = offset.saturating_add(len);
        while at < end {
            let piece = self.read_at(at, end - at).await?;
            let read: usize = piece.iter().map(Bytes::len).sum();
            if read == 0 {
                break;
            }
            at += read as u64;
            segments.extend(piece);
        }
        Ok(segments)
    }

    /// Writes at an offset, or to the end of a file that is open for appending. Returns how many bytes it wrote: fewer than given if the rest
    /// failed.
    ///
    /// # Errors
    /// `Denied` if the file is not open for writing; the error of the first byte.
    pub fn write_at(&self, offset: u64, bytes: Bytes) -> RunToEnd<u64> {
        let position = match self.request.append {
            true => WritePosition::End,
            false => WritePosition::Offset(offset),
        };
        let (core, file) = (self.user.core.clone(), self.file.clone());
        let options = WriteOptions {
            kill_privileges: self.user.kills_privileges(),
            ..WriteOptions::default()
        };
        let is_open = self.check_open();
        self.user.run(async move {
            is_open?;
            // A longer append in two pieces could have another program's bytes between them.
            if matches!(position, WritePosition::End) {
                let done = core.client.write(&file, position, bytes, options).await?;
                return Ok(done.written);
            }
            let mut rest = bytes;
            let mut written = 0;
            loop {
                let piece = rest.split_to(rest.len().min(PIECE as usize));
                let len = piece.len() as u64;
                let at = WritePosition::Offset(offset + written);
                match core.client.write(&file, at, piece, options).await {
                    Ok(done) => written += done.written,
                    Err(error) if written == 0 => return Err(error),
                    Err(_) => return Ok(written),
                }
                if rest.is_empty() || written % PIECE != 0 || len < PIECE {
                    return Ok(written);
                }
            }
        })
    }

    /// fstat(2).
    ///
    /// # Errors
    /// Those of the servers.
    pub fn attr(&self) -> RunToEnd<Attr> {
        let (user, file) = (self.user.clone(), self.file.clone());
        self.user.run(async move {
            let client = &user.core.client;
            client.getattr(&user.caller, file.ino()).await
        })
    }

    /// ftruncate(2).
    ///
    /// # Errors
    /// `Invalid` if the file is not open for writing; `TooLarge`; those of the servers.
    pub fn truncate(&self, to: u64) -> RunToEnd<()> {
        let (user, file, writes) = (self.user.clone(), self.file.clone(), self.request.write);
        let is_open = self.check_open();
        self.user.run(async move {
            is_open?;
            if !writes {
                return Err(FsError::Invalid);
            }
            let (client, kill) = (&user.core.client, user.kills_privileges());
            let truncated = client.truncate_open(&user.caller, &file, to, kill).await;
            truncated.map(|_| ())
        })
    }

    /// fsync(2), or fdatasync(2).
    ///
    /// # Errors
    /// Those of `gupfs_client::Client::fsync`.
    pub fn sync(&self, data_only: bool) -> RunToEnd<()> {
        let (core, file) = (self.user.core.clone(), self.file.clone());
        let is_open = self.check_open();
        self.user.run(async move {
            is_open?;
            core.client.fsync(&file, data_only).await
        })
    }

    /// close(2): afterwards the servers know what was written. Closing twice does nothing.
    ///
    /// # Errors
    /// An error of an earlier write that had been answered; that the report of the writes failed.
    pub fn close(&self) -> RunToEnd<()> {
        let (core, file) = (self.user.core.clone(), self.file.clone());
        let (was_closed, held) = (self.was_closed.clone(), self.held.clone());
        self.user.run(async move {
            if was_closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            let earlier = core.client.flush(&file);
            let released = core.client.release(file.id()).await;
            drop(held.lock().take());
            earlier.and(released)
        })
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        if self.was_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let (core, id, held) = (self.user.core.clone(), self.file.id(), self.held.clone());
        self.user.core.spawn("close of a dropped file", async move {
            if let Err(error) = core.client.release(id).await {
                tracing::warn!(%error, "a file that was dropped without a close could not report its writes; the client reports them again");
            }
            drop(held);
        });
    }
}
