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
    if view.ctx.words.told.contains(&inode.ino) || !by_another(view, inode)? {
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
    if inode.names > 0 {
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
