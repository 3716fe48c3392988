use crate::ops::kill_privileges;
use crate::record::Inode;
use crate::rights::tells_reading;
use crate::step::Outcome;
use crate::view::View;
use crate::{held, may, protected};
use gupfs_proto::meta::{Access, Answer, SetAttr, SetTime};
use gupfs_proto::{Attr, Caller, FileKind, InodeId, Mode, Refusal, Timestamp};

/// chmod(2), chown(2), utimensat(2), or several at once: all or none. ctime is updated even if every value stays.
///
/// The mode: owner or root; setgid is lost by who is not of the file's group. The owner: root; the group: also an owner who
/// is of the new group; a file that is no directory loses setuid, setgid and capabilities, by whomever. Times: to a given
/// value, or only one of them to now: owner or root; both to now: also who may write.
///
/// With a ctime it is a client's word that the inode was read, and nothing but the access time moves.
pub(crate) fn setattr(view: &mut View, ino: InodeId, set: &SetAttr) -> Outcome<Answer> {
    if tells_reading(set) {
        return Ok(Answer::Attr(was_read(view, ino, set)?));
    }
    let inode = view.inode(ino)?;
    let caller = view.ctx.caller;
    may_set(&inode, caller, set)?;
    // Times and privileges are the holder's affair.
    held::must_be_given_back(view, &inode)?;

    let changes_owner = set.uid.is_some() || set.gid.is_some();
    kill_privileges_of_owner_change(view, &inode, changes_owner, set.kill_privileges)?;
    let now = view.ctx.now;
    let attr = view.change(ino, |inode| {
        let stamp = inode.stamp(now);
        inode.ctime = stamp;
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        if let Some(mode) = set.mode {
            set_mode(inode, Mode::from_bits(mode), caller);
        }
        let time = |time: SetTime| match time {
            SetTime::Now => stamp,
            SetTime::To(time) => time,
        };
        inode.atime = set.atime.map_or(inode.atime, time);
        inode.mtime = set.mtime.map_or(inode.mtime, time);
        inode.attr()
    })?;
    Ok(Answer::Attr(attr))
}

/// The access time moves towards now: not beyond this server's clock, and back only if it is ahead of that. Nobody who holds the
/// file is disturbed.
fn was_read(view: &mut View, ino: InodeId, set: &SetAttr) -> Outcome<Attr> {
    let word = SetAttr {
        atime: set.atime,
        ctime: set.ctime,
        ..SetAttr::default()
    };
    let read_at = match set.atime {
        Some(SetTime::To(at)) if *set == word => at,
        _ => {
            let why = "a client tells that it read, and wants something else changed";
            return Err(Refusal::Malformed(why.into()).into());
        }
    };
    let now = view.ctx.now;
    view.change(ino, |inode| {
        inode.atime = later_access(inode.atime, read_at, now);
        inode.attr()
    })
}

fn later_access(before: Timestamp, read_at: Timestamp, now: Timestamp) -> Timestamp {
    match before > now {
        true => read_at.min(now),
        false => read_at.min(now).max(before),
    }
}

/// The new permission bits, with the access list following. Shared with setting an access list.
pub(crate) fn set_mode(inode: &mut Inode, mode: Mode, caller: &Caller) {
    inode.mode = if may::in_group(inode.gid, caller) {
        mode
    } else {
        mode.without(Mode::SETGID)
    };
    if let Some(acl) = &mut inode.acl {
        acl.follow_mode(mode);
    }
}

fn may_set(inode: &Inode, caller: &Caller, set: &SetAttr) -> Result<(), Refusal> {
    let owner = may::owns(inode, caller);
    let touches = set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now);
    let sets_times = (set.atime.is_some() || set.mtime.is_some()) && !touches;
    let sets_owner = set.uid.is_some() || set.gid.is_some();
    protected::status(inode, set)?;
    // The id that means "leave it" is nobody's.
    if set.uid == Some(u32::MAX) || set.gid == Some(u32::MAX) {
        return Err(Refusal::Invalid);
    }
    let uid_stays = set.uid.is_none_or(|uid| uid == inode.uid);
    let gid_allowed = set
        .gid
        .is_none_or(|gid| gid == inode.gid || caller.in_group(gid));
    if sets_owner && !caller.is_root() && !(owner && uid_stays && gid_allowed) {
        return Err(Refusal::NotPermitted);
    }
    if set.mode.is_some() && inode.kind == FileKind::Symlink {
        return Err(Refusal::NotSupported);
    }
    if (set.mode.is_some() || sets_times) && !owner {
        return Err(Refusal::NotPermitted);
    }
    if touches && !owner {
        may::access(inode, caller, Access::WRITE)?;
    }
    Ok(())
}

/// A program file given to somebody else must not run with the new owner's rights, so this is not only for the unprivileged.
fn kill_privileges_of_owner_change(
    view: &mut View,
    inode: &Inode,
    changes_owner: bool,
    asked: bool,
) -> Outcome<()> {
    if changes_owner && !inode.is_dir() || asked {
        kill_privileges::after_write(view, inode.ino, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{SetAttr, SetTime};
    use gupfs_proto::{Caller, Mode, Refusal, Timestamp};

    fn mode(mode: u32) -> SetAttr {
        SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        }
    }

    #[test]
    fn who_gives_a_file_away_takes_its_privileges_off_even_root() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o6755).unwrap().ino;
        let given = SetAttr {
            uid: Some(1000),
            gid: Some(1000),
            ..SetAttr::default()
        };
        assert_eq!(
            server.setattr(&root, file, given).unwrap().mode,
            Mode(0o755)
        );
        server.setattr(&user(1000), file, mode(0o6745)).unwrap();
        let member = Caller::new(1000, 1000, [50]);
        let group = SetAttr {
            gid: Some(50),
            ..SetAttr::default()
        };
        assert_eq!(
            server.setattr(&user(1000), file, group),
            Err(Refusal::NotPermitted)
        );
        // Without group execution setgid is no privilege, and the owner is of the group.
        let changed = server.setattr(&member, file, group).unwrap();
        assert_eq!((changed.mode, changed.gid), (Mode(0o2745), 50));
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        server.setattr(&root, dir, mode(0o6755)).unwrap();
        assert_eq!(
            server.setattr(&root, dir, given).unwrap().mode,
            Mode(0o6755)
        );
    }

    #[test]
    fn setgid_is_for_members_of_the_group() {
        let mut server = Server::new(1);
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
            Mode(0o4755)
        );
        let member = Caller::new(1000, 1000, [50]);
        assert_eq!(
            server.setattr(&member, file, mode(0o6755)).unwrap().mode,
            Mode(0o6755)
        );
        assert_eq!(
            server.setattr(&user(1001), file, mode(0o777)),
            Err(Refusal::NotPermitted)
        );
    }

    #[test]
    fn a_told_access_time_leaves_ctime_where_it_was() {
        let mut server = Server::new(1);
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
    fn times_are_the_owners_but_now_is_the_writers() {
        let mut server = Server::new(1);
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
        for not_his in [
            times(to, to),
            times(now, None),
            times(None, now),
            times(now, to),
        ] {
            assert_eq!(
                server.setattr(&user(1000), file, not_his),
                Err(Refusal::NotPermitted)
            );
        }
        let set = server
            .setattr(&Caller::root(), file, times(to, None))
            .unwrap();
        assert_eq!((set.atime, set.ctime), (Timestamp::new(-5, 7), server.now));
        server.setattr(&Caller::root(), file, mode(0o444)).unwrap();
        assert_eq!(
            server.setattr(&user(1000), file, times(now, now)),
            Err(Refusal::Denied)
        );
    }

    #[test]
    fn ctime_never_goes_back_whatever_the_clock_does() {
        let mut server = Server::new(1);
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
