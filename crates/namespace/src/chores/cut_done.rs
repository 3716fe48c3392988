use crate::key::{Key, PurgeId};
use crate::step::Outcome;
use crate::view::View;

/// Nothing lies beyond the file's new end any more: it is open for reading and writing again. The inode may be gone or
/// wait for another cut by now.
pub(crate) fn cut_done(view: &mut View, id: PurgeId, blocks: u64) -> Outcome<()> {
    view.remove(Key::purge(id));
    let Some(inode) = view.find_inode(id.ino)? else {
        return Ok(());
    };
    if let Some(cutting) = inode.file()?.cutting
        && cutting.number == id.number
    {
        view.change_file(id.ino, |inode, file| {
            file.cutting = None;
            inode.size = cutting.to;
            inode.blocks = blocks;
        })?;
    }
    Ok(())
}
