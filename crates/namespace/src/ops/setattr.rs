use crate::driver::OpResult;
use crate::record::Inode;
use crate::requester::RequestingSession;
use crate::steps::{privileges, write_lease};
use crate::view::OpView;
use crate::{flag_checks, permission};
use gupfs_proto::meta::{AccessMode, MetaReplyBody, SetAttr, SetTime};
use gupfs_proto::{Attr, Caller, FileKind, FileMode, FsError, InodeId, Timestamp};

/// chmod(2), chown(2), utimensat(2), or several at once: all or none. ctime is updated even if no value changes.
///
/// Mode: the owner or root may set it; setgid is cleared if the caller is not in the file's group. Owner: only root. Group: also
/// the owner, to a group that it is in. A change of owner or group of an inode that is not a directory clears setuid, setgid and
/// capabilities, whoever the caller is. Times: the owner or root may set them to a given value, or only one of them to now; a
/// caller with write permission may set both to now.
///
/// A request with a ctime is a client's access time report, and only the access time changes.
pub(crate) fn setattr(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
    set: &SetAttr,
) -> OpResult<MetaReplyBody> {
    if set.is_atime_report() {
        return Ok(MetaReplyBody::Attr(apply_atime_report(view, ino, set)?));
    }
    let inode = view.inode(ino)?;
    check_may_set(&inode, caller, set)?;
    // The lease holder is the authority for times and privilege bits.
    write_lease::require_revoked(view, session, &inode)?;

    let changes_owner = set.uid.is_some() || set.gid.is_some();
    kill_privileges_of_owner_change(view, caller, &inode, changes_owner, set.kill_privileges)?;
    let now = view.now();
    let attr = view.change(ino, |inode| {
        let stamp = inode.next_ctime(now);
        inode.ctime = stamp;
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        if let Some(mode) = set.mode {
            permission::set_mode(inode, FileMode::from_bits(mode), caller);
        }
        let time = |time: SetTime| match time {
            SetTime::Now => stamp,
            SetTime::To(time) => time,
        };
        inode.atime = set.atime.map_or(inode.atime, time);
        inode.mtime = set.mtime.map_or(inode.mtime, time);
        inode.attr()
    })?;
    Ok(MetaReplyBody::Attr(attr))
}

/// Moves the access time towards now: never beyond this server's clock, and back only if it is ahead of that clock. A lease
/// holder gets no callback.
fn apply_atime_report(view: &mut OpView, ino: InodeId, set: &SetAttr) -> OpResult<Attr> {
    let report = SetAttr {
        atime: set.atime,
        ctime: set.ctime,
        ..SetAttr::default()
    };
    let read_at = match set.atime {
        Some(SetTime::To(at)) if *set == report => at,
        _ => {
            let why = "an access time report also changes other attributes";
            return Err(FsError::Malformed(why.into()).into());
        }
    };
    let now = view.now();
    view.change(ino, |inode| {
        inode.atime = newer_atime(inode.atime, read_at, now);
        inode.attr()
    })
}

fn newer_atime(before: Timestamp, read_at: Timestamp, now: Timestamp) -> Timestamp {
    match before > now {
        true => read_at.min(now),
        false => read_at.min(now).max(before),
    }
}

/// Whether the caller may set these attributes.
fn check_may_set(inode: &Inode, caller: &Caller, set: &SetAttr) -> Result<(), FsError> {
    let owner = permission::is_owner_or_root(inode, caller);
    let touches = set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now);
    let sets_times = (set.atime.is_some() || set.mtime.is_some()) && !touches;
    let sets_owner = set.uid.is_some() || set.gid.is_some();
    flag_checks::check_status(inode, set)?;
    // The id that chown(2) uses for "unchanged" is no user or group.
    if set.uid == Some(u32::MAX) || set.gid == Some(u32::MAX) {
        return Err(FsError::Invalid);
    }
    let uid_stays = set.uid.is_none_or(|uid| uid == inode.uid);
    let gid_allowed = set
        .gid
        .is_none_or(|gid| gid == inode.gid || caller.in_group(gid));
    if sets_owner && !caller.is_root() && !(owner && uid_stays && gid_allowed) {
        return Err(FsError::NotPermitted);
    }
    if set.mode.is_some() && inode.kind == FileKind::Symlink {
        return Err(FsError::NotSupported);
    }
    if (set.mode.is_some() || sets_times) && !owner {
        return Err(FsError::NotPermitted);
    }
    if touches && !owner {
        permission::check_access(inode, caller, AccessMode::WRITE)?;
    }
    Ok(())
}

/// A program file that gets a new owner must not run with the new owner's rights, so this also applies to privileged callers.
fn kill_privileges_of_owner_change(
    view: &mut OpView,
    caller: &Caller,
    inode: &Inode,
    changes_owner: bool,
    requested: bool,
) -> OpResult<()> {
    if changes_owner && !inode.is_dir() || requested {
        privileges::kill_after_write(view, caller, inode.ino, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{SetAttr, SetTime};
    use gupfs_proto::{Caller, FileMode, FsError, Timestamp};

    fn mode(mode: u32) -> SetAttr {
        SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        }
    }

    #[test]
    fn chown_clears_setuid_and_setgid_even_for_root() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o6755).unwrap().ino;
        let given = SetAttr {
            uid: Some(1000),
            gid: Some(1000),
            ..SetAttr::default()
        };
        assert_eq!(
            server.setattr(&root, file, given).unwrap().mode,
            FileMode(0o755)
        );
        server.setattr(&user(1000), file, mode(0o6745)).unwrap();
        let member = Caller::new(1000, 1000, [50]);
        let group = SetAttr {
            gid: Some(50),
            ..SetAttr::default()
        };
        assert_eq!(
            server.setattr(&user(1000), file, group),
            Err(FsError::NotPermitted)
        );
        // Without group execute permission setgid is no privilege, and the owner is in the group.
        let changed = server.setattr(&member, file, group).unwrap();
        assert_eq!((changed.mode, changed.gid), (FileMode(0o2745), 50));
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        server.setattr(&root, dir, mode(0o6755)).unwrap();
        assert_eq!(
            server.setattr(&root, dir, given).unwrap().mode,
            FileMode(0o6755)
        );
    }

    #[test]
    fn setgid_is_for_members_of_the_group() {
        let mut server = TestServer::new(1);
        let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o777).unwrap().ino;
        let file = server.create(&user(1000), dir, "f", 0o644).unwrap().ino;
        let group = SetAttr {
            gid: Some(50),
            ..SetAttr::default()
        };
        server.setattr(&Caller::root(), file, group).unwrap();
        assert_eq!(
            server
                .setattr(&user(1000), file, mode(0o6755))
                .unwrap()
                .mode,
            FileMode(0o4755)
        );
        let member = Caller::new(1000, 1000, [50]);
        assert_eq!(
            server.setattr(&member, file, mode(0o6755)).unwrap().mode,
            FileMode(0o6755)
        );
        assert_eq!(
            server.setattr(&user(1001), file, mode(0o777)),
            Err(FsError::NotPermitted)
        );
    }

    #[test]
    fn a_reported_access_time_leaves_ctime_unchanged() {
        let mut server = TestServer::new(1);
        let file = server.create(&Caller::root(), ROOT, "f", 0o644).unwrap();
        server.now.secs += 1_000;
        let now = server.now;
        let read = SetAttr {
            atime: Some(SetTime::To(now)),
            ctime: Some(file.ctime),
            ..SetAttr::default()
        };
        let after = server.setattr(&Caller::root(), file.ino, read).unwrap();
        assert_eq!((after.atime, after.ctime), (now, file.ctime));
        assert!(after.change > file.change);
    }

    #[test]
    fn only_the_owner_sets_times_but_a_writer_may_set_both_to_now() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o666)
            .unwrap()
            .ino;
        let times = |atime, mtime| SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        };
        let (now, to) = (Some(SetTime::Now), Some(SetTime::To(Timestamp::new(-5, 7))));
        let set = server.setattr(&user(1000), file, times(now, now)).unwrap();
        assert_eq!(
            (set.atime, set.mtime, set.ctime),
            (server.now, server.now, server.now)
        );
        for not_allowed in [
            times(to, to),
            times(now, None),
            times(None, now),
            times(now, to),
        ] {
            assert_eq!(
                server.setattr(&user(1000), file, not_allowed),
                Err(FsError::NotPermitted)
            );
        }
        let set = server
            .setattr(&Caller::root(), file, times(to, None))
            .unwrap();
        assert_eq!((set.atime, set.ctime), (Timestamp::new(-5, 7), server.now));
        server.setattr(&Caller::root(), file, mode(0o444)).unwrap();
        assert_eq!(
            server.setattr(&user(1000), file, times(now, now)),
            Err(FsError::Denied)
        );
    }

    #[test]
    fn ctime_never_goes_back_whatever_the_clock_does() {
        let mut server = TestServer::new(1);
        let file = server.create(&Caller::root(), ROOT, "f", 0o666).unwrap();
        server.now = Timestamp::new(0, 0);
        let later = server
            .setattr(&Caller::root(), file.ino, mode(0o600))
            .unwrap();
        assert_eq!((later.ctime, later.change), (file.ctime, file.change + 1));
        server.create(&Caller::root(), ROOT, "g", 0o666).unwrap();
        assert!(server.getattr(ROOT).unwrap().mtime >= file.ctime);
    }
}
