use crate::driver::OpResult;
use crate::key::{PurgeId, RecordKey};
use crate::view::OpView;

/// No object holds bytes beyond the file's new end any more: sessions may read and write the file again. By now the inode may
/// have been removed or may wait for another truncate.
pub(crate) fn truncate_done(view: &mut OpView, id: PurgeId, blocks: u64) -> OpResult<()> {
    view.remove(RecordKey::purge(id));
    let Some(inode) = view.find_inode(id.ino)? else {
        return Ok(());
    };
    if let Some(truncate) = inode.file()?.truncating
        && truncate.number == id.number
    {
        view.change_file(id.ino, |inode, file| {
            file.truncating = None;
            inode.size = truncate.to;
            inode.blocks = blocks;
        })?;
    }
    Ok(())
}
