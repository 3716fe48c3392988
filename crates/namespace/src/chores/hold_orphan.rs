use crate::key::Key;
use crate::record::Orphan;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::{InodeId, SessionId};

/// A session has said that it has a file open that has no name any more. Said twice, the second time does nothing; of a
/// file that has got a name again, too.
pub(crate) fn hold_orphan(view: &mut View, ino: InodeId, session: SessionId) -> Outcome<()> {
    let key = Key::orphan(ino, session);
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    if inode.names > 0 || view.get::<Orphan>(&key)?.is_some() {
        return Ok(());
    }
    let since = view.ctx.now;
    view.put(key, &Orphan { since });
    view.change(ino, |inode| inode.holders += 1)
}
