//! Files: opening, data, size, syncing.

use super::Client;
use crate::file::{AllocateMode, OpenedFile, ReadOptions, SeekTo, WriteDone, WriteOptions};
use crate::inodes::{OpenFile, OpenFileFlags};
use bytes::Bytes;
use gupfs_platform::CurrentCall;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode, WritePosition};
use gupfs_proto::{
    Attr, ByteCount, Caller, FileOffset, FsError, InodeId, JobId, Layout, Name, ObjectId, OstId,
    data,
};
use std::sync::Arc;

impl Client {
    /// open(2) of an existing regular file.
    ///
    /// # Errors
    /// The metadata server's: `Denied`, `NotFound` and others. `Stale` when the file was removed or the session lost meanwhile.
    pub fn open(
        &self,
        caller: &Caller,
        ino: InodeId,
        mode: OpenMode,
        flags: OpenFileFlags,
    ) -> impl Future<Output = Result<OpenedFile, FsError>> {
        self.opens.open(caller, ino, mode, flags)
    }

    /// open(2) with O_CREAT: creates the file, or opens it if it exists and `exclusive` is not set. Adds one lookup
    /// (`Client::forget` removes it).
    ///
    /// # Errors
    /// `Exists` with `exclusive`, and the metadata server's others.
    #[allow(clippy::too_many_arguments)] // they are open(2)'s, and each is typed
    pub fn create(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        create_mode: CreateMode,
        exclusive: bool,
        mode: OpenMode,
        flags: OpenFileFlags,
    ) -> impl Future<Output = Result<OpenedFile, FsError>> {
        (self.opens).create(caller, dir, name, create_mode, exclusive, mode, flags)
    }

    /// open(2) with O_TMPFILE: a file without a name. Adds one lookup.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn tmpfile(
        &self,
        caller: &Caller,
        dir: InodeId,
        create_mode: CreateMode,
        access: AccessMode,
        flags: OpenFileFlags,
    ) -> impl Future<Output = Result<OpenedFile, FsError>> {
        self.opens.tmpfile(caller, dir, create_mode, access, flags)
    }

    /// The open file with the number `OpenFile::id`.
    ///
    /// # Errors
    /// `Stale` after its release.
    pub fn file(&self, id: u64) -> Result<Arc<OpenFile>, FsError> {
        self.open_files.get(id).ok_or(FsError::Stale)
    }

    /// The last descriptor and mapping of an open file are gone. When this returns, the server has the report of its writes;
    /// until then this client answers with its own state. Releasing twice does nothing.
    ///
    /// # Errors
    /// When the report failed: the write lease stays here, and `stop` reports again.
    pub fn release(&self, id: u64) -> impl Future<Output = Result<(), FsError>> {
        let job = self
            .open_files
            .get(id)
            .map_or(JobId::UNKNOWN, |file| file.job());
        CurrentCall::with_default_job(job, self.opens.release(id))
    }

    /// Whether the file is open for writing here: then the kernel should not cache what it reads.
    pub fn has_writer(&self, ino: InodeId) -> bool {
        let file = self.inodes.get(ino);
        file.is_some_and(|file| file.state().opens.writers() > 0)
    }

    /// The bytes of `offset .. offset + len`, as segments in order (holes are shared zeros); fewer at the end of the file, none
    /// beyond it.
    ///
    /// # Errors
    /// `ObjectDamaged` when a known object is missing, or its bytes fail their checksum twice. `Stale` if the session in which the
    /// file was opened is lost. The error of a server.
    pub fn read(
        &self,
        file: &OpenFile,
        offset: u64,
        len: u64,
        options: ReadOptions,
    ) -> impl Future<Output = Result<Vec<Bytes>, FsError>> {
        let (offset, len) = (FileOffset(offset), ByteCount(len));
        let reading = self.files.io.read(file, offset, len, options);
        CurrentCall::with_default_job(file.job(), reading)
    }

    /// The same for a READ that fills the kernel's page cache: under a lease on the file's data, or its write lease if the file is open for
    /// writing here. The kernel drops the pages before the lease ends.
    ///
    /// # Errors
    /// As `read`; and the metadata server's, which is asked for the lease.
    pub fn read_pages(
        &self,
        file: &OpenFile,
        offset: u64,
        len: u64,
        options: ReadOptions,
    ) -> impl Future<Output = Result<Vec<Bytes>, FsError>> {
        // Boxed: most reads are direct, and need no room for it.
        let (offset, len) = (FileOffset(offset), ByteCount(len));
        let reading = self.files.io.read_pages(file, offset, len, options);
        Box::pin(CurrentCall::with_default_job(file.job(), reading))
    }

    /// Whether a read of a file with these attributes updates its access time now, so that the kernel must send it to this
    /// client.
    pub fn read_updates_atime(&self, attr: &Attr) -> bool {
        self.files.io.read_updates_atime(attr)
    }

    /// Whether every read updates it.
    pub fn every_read_updates_atime(&self) -> bool {
        self.files.io.every_read_updates_atime()
    }

    /// write(2). A write whose later bytes failed is short.
    ///
    /// # Errors
    /// `Denied` if the file is not open for writing; `TooLarge` at the largest offset; `NoSpace`, or the error of the first byte;
    /// `Stale` if the session in which the file was opened is lost; with O_DSYNC or O_SYNC those of `fsync`.
    pub fn write(
        &self,
        file: &OpenFile,
        at: WritePosition,
        data: Bytes,
        options: WriteOptions,
    ) -> impl Future<Output = Result<WriteDone, FsError>> {
        let writing = self.files.io.write(file, at, data, options);
        CurrentCall::with_default_job(file.job(), writing)
    }

    /// copy_file_range(2): copies up to `len` bytes, at most to the end of the source, and returns how many. An error after the first
    /// byte makes the copy short.
    ///
    /// # Errors
    /// `Invalid` when the ranges overlap in one file, as copy_file_range(2) requires. Those of `read` and `write`.
    pub async fn copy_range(
        &self,
        (source, read_at): (&OpenFile, u64),
        (target, write_at): (&OpenFile, u64),
        len: u64,
        options: WriteOptions,
    ) -> Result<u64, FsError> {
        let from = (source, FileOffset(read_at));
        let to = (target, FileOffset(write_at));
        let copied = (self.files.io).copy_range(from, to, ByteCount(len), options);
        Ok(copied.await?.get())
    }

    /// fallocate(2).
    ///
    /// # Errors
    /// `Denied` if the file is not open for writing; `Invalid` for no bytes; `TooLarge`; `NotPermitted` for zeroing an append-only
    /// file; `Stale`; the error of a server.
    pub fn allocate(
        &self,
        file: &OpenFile,
        mode: AllocateMode,
        offset: u64,
        len: u64,
        kill_privileges: bool,
    ) -> impl Future<Output = Result<(), FsError>> {
        let (offset, len) = (FileOffset(offset), ByteCount(len));
        (self.files.io).allocate(file, mode, offset, len, kill_privileges)
    }

    /// lseek(2): the first data or hole at or after `offset`; the end of the file is a hole.
    ///
    /// # Errors
    /// `NoMoreData` at or beyond the end of the file, and for data when only a hole is left. `Stale`; the error of a server.
    pub async fn seek(&self, file: &OpenFile, offset: u64, to: SeekTo) -> Result<u64, FsError> {
        let found = self.files.io.seek(file, FileOffset(offset), to);
        Ok(found.await?.get())
    }

    /// truncate(2). `by_handle`: through a file opened for writing, whose permission was checked at the open.
    ///
    /// # Errors
    /// `TooLarge`; those of the metadata server.
    pub fn truncate(
        &self,
        caller: &Caller,
        ino: InodeId,
        to: u64,
        by_handle: bool,
        kill_privileges: bool,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        (self.files.leases).truncate(caller, ino, FileOffset(to), by_handle, kill_privileges)
    }

    /// ftruncate(2): through a file that is open for writing, whose permission was checked at the open.
    ///
    /// # Errors
    /// `Stale` if the session in which it was opened is lost: its writes may be lost, and other clients' writes be there. Those of
    /// `truncate`.
    pub fn truncate_open(
        &self,
        caller: &Caller,
        file: &OpenFile,
        to: u64,
        kill_privileges: bool,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        (self.files.leases).truncate_open(caller, file, FileOffset(to), kill_privileges)
    }

    /// FS_IOC_SETFLAGS. Earlier writes of this client stay in the file; a later write acquires the lease again.
    ///
    /// # Errors
    /// The metadata server's: `NotPermitted` and others. That of the last attribute report.
    pub fn set_flags(
        &self,
        caller: &Caller,
        ino: InodeId,
        flags: InodeFlags,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.files.leases.set_flags(caller, ino, flags)
    }

    /// fsync(2): everything written to the file survives a power loss; `data_only` (fdatasync) does not report times, and the
    /// objects hold the size.
    ///
    /// # Errors
    /// The error of the sync; that a target lost unsynced bytes; and, once for each open file, an earlier writeback error.
    pub fn fsync(
        &self,
        file: &OpenFile,
        data_only: bool,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.files.sync.fsync(file, data_only)
    }

    /// close(2) of one descriptor.
    ///
    /// # Errors
    /// An earlier writeback error, once for each open file.
    pub fn flush(&self, file: &OpenFile) -> Result<(), FsError> {
        file.take_error(None)
    }

    /// fsync(2) of a directory: every answered change of names survives a power loss.
    ///
    /// # Errors
    /// The metadata server's: its log could not be synced.
    pub fn fsync_dir(&self) -> impl Future<Output = Result<(), FsError>> {
        self.mds.sync_log()
    }

    /// syncfs(2): everything that was answered survives a power loss, for open and closed files.
    ///
    /// # Errors
    /// The error of the last file that could not be synced, of the closed files or of the log; an error that a background sync has
    /// met before.
    pub fn sync_all(&self) -> impl Future<Output = Result<(), FsError>> {
        self.files.sync.sync_all()
    }

    /// A regular file's layout, with the known presence of its objects; empty while its data is inline in the inode.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn layout(&self, ino: InodeId) -> impl Future<Output = Result<Layout, FsError>> {
        self.files.leases.layout(ino)
    }

    /// Size, blocks and mtime of one object; None if it does not exist.
    ///
    /// # Errors
    /// The OST's: `TargetDown` and others.
    pub fn object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> impl Future<Output = Result<Option<data::ObjectStat>, FsError>> {
        self.osts.stat(ost, object)
    }
}
