use crate::driver::OpResult;
use crate::permission;
use crate::requester::RequestingSession;
use crate::steps::dentry;
use crate::view::OpView;
use gupfs_proto::meta::{MetaReplyBody, RemovedName};
use gupfs_proto::{Caller, FsError, InodeId, Name};

/// rmdir(2): removes an empty directory. A process whose working directory it is keeps it, finds no entries and can create none.
/// The parent loses a link; its mtime and ctime are updated. The entry count decides whether it is empty, without a scan.
pub(crate) fn rmdir(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
) -> OpResult<MetaReplyBody> {
    let dentry = dentry::lookup(view, caller, dir, name)?;
    let victim = dentry::target_inode(view, dentry.entry()?)?;
    let parent = view.inode(dir)?;
    permission::check_remove(&parent, &victim, caller, true)?;
    if victim.directory()?.entries > 0 {
        return Err(FsError::NotEmpty.into());
    }
    let orphan = dentry::remove_name(view, session, &dentry, victim.ino)?;
    Ok(MetaReplyBody::Removed(RemovedName {
        victim: Some(victim.ino),
        is_orphan: orphan,
        attr: None,
    }))
}
