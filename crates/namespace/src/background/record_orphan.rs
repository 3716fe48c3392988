use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::record::Orphan;
use crate::view::OpView;
use gupfs_proto::{InodeId, SessionId};

/// A session has reported that it has an unlinked file open. Idempotent; changes nothing if the file has a name again.
pub(crate) fn record_orphan(view: &mut OpView, ino: InodeId, session: SessionId) -> OpResult<()> {
    let key = RecordKey::orphan(ino, session);
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    if inode.names > 0 || view.get::<Orphan>(&key)?.is_some() {
        return Ok(());
    }
    let since = view.now();
    view.put(key, &Orphan { since });
    view.change(ino, |inode| inode.orphan_records += 1)
}
