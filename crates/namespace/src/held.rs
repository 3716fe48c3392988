//! Files that another session holds for writing: its word comes before the record (docs/decisions, "Held by one").
//!
//! At most one session that lives holds a file. An operation of another session that looks at what the holder is the
//! authority for needs it to have told; one that changes it needs the file to be given back.

use crate::key::{Key, KeyRange, Parsed};
use crate::record::{Inode, Orphan, Writer};
use crate::step::{Need, Outcome};
use crate::view::View;
use gupfs_proto::{InodeId, Refusal, SessionId};
use std::collections::BTreeSet;

/// The session under which a file without a name is kept until everybody was asked whether he has it open.
pub const NOT_ASKED: SessionId = SessionId(0);

/// What a driver has heard of holders for the operation that it drives now.
#[derive(Clone, Debug, Default)]
pub struct Words {
    told: BTreeSet<InodeId>,
    silent: BTreeSet<(InodeId, SessionId)>,
}

impl Words {
    /// The file's holder has told since the operation came. What anybody writes after that need not be seen.
    pub fn told(&mut self, ino: InodeId) {
        self.told.insert(ino);
    }

    /// This session is dead and its objects cannot be asked now: nobody waits for a word that nobody can give.
    pub fn silent(&mut self, ino: InodeId, session: SessionId) {
        self.silent.insert((ino, session));
    }
}

/// Before something is said of the file.
pub(crate) fn must_have_told(view: &mut View, inode: &Inode) -> Outcome<()> {
    // What is said again was answered long ago, with the holder's word.
    let heard = view.ctx.again.is_some() || view.ctx.words.told.contains(&inode.ino);
    if heard || !by_another(view, inode)? {
        return Ok(());
    }
    let give_back = false;
    Err(Need::Word {
        ino: inode.ino,
        give_back,
    }
    .into())
}

/// Before size, content or times of the file are changed.
pub(crate) fn must_be_given_back(view: &mut View, inode: &Inode) -> Outcome<()> {
    if !by_another(view, inode)? {
        return Ok(());
    }
    let give_back = true;
    Err(Need::Word {
        ino: inode.ino,
        give_back,
    }
    .into())
}

/// Whether a session other than the asking one holds the file.
pub(crate) fn by_another(view: &mut View, inode: &Inode) -> Outcome<bool> {
    let ino = inode.ino;
    let writers = match inode.file() {
        Ok(file) => file.writers,
        Err(_) => 0,
    };
    // Nearly always nobody holds it, or who asks.
    if writers == 0 {
        return Ok(false);
    }
    let session = view.ctx.session;
    let own = view.get::<Writer>(&Key::writer(ino, session))?.is_some();
    if writers == u32::from(own) {
        return Ok(false);
    }
    let silent = &view.ctx.words.silent;
    if !silent.iter().any(|(of, _)| *of == ino) {
        return Ok(true);
    }
    let held = view.scan(KeyRange::writers(ino), writers as usize)?;
    Ok(held.iter().any(|(key, _)| match key.parse() {
        Some(Parsed::Writer { session: by, .. }) => by != session && !silent.contains(&(ino, by)),
        _ => false,
    }))
}

/// Who may still use a file that has lost its last name: who is recorded to have it open. `opens`: who was not asked yet
/// gets in no more, since its answer may be under way.
///
/// # Errors
/// `Stale`: the name that led here is gone.
pub(crate) fn must_be_known(view: &mut View, inode: &Inode, opens: bool) -> Outcome<()> {
    // Alone, whoever knows it is who has it.
    if inode.names > 0 || view.ctx.alone {
        return Ok(());
    }
    let (ino, session) = (inode.ino, view.ctx.session);
    let mut known = view.get::<Orphan>(&Key::orphan(ino, session))?.is_some();
    if !known && !opens {
        known = view.get::<Orphan>(&Key::orphan(ino, NOT_ASKED))?.is_some();
    }
    if known {
        Ok(())
    } else {
        Err(Refusal::Stale.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use crate::{ChoreOp, Kind, Work};
    use gupfs_proto::meta::{Access, Answer, Op, OpenHow, RenameHow, SetAttr, SetTime, WriteAt};
    use gupfs_proto::{Caller, Timestamp};

    const OTHER: SessionId = SessionId(8);

    /// Two sessions, and a file that the first holds.
    fn held() -> (Server, InodeId) {
        let mut server = Server::new(2);
        let one = std::mem::replace(&mut server.session, OTHER);
        let client = "other".into();
        server
            .ask(&Caller::root(), &Op::OpenSession { client })
            .unwrap();
        (server.session, server.alone) = (one, false);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server.begin_write(file).unwrap();
        (server, file)
    }

    fn open(ino: InodeId, access: Access, truncate: bool) -> Op {
        let open = OpenHow {
            access,
            truncate,
            kill_privileges: false,
        };
        Op::Open { ino, open }
    }

    fn chmod(ino: InodeId) -> Op {
        let set = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        Op::SetAttr { ino, set }
    }

    /// What the operation needs of the holder: None if it is answered.
    fn needs(server: &mut Server, op: &Op) -> Option<bool> {
        server.wanted = None;
        let answer = server.ask(&Caller::root(), op);
        match server.wanted.take() {
            Some(Need::Word { give_back, .. }) => Some(give_back),
            Some(other) => panic!("{other:?}"),
            None => {
                answer.unwrap();
                None
            }
        }
    }

    fn lookup() -> Op {
        Op::Lookup {
            dir: ROOT,
            name: name("f"),
        }
    }

    fn rename() -> Op {
        Op::Rename {
            from: ROOT,
            name: name("f"),
            to: ROOT,
            new_name: name("g"),
            how: RenameHow::Replace,
        }
    }

    #[test]
    fn who_looks_at_a_held_file_waits_for_its_holder_and_the_holder_never() {
        let (mut server, file) = held();
        let link = Op::Link {
            ino: file,
            dir: ROOT,
            name: name("l"),
        };
        let getattr = Op::GetAttr { ino: file };
        let looking = [
            getattr,
            lookup(),
            open(file, Access::READ, false),
            link,
            rename(),
        ];
        server.session = OTHER;
        for op in &looking {
            assert_eq!(needs(&mut server, op), Some(false), "{op:?}");
        }
        let changing = [
            open(file, Access::READ, true),
            chmod(file),
            Op::Truncate {
                ino: file,
                to: 0,
                by_handle: true,
                kill_privileges: false,
            },
            Op::BeginWrite {
                ino: file,
                kill_privileges: false,
            },
        ];
        for op in &changing {
            assert_eq!(needs(&mut server, op), Some(true), "{op:?}");
        }
        server.words.told(file);
        for op in &changing {
            assert_eq!(needs(&mut server, op), Some(true), "{op:?}, told");
        }
        for op in &looking {
            assert_eq!(needs(&mut server, op), None, "{op:?}, told");
        }
        server.words = Words::default();
        server.session = SessionId(7);
        server
            .rename(
                &Caller::root(),
                (ROOT, "g"),
                (ROOT, "f"),
                RenameHow::Replace,
            )
            .unwrap();
        for op in [lookup(), rename(), chmod(file)].iter().chain(&changing) {
            assert_eq!(needs(&mut server, op), None, "{op:?}, by the holder");
        }
        server.assert_clean();
    }

    #[test]
    fn nobody_is_disturbed_by_who_has_read_or_lists_or_cannot_write_inside() {
        let (mut server, file) = held();
        // What is repeated tells how the file is now, and that is the holder's affair.
        (server.session, server.repeats) = (OTHER, false);
        let set = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(5, 0))),
            ctime: Some(Timestamp::new(1, 0)),
            ..SetAttr::default()
        };
        assert_eq!(needs(&mut server, &Op::SetAttr { ino: file, set }), None);
        let outgrown = server.write_inline(file, WriteAt::End, b"x");
        assert_eq!(outgrown, Ok(Answer::Outgrown));
        let list = Op::Readdir {
            dir: ROOT,
            after: 0,
            limit: 9,
            plus: true,
        };
        let Ok(Answer::Entries { entries, .. }) = server.ask(&Caller::root(), &list) else {
            panic!()
        };
        assert_eq!((entries.len(), entries[0].attr), (1, None));
    }

    #[test]
    fn a_dead_holder_that_nobody_can_ask_holds_nobody_up_and_hides_no_other() {
        let (mut server, file) = held();
        server.session = OTHER;
        server.words.silent(file, SessionId(7));
        assert_eq!(needs(&mut server, &Op::GetAttr { ino: file }), None);
        server.begin_write(file).unwrap();
        assert_eq!(server.file(file).writers, 2);
        server.session = SessionId(9);
        assert_eq!(needs(&mut server, &Op::GetAttr { ino: file }), Some(false));
    }

    #[test]
    fn who_begins_to_write_waits_for_his_turn_but_for_the_holder() {
        let (mut server, file) = held();
        server.queues = true;
        server.begin_write(file).unwrap();
        server.session = OTHER;
        assert_eq!(server.begin_write(file), Err(Refusal::Busy));
        assert_eq!(server.wanted, Some(Need::Turn(file)));
    }

    #[test]
    fn with_others_a_truncation_to_nothing_cuts_the_objects_that_they_read() {
        let (mut server, file) = held();
        server
            .end_write(file, written(6 << 20, &[(0, 0), (1, 0)]), false)
            .unwrap();
        let before = server.file(file).layout;
        let cut = server.truncate(file, 0).unwrap();
        assert_eq!((cut.attr.size, cut.layout), (0, before));
        assert!(matches!(&server.work[..], [Work::Cut { objects, .. }]
            if objects.iter().all(|(.., to)| *to == 0)));
        server.assert_clean();
    }

    #[test]
    fn a_removed_file_is_kept_for_those_who_were_not_asked_yet_and_lets_nobody_in() {
        let (mut server, file) = held();
        let (root, reads) = (Caller::root(), open(file, Access::empty(), false));
        let written = written(9, &[(0, 0)]);
        server.end_write(file, written.clone(), false).unwrap();
        server.unlink(&root, ROOT, "f").unwrap();
        let asked = Work::AskEverybody {
            ino: file,
            by: SessionId(7),
        };
        assert_eq!(server.work, [asked]);
        server.assert_clean();
        server.forget(file);
        server.session = OTHER;
        let by_path = Op::Truncate {
            ino: file,
            to: 0,
            by_handle: false,
            kill_privileges: false,
        };
        let stale = Err(Refusal::Stale);
        for op in [open(file, Access::READ, false), by_path] {
            assert_eq!(server.ask(&root, &op), stale, "{op:?}");
        }
        // But whoever has it open goes on.
        server.ask(&root, &reads).unwrap();
        server.begin_write(file).unwrap();
        server.end_write(file, written, false).unwrap();
        let hold = ChoreOp::HoldOrphan {
            ino: file,
            session: OTHER,
        };
        server.chore(&hold).unwrap();
        server.chore(&hold).unwrap();
        let session = NOT_ASKED;
        server
            .chore(&ChoreOp::ForgetOrphan { ino: file, session })
            .unwrap();
        server.assert_clean();
        server.ask(&root, &open(file, Access::READ, false)).unwrap();
        server.session = SessionId(7);
        assert_eq!(server.ask(&root, &reads), stale);
        server.session = OTHER;
        server.forget(file);
        assert_eq!(
            (server.count(Kind::Inode), server.count(Kind::Orphan)),
            (1, 0)
        );
        server.chore(&hold).unwrap();
        server.assert_clean();
    }

    #[test]
    fn alone_nobody_is_asked() {
        let (mut server, file) = held();
        server.alone = true;
        server
            .end_write(file, written(9, &[(0, 0)]), false)
            .unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        assert_eq!((server.work.len(), server.count(Kind::Orphan)), (0, 1));
        let root = Caller::root();
        server.alone = false;
        server.mkdir(&root, ROOT, "d", 0o755).unwrap();
        server.rmdir(&root, ROOT, "d").unwrap();
        assert_eq!((server.work.len(), server.count(Kind::Orphan)), (0, 2));
    }
}
