use crate::driver::OpResult;
use crate::key::{KeyRange, RecordKey, RecordKind};
use crate::record::Inode;
use crate::salvage;
use crate::steps::dentry::{self, Dentry};
use crate::view::OpView;
use gupfs_proto::limits::LINK_MAX;
use gupfs_proto::{Caller, InodeId, Name};

/// The inode of a new `/lost+found`, from the numbers reserved for the system.
const LOST_FOUND: InodeId = InodeId(2);

/// The second name is used if the root directory has the first name and it is not a directory.
const NAMES: [&str; 2] = ["lost+found", "lost+found.gupfs"];

/// Links an inode without a name in `/lost+found`, under its number. Only root can access that directory.
pub(crate) fn link_in_lost_found(
    view: &mut OpView,
    caller: &Caller,
    entropy: u64,
    ino: InodeId,
) -> OpResult<()> {
    let dir = find_or_create_lost_found(view, caller, entropy)?;
    let name = Name::new(format!("{:x}", ino.0).as_bytes())?;
    let dentry: Dentry = dentry::lookup(view, caller, dir, &name)?;
    dentry.check_negative()?;
    for (key, _) in view.scan(
        KeyRange::of_inode(ino, RecordKind::BackLink),
        LINK_MAX as usize,
    )? {
        view.remove(key);
    }
    view.change(ino, |inode| {
        inode.names = 0;
        inode.parent = None;
    })?;
    dentry::add_name(view, &dentry, ino)
}

/// The directory; creates it if it does not exist.
fn find_or_create_lost_found(
    view: &mut OpView,
    caller: &Caller,
    entropy: u64,
) -> OpResult<InodeId> {
    for text in NAMES {
        let name = Name::new(text.as_bytes())?;
        let dentry = dentry::lookup(view, caller, InodeId::ROOT, &name)?;
        let Some(entry) = dentry.entry else {
            return create_lost_found(view, &dentry, entropy);
        };
        let is_dir = |inode: &Inode| inode.is_dir();
        if view
            .find_inode(entry.ino)?
            .is_some_and(|inode| is_dir(&inode))
        {
            return Ok(entry.ino);
        }
    }
    Ok(InodeId::ROOT)
}

fn create_lost_found(view: &mut OpView, dentry: &Dentry, entropy: u64) -> OpResult<InodeId> {
    if view.get::<Inode>(&RecordKey::inode(LOST_FOUND))?.is_some() {
        // It was renamed: users may have moved it, so it stays there and is used under its new name.
        return Ok(LOST_FOUND);
    }
    let mut inode = salvage::rebuild_directory(LOST_FOUND, view.now(), entropy);
    debug_assert_eq!(inode.ino.shard(), InodeId::ROOT.shard());
    dentry::add_first_name(view, dentry, &mut inode)?;
    view.add_inode(inode);
    Ok(LOST_FOUND)
}
