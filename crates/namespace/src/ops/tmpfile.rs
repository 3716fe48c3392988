use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::permission;
use crate::record::{Inode, Orphan};
use crate::steps::new_inode;
use crate::view::OpView;
use gupfs_proto::meta::{CreateMode, MetaReplyBody};
use gupfs_proto::{Caller, FileKind, InodeId, SessionId};

/// open(2) with O_TMPFILE: creates a file without a name, with the shard and defaults of this directory; the directory does not
/// change. The file is removed with its last open, unless link(2) gives it a name before.
pub(crate) fn tmpfile(
    view: &mut OpView,
    session: SessionId,
    caller: &Caller,
    dir: InodeId,
    create_mode: CreateMode,
) -> OpResult<MetaReplyBody> {
    let inode = new_unnamed_file(view, session, caller, dir, create_mode)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(MetaReplyBody::Entry(attr))
}

/// As `tmpfile`, with the reply of an open.
pub(crate) fn open_tmpfile(
    view: &mut OpView,
    session: SessionId,
    caller: &Caller,
    dir: InodeId,
    create_mode: CreateMode,
) -> OpResult<MetaReplyBody> {
    let inode = new_unnamed_file(view, session, caller, dir, create_mode)?;
    let opened = inode.open_info(true);
    view.add_inode(inode);
    Ok(MetaReplyBody::Opened(opened))
}

fn new_unnamed_file(
    view: &mut OpView,
    session: SessionId,
    caller: &Caller,
    dir: InodeId,
    create_mode: CreateMode,
) -> OpResult<Inode> {
    let parent = view.inode(dir)?;
    let layout = parent.directory()?.layout_of_new_files();
    permission::check_create(&parent, caller)?;
    view.check_growth_allowed()?;
    let mut inode = new_inode::build(view, caller, &parent, FileKind::Regular, create_mode)?;
    let file = inode.file_mut()?;
    file.linkable = true;
    // Without a parent it cannot find the directory's default layout later.
    file.default_layout = layout;
    inode.orphan_records = 1;
    view.put(
        RecordKey::orphan(inode.ino, session),
        &Orphan { since: view.now() },
    );
    Ok(inode)
}
