use crate::step::Outcome;
use crate::view::View;
use crate::{may, place};
use gupfs_proto::meta::{Answer, Removed};
use gupfs_proto::{InodeId, Name, Refusal};

/// rmdir(2): only an empty directory goes; who stands in it stays there, and finds nothing and can make nothing. The parent
/// loses a link; its mtime and ctime are updated. The count of entries decides, no scan.
pub(crate) fn rmdir(view: &mut View, dir: InodeId, name: &Name) -> Outcome<Answer> {
    let place = place::find(view, dir, name)?;
    let victim = place::target(view, place.entry()?)?;
    let parent = view.inode(dir)?;
    may::remove_from(&parent, &victim, view.ctx.caller, true)?;
    if victim.directory()?.entries > 0 {
        return Err(Refusal::NotEmpty.into());
    }
    let orphan = place::remove_name(view, &place, victim.ino)?;
    Ok(Answer::Removed(Removed {
        victim: Some(victim.ino),
        orphan,
        attr: None,
    }))
}
