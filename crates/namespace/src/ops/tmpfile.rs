use crate::key::Key;
use crate::record::{Inode, Orphan};
use crate::step::Outcome;
use crate::view::View;
use crate::{may, newborn, ops};
use gupfs_proto::meta::{Answer, Make};
use gupfs_proto::{FileKind, InodeId};

/// open(2) with O_TMPFILE: a file without a name in this directory's place; nothing of the directory changes. It goes when
/// its last user goes, unless link(2) names it before.
pub(crate) fn tmpfile(view: &mut View, dir: InodeId, make: Make) -> Outcome<Answer> {
    let inode = nameless(view, dir, make)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(Answer::Entry(attr))
}

/// The same, answered as any other open is.
pub(crate) fn open_tmpfile(view: &mut View, dir: InodeId, make: Make) -> Outcome<Answer> {
    let inode = nameless(view, dir, make)?;
    let opened = ops::opened(&inode, true);
    view.add_inode(inode);
    Ok(Answer::Opened(opened))
}

fn nameless(view: &mut View, dir: InodeId, make: Make) -> Outcome<Inode> {
    let parent = view.inode(dir)?;
    let rule = parent
        .directory()?
        .rule
        .as_ref()
        .map(|ruled| ruled.rule.clone());
    may::create_in(&parent, view.ctx.caller)?;
    view.must_have_room()?;
    let mut inode = newborn::inode(view, &parent, FileKind::Regular, make)?;
    let file = inode.file_mut()?;
    file.linkable = true;
    // It will not find the directory again.
    file.rule = rule;
    inode.holders = 1;
    view.put(
        Key::orphan(inode.ino, view.ctx.session),
        &Orphan {
            since: view.ctx.now,
        },
    );
    Ok(inode)
}
