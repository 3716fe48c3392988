use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::record::WriteLease;
use crate::steps::{confirmation, purge, stale_members};
use crate::view::OpView;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, InodeId, Layout, Presence, SessionId};

/// A lease holder has ended without a final attribute report: size and times come from the objects. The same batch removes its
/// write lease. Objects that it created and did not sync are confirmed later: a start does not wait for disks.
///
/// A file with inline bytes and a layout was not spilled completely: the inline bytes are the file, because the record without
/// them is written only after the objects are durable, and the objects are removed.
pub(crate) fn recover_write_lease(
    view: &mut OpView,
    ino: InodeId,
    session: SessionId,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> OpResult<()> {
    let writer = RecordKey::write_lease(ino, session);
    if view.get::<WriteLease>(&writer)?.is_none() {
        return Ok(());
    }
    view.remove(writer);
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    if !file.inline.is_empty() && !file.layout.is_empty() {
        let number = file.next_generation;
        purge::remove_objects(view, &inode, number, file.layout.clone());
        return view.change_file(ino, |inode, file| {
            file.write_leases = file.write_leases.saturating_sub(1);
            file.layout = Layout::default();
            file.next_generation = number + 1;
            inode.blocks = 0;
        });
    }
    apply_object_stats(view, ino, found, 1)
}

/// The record is from an older copy of the store, and the objects are newer: size and times come from the objects. A file with a
/// write lease is skipped: its holder will report.
pub(crate) fn update_from_objects(
    view: &mut OpView,
    ino: InodeId,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> OpResult<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    if file.write_leases > 0 || file.truncating.is_some() || !file.inline.is_empty() {
        return Ok(());
    }
    apply_object_stats(view, ino, found, 0)
}

fn apply_object_stats(
    view: &mut OpView,
    ino: InodeId,
    found: &[(u32, u32, Option<ObjectStat>)],
    writers_gone: u32,
) -> OpResult<()> {
    let mut in_doubt = false;
    let mut layout = view.inode(ino)?.file()?.layout.clone();
    let has_new_stale = mark_unequal_members(&mut layout, found)?;
    view.change_file(ino, |inode, file| {
        file.write_leases = file.write_leases.saturating_sub(writers_gone);
        file.layout = layout;
        for (component, stripe, stat) in found {
            let Some(component) = file.layout.components.get_mut(*component as usize) else {
                continue;
            };
            let stripe = *stripe as usize;
            if component.presence.get(stripe) == Presence::Stale {
                continue;
            }
            match stat {
                Some(stat) => {
                    if component.presence.get(stripe) != Presence::Present {
                        component.presence.set(stripe, Presence::Maybe);
                        in_doubt = true;
                    }
                    inode.size = inode.size.max(component.file_size(stripe, stat.size));
                    if stat.mtime > inode.ctime {
                        inode.mtime = stat.mtime;
                        inode.ctime = stat.mtime;
                    }
                }
                // The object was never created, unless another lease holder is creating it now. An object that was present and is
                // missing stays `Present`, so that reads report it as lost.
                None if component.presence.get(stripe) == Presence::Maybe
                    && file.write_leases == 0 =>
                {
                    component.presence.set(stripe, Presence::Never);
                }
                None => {}
            }
        }
        let is_counted = |(component, index, _): &&(u32, u32, Option<ObjectStat>)| {
            let component = file.layout.components.get(*component as usize);
            component.is_none_or(|component| component.is_first_full_member(*index as usize))
        };
        let counted = found.iter().filter(is_counted);
        inode.blocks = counted
            .filter_map(|(.., stat)| *stat)
            .map(|stat| stat.blocks)
            .sum();
        inode.data_version += 1;
    })?;
    if in_doubt {
        confirmation::request_confirmation(view, ino);
    }
    if has_new_stale {
        stale_members::request_resync(view, ino);
    }
    Ok(())
}

/// A session that wrote a mirrored file has ended. Its last writes may have reached some members only, so one member of each stripe counts from
/// now on: the one that was written last, of those whose OST has answered. The others are stale until they have been compared with it.
///
/// # Errors
/// `TimedOut` if no full member's OST has answered.
fn mark_unequal_members(
    layout: &mut Layout,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> Result<bool, FsError> {
    let mut has_new_stale = false;
    for (number, component) in layout.components.iter_mut().enumerate() {
        if !component.is_mirrored() {
            continue;
        }
        for stripe in 0..component.stripes() {
            let members: Vec<usize> = component.full_members(stripe).collect();
            let stat_of = |index: usize| {
                let of_member = |(component, at, _): &&(u32, u32, Option<ObjectStat>)| {
                    (*component as usize, *at as usize) == (number, index)
                };
                found.iter().find(of_member).map(|(.., stat)| *stat)
            };
            let is_hole = members.iter().all(|index| {
                component.presence.get(*index) == Presence::Never || stat_of(*index) == Some(None)
            });
            if is_hole {
                continue;
            }
            let answered = (members.iter().copied()).filter_map(|index| {
                Some((stat_of(index)?.map(|stat| (stat.mtime, stat.size)), index))
            });
            // Of equal ones the first copy.
            let last_written =
                answered.max_by_key(|(stat, index)| (*stat, std::cmp::Reverse(*index)));
            let Some((_, source)) = last_written else {
                let why = "no target with a copy of the file's bytes has answered";
                return Err(FsError::TimedOut(why.into()));
            };
            for index in members {
                if index != source {
                    has_new_stale |= component.mark_stale(index)?;
                }
            }
        }
    }
    Ok(has_new_stale)
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, RecordKind};
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::meta::{AccessMode, WritePosition};
    use gupfs_proto::{Caller, Presence, Timestamp};

    #[test]
    fn a_lease_holder_that_dies_before_spilling_leaves_the_inline_bytes() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        let old = server.begin_write(file).unwrap().layout;
        let recover = BackgroundOp::RecoverWriteLease {
            ino: file,
            session: server.session,
            found: vec![],
        };
        server.run_background(&recover).unwrap();
        let opened = server
            .open(&Caller::root(), file, AccessMode::READ)
            .unwrap();
        assert_eq!(
            (opened.inline.as_deref(), opened.layout.is_empty()),
            (Some(&b"bytes"[..]), true)
        );
        assert_eq!(
            (
                server.count(RecordKind::Purge),
                server.count(RecordKind::WriteLease)
            ),
            (1, 0)
        );
        // The next layout's objects differ from those that will be removed.
        let new = server.begin_write(file).unwrap().layout;
        let most = old
            .components
            .iter()
            .map(|component| component.generation)
            .max();
        assert!(
            new.components
                .iter()
                .all(|component| Some(component.generation) > most)
        );
        server.assert_clean();
    }

    #[test]
    fn size_and_times_of_a_dead_lease_holders_file_come_from_its_objects() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, report(100, &[(0, 0)]), true)
            .unwrap();
        let late = Timestamp::new(9_000, 0);
        let stat = |size, mtime| {
            Some(ObjectStat {
                size,
                blocks: 8,
                mtime,
            })
        };
        let found = vec![
            (0, 0, stat(4 << 20, Timestamp::new(1, 0))),
            (1, 0, None),
            (1, 1, stat(7, late)),
            (1, 2, None),
            (1, 3, None),
        ];
        let recover = BackgroundOp::RecoverWriteLease {
            ino: file,
            session: server.session,
            found,
        };
        server.run_background(&recover).unwrap();
        let attr = server.getattr(file).unwrap();
        assert_eq!((attr.size, attr.blocks), ((5 << 20) + 7, 16));
        assert_eq!((attr.mtime, attr.ctime), (late, late));
        use Presence::{Maybe, Never, Present};
        assert_eq!(server.presence(file), [Present, Never, Maybe, Never, Never]);
        server.assert_clean();
        server.run_background(&recover).unwrap();
        assert_eq!(server.batch, vec![]);
    }

    #[test]
    fn a_lost_object_is_not_treated_as_a_hole() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, report(100, &[(0, 0)]), true)
            .unwrap();
        let found = (0..1).map(|stripe| (0, stripe, None)).collect();
        server
            .run_background(&BackgroundOp::RecoverWriteLease {
                ino: file,
                session: server.session,
                found,
            })
            .unwrap();
        assert_eq!(server.presence(file)[0], Presence::Present);
        assert_eq!(server.getattr(file).unwrap().size, 100);
    }
}
