//! Names and attributes. Every returned entry adds one lookup to its inode until `Client::forget`.

use super::Client;
use crate::inodes::OpenFile;
use crate::kernel_attributes::KernelInodes;
use crate::names::DirListing;
use crate::space::{FileSystemSpace, TargetSpace};
use bytes::Bytes;
use gupfs_proto::layout::{ConversionState, DefaultLayout, LayoutChange};
use gupfs_proto::meta::{
    AccessMode, CreateMode, RemovedName, RenameMode, SetAttr, XattrMode, XattrName,
};
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId, JobId, JobLabel, Name};
use std::sync::Arc;
use std::time::Duration;

impl Client {
    /// The inode of a name. Adds one lookup.
    ///
    /// # Errors
    /// `NotFound`, and the metadata server's others.
    pub fn lookup(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.lookup(caller, dir, name)
    }

    /// The directory above a directory. Adds one lookup.
    ///
    /// # Errors
    /// `NotFound` for a removed directory, and the metadata server's others.
    pub fn lookup_parent(
        &self,
        caller: &Caller,
        dir: InodeId,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.lookup_parent(caller, dir)
    }

    /// The number of a job, for `CurrentCall::job`. The metadata server learns the label soon.
    pub fn name_job(&self, label: JobLabel) -> JobId {
        self.mds.name_job(label)
    }

    /// The kernel (or another user of this library) drops lookups of inodes.
    pub fn forget(&self, given_back: impl IntoIterator<Item = (InodeId, u64)>) {
        self.lookups.forget(given_back);
    }

    /// Adds one lookup for each of these inodes: entries of `readdir` with attributes that the caller has passed on.
    pub fn add_lookups(&self, inodes: impl IntoIterator<Item = InodeId>) {
        self.lookups.add_all(inodes);
    }

    /// stat(2).
    ///
    /// # Errors
    /// The metadata server's; those of the OSTs with the objects of a file that this client has written.
    pub fn getattr(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.getattr(caller, ino)
    }

    /// How long the kernel may use these attributes, which this client has just returned; zero unless `set_kernel` was called.
    pub fn attributes_lifetime(&self, attr: &Attr) -> Duration {
        self.mds.attributes_lifetime(attr)
    }

    /// The same in the reply to the creation of a file.
    pub fn new_file_attributes_lifetime(&self, attr: &Attr) -> Duration {
        self.mds.new_file_attributes_lifetime(attr)
    }

    /// The kernel above this client. It gets attributes with lifetimes, and invalidations before they change; and it drops pages
    /// (`read_pages`) before the lease on their bytes ends.
    pub fn set_kernel(&self, kernel: Arc<dyn KernelInodes>) {
        self.mds.set_kernel(kernel);
    }

    /// Changes everything that setattr can change except the size, which `truncate` changes.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn setattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        set: SetAttr,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.setattr(caller, ino, set)
    }

    /// access(2), with the caller's credentials.
    ///
    /// # Errors
    /// `Denied`, and the metadata server's others.
    pub fn access(
        &self,
        caller: &Caller,
        ino: InodeId,
        want: AccessMode,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.access(caller, ino, want)
    }

    /// # Errors
    /// `Invalid` for another inode than a symbolic link, and the metadata server's others.
    pub fn readlink(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> impl Future<Output = Result<Vec<u8>, FsError>> {
        self.names.readlink(caller, ino)
    }

    /// # Errors
    /// `Exists`, and the metadata server's others.
    pub fn mkdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        create_mode: CreateMode,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.mkdir(caller, dir, name, create_mode)
    }

    /// A fifo, socket, device, or an empty regular file.
    ///
    /// # Errors
    /// `Exists`, and the metadata server's others.
    pub fn mknod(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        kind: FileKind,
        rdev: u32,
        create_mode: CreateMode,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        (self.names).mknod(caller, dir, name, kind, rdev, create_mode)
    }

    /// # Errors
    /// `Exists`, and the metadata server's others.
    pub fn symlink(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        target: &[u8],
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.symlink(caller, dir, name, target)
    }

    /// Adds a name; the first one for an O_TMPFILE file.
    ///
    /// # Errors
    /// `Exists`, and the metadata server's others.
    pub fn link(
        &self,
        caller: &Caller,
        ino: InodeId,
        dir: InodeId,
        name: &Name,
    ) -> impl Future<Output = Result<Attr, FsError>> {
        self.names.link(caller, ino, dir, name)
    }

    /// # Errors
    /// `NotFound`, and the metadata server's others.
    pub fn unlink(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> impl Future<Output = Result<RemovedName, FsError>> {
        self.names.unlink(caller, dir, name)
    }

    /// # Errors
    /// `NotFound`, `NotEmpty`, and the metadata server's others.
    pub fn rmdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> impl Future<Output = Result<RemovedName, FsError>> {
        self.names.rmdir(caller, dir, name)
    }

    /// # Errors
    /// `NotFound`, and the metadata server's others.
    pub fn rename(
        &self,
        caller: &Caller,
        from: (InodeId, &Name),
        to: (InodeId, &Name),
        mode: RenameMode,
    ) -> impl Future<Output = Result<RemovedName, FsError>> {
        self.names.rename(caller, from, to, mode)
    }

    /// opendir(3): requires read permission on the directory; `readdir` then keeps it until `close_dir`.
    ///
    /// # Errors
    /// `Denied`, and the metadata server's others.
    pub fn open_dir(
        &self,
        caller: &Caller,
        dir: InodeId,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.open_dir(caller, dir)
    }

    /// closedir(3).
    pub fn close_dir(&self, dir: InodeId) {
        self.names.close_dir(dir);
    }

    /// About `limit` entries after `cookie` (0 is the start), "." and ".." first. With attributes if `plus`; these entries add no
    /// lookup: a caller that passes one on to the kernel calls `Client::add_lookups`.
    ///
    /// # Errors
    /// The metadata server's; with `plus` those of `getattr`, except that an inode was removed or that an OST is down.
    pub fn readdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        cookie: u64,
        limit: u32,
        plus: bool,
    ) -> impl Future<Output = Result<DirListing, FsError>> {
        self.names.readdir(caller, dir, cookie, limit, plus)
    }

    /// # Errors
    /// `NoAttribute`, and the metadata server's others.
    pub fn getxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
    ) -> impl Future<Output = Result<Bytes, FsError>> {
        self.names.getxattr(caller, ino, name)
    }

    /// # Errors
    /// The metadata server's.
    pub fn listxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> impl Future<Output = Result<Vec<XattrName>, FsError>> {
        self.names.listxattr(caller, ino)
    }

    /// # Errors
    /// The metadata server's: by `mode` that the attribute exists or does not, and others.
    pub fn setxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.setxattr(caller, ino, name, value, mode)
    }

    /// # Errors
    /// `NoAttribute`, and the metadata server's others.
    pub fn removexattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.removexattr(caller, ino, name)
    }

    /// Called before an unprivileged process changes an open file's data by a request without FUSE's kill flag (fallocate):
    /// clears setgid also where the group may not execute the file, if the caller is not in the group.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn kill_setgid(
        &self,
        caller: &Caller,
        file: &OpenFile,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.kill_setgid(caller, file)
    }

    /// Clears setuid, setgid and capabilities of a file, because a process without privileges is changing it.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn kill_privileges(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.kill_privileges(caller, ino)
    }

    /// The default layout of new files, and whether it is inherited from a directory above.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn default_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> impl Future<Output = Result<(DefaultLayout, bool), FsError>> {
        self.names.default_layout(caller, ino)
    }

    /// `layout` None: the directory inherits its default layout again.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn set_default_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
        layout: Option<DefaultLayout>,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.names.set_default_layout(caller, ino, layout)
    }

    /// Gives a file that has objects another layout, while no session writes it; programs read the same bytes before and after. Returns after
    /// a second or two how far it is: the caller asks again until it has ended.
    ///
    /// # Errors
    /// `Invalid` for what is no regular file and for a layout that no file can have; the metadata server's others.
    pub async fn convert_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
        change: LayoutChange,
    ) -> Result<ConversionState, FsError> {
        // The server revokes the write leases of other sessions only.
        self.files.leases.release_for_server(ino).await?;
        self.names.convert_layout(caller, ino, change).await
    }

    /// statfs(2).
    ///
    /// # Errors
    /// When the metadata server or every target fails; with one target down the call returns the space of the others.
    pub fn statfs(
        &self,
        caller: &Caller,
    ) -> impl Future<Output = Result<FileSystemSpace, FsError>> {
        self.space.statfs(caller)
    }

    /// The space of each target.
    ///
    /// # Errors
    /// The metadata server's, for its list of targets; a target's own error is in its entry.
    pub fn target_spaces(&self) -> impl Future<Output = Result<Vec<TargetSpace>, FsError>> {
        self.space.target_spaces()
    }
}
