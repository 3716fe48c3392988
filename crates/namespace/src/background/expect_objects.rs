use crate::driver::{FollowUp, OpResult};
use crate::record::{Inode, InodeBody};
use crate::salvage::mark_maybe_as_present_on;
use crate::view::OpView;
use gupfs_proto::{InodeId, OstId};

/// Objects of the file on this OST that may exist count as present: the OST will serve an older copy of itself, and what the copy lacks was
/// lost, and is no hole. The record must survive a power loss before the copy serves.
pub(crate) fn expect_objects(view: &mut OpView, ino: InodeId, ost: OstId) -> OpResult<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let mut expected = Inode::clone(&inode);
    if mark_maybe_as_present_on(&mut expected, |on| on == ost)
        && let InodeBody::File(expected) = expected.body
    {
        view.change_file(ino, |inode, file| {
            file.layout = expected.layout;
            inode.data_version += 1;
        })?;
    }
    view.add_follow_up(FollowUp::AwaitDurable);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::BackgroundOp;
    use crate::testing::*;
    use gupfs_proto::meta::AttrReport;
    use gupfs_proto::{Caller, Presence};

    #[test]
    fn what_a_copy_of_an_ost_may_lack_is_no_hole() {
        let mut server = TestServer::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let ino = created.unwrap().ino;
        server.begin_write(ino).unwrap();
        let unsynced = AttrReport {
            unsynced: vec![(0, 0), (1, 0)],
            ..report(5 << 20, &[])
        };
        server.end_write(ino, unsynced, false).unwrap();
        let before = server.file(ino).layout;
        let ost = before.components[1].targets[0];
        let expect = BackgroundOp::ExpectObjects { ino, ost };
        server.run_background(&expect).unwrap();
        let after = server.file(ino).layout;
        let mut objects = before.objects(ino).zip(after.objects(ino));
        assert!(objects.all(|((.., on, _, before), (.., after))| {
            let is_expected = on == ost && before == Presence::Maybe;
            after
                == if is_expected {
                    Presence::Present
                } else {
                    before
                }
        }));
        assert_eq!(after.components[1].presence.get(0), Presence::Present);
        // A confirmation that finds none leaves it as lost.
        let found = vec![(0, 0, true), (1, 0, false)];
        let confirmed = BackgroundOp::ConfirmObjects { ino, found };
        server.run_background(&confirmed).unwrap();
        let layout = server.file(ino).layout;
        assert_eq!(layout.components[1].presence.get(0), Presence::Present);
        let gone = BackgroundOp::ExpectObjects {
            ino: gupfs_proto::InodeId(9_999),
            ost,
        };
        server.run_background(&gone).unwrap();
        server.assert_clean();
    }
}
