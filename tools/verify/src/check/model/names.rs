//! Names: what is under each slot of a subject.
//!
//! A file is its number, generation and the tag of its bytes; directories are all alike, and symbolic links are their
//! targets. An operation that Linux does in two steps is two acts here (`project`).

use libc::{EEXIST, EISDIR, ELOOP, ENOENT, ENOTDIR, ENOTEMPTY, EPERM};

use crate::check::search::Spec;
use crate::history::{Kind, Rename};
use crate::subject;

pub const SLOTS: usize = subject::SLOTS as usize;

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    None,
    Dir,
    File(File),
    Symlink(u64),
    /// Something: what an operation without an answer may have left there.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File {
    pub inode: u64,
    pub generation: u32,
    pub tag: u64,
}

pub type State = [Node; SLOTS];

/// What is tried on names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAction {
    /// Opens what is there, unless exclusive, or makes this file.
    Create {
        at: u8,
        exclusive: bool,
        /// Not known when it was refused.
        file: Option<File>,
    },
    /// Opens a file for reading.
    Get {
        at: u8,
        seen: Option<File>,
    },
    /// What is there, by kind, and number if it is a file.
    Look {
        at: u8,
        seen: Option<(Kind, u64)>,
    },
    ReadLink {
        at: u8,
        seen: Option<u64>,
    },
    /// A listing had the name, or had not.
    Listed {
        at: u8,
        there: bool,
    },
    /// So many names of a file.
    Links {
        inode: u64,
        count: u64,
    },
    Unlink {
        at: u8,
    },
    Rename {
        from: u8,
        to: u8,
        how: Rename,
        /// Another changes one of the two meanwhile. Linux looks both names up, one after the other, before it asks the file
        /// system: if both lead to one file by then it does nothing, and what it refuses by their kinds it refuses.
        racing: bool,
    },
    /// A name for the file of this number.
    LinkFile {
        inode: u64,
        to: u8,
    },
    /// A name for a symbolic link.
    LinkSymlink {
        tag: u64,
        to: u8,
    },
    LinkDir {
        to: u8,
    },
    Symlink {
        at: u8,
        tag: u64,
    },
    MakeDir {
        at: u8,
    },
    RemoveDir {
        at: u8,
    },
    /// A file from elsewhere is renamed to here.
    Publish {
        at: u8,
        file: File,
    },
    /// It was not answered, and may have put something here.
    PutAny {
        at: u8,
    },
}

/// An act and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    pub what: NameAction,
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    Refused(i32),
}

/// Why an act is refused: each that applies, as POSIX does not order them.
#[derive(Default)]
struct RefusalReasons(Vec<i32>);

pub struct Names;

impl Spec for Names {
    type State = State;
    type Act = Act;

    fn step(&self, state: &State, act: &Act) -> Option<State> {
        let result = effect(state, &act.what);
        // Beside what is not known nothing is contradicted.
        if state.contains(&Node::Any) && self.touches_any(state, act) {
            return match result {
                Some(Ok(after)) if act.ended == Ended::Done && !self.reads(act) => Some(after),
                _ => Some(*state),
            };
        }
        match (result, act.ended) {
            (_, Ended::Refused(errno)) if refused_by_kinds(state, &act.what, errno) => Some(*state),
            (Some(Ok(after)), Ended::Done) => Some(after),
            (Some(Err(why)), Ended::Refused(errno)) => why.0.contains(&errno).then_some(*state),
            _ => None,
        }
    }

    fn or(&self, state: &State, act: &Act) -> Option<State> {
        let nothing = matches!(act.what, NameAction::Rename { racing: true, .. });
        (nothing && act.ended == Ended::Done).then_some(*state)
    }

    fn reads(&self, act: &Act) -> bool {
        use NameAction::*;
        let looks = matches!(
            act.what,
            Get { .. } | Look { .. } | ReadLink { .. } | Listed { .. } | Links { .. }
        );
        looks || matches!(act.ended, Ended::Refused(_))
    }

    fn mask(&self, act: &Act) -> u32 {
        use NameAction::*;
        match act.what {
            Create { at, .. }
            | Get { at, .. }
            | Look { at, .. }
            | ReadLink { at, .. }
            | Listed { at, .. }
            | Unlink { at }
            | Symlink { at, .. }
            | MakeDir { at }
            | RemoveDir { at }
            | Publish { at, .. }
            | PutAny { at } => around(at),
            Rename { from, to, .. } => around(from) | around(to),
            LinkFile { .. } | LinkSymlink { .. } | LinkDir { .. } | Links { .. } => u32::MAX,
        }
    }

    fn needless<'a>(&self, change: &Act, mut others: impl Iterator<Item = &'a Act>) -> bool {
        !others.any(|other| self.mask(other) & self.mask(change) != 0)
    }
}

impl Names {
    fn touches_any(&self, state: &State, act: &Act) -> bool {
        let mask = self.mask(act);
        let any = |slot: usize| mask & (1 << slot) != 0 && state[slot] == Node::Any;
        (0..SLOTS).any(any)
    }
}

/// A slot, the folder it is in, the slots in it.
fn around(slot: u8) -> u32 {
    let mut mask = 1 << slot;
    if let Some(folder) = subject::folder(slot) {
        mask |= 1 << folder;
    }
    if (subject::PLAIN..subject::FOLDERS).contains(&slot) {
        mask |= subject::inside(slot).fold(0, |mask, inside| mask | 1 << inside);
    }
    mask
}

/// What becomes of the state, or why not. None: what was seen cannot be.
fn effect(state: &State, what: &NameAction) -> Option<Result<State, RefusalReasons>> {
    use NameAction::*;
    let at = |slot: u8| state[usize::from(slot)];
    let mut why = RefusalReasons::default();
    let mut after = *state;
    match *what {
        Create {
            at: slot,
            exclusive,
            file,
        } => {
            why.path(state, slot);
            match at(slot) {
                Node::None => {}
                _ if exclusive => why.0.push(EEXIST),
                Node::Dir => why.0.push(EISDIR),
                Node::Symlink(_) => why.0.push(ELOOP),
                Node::File(there) if why.0.is_empty() => {
                    let same = file.is_none_or(|file| {
                        (file.inode, file.generation) == (there.inode, there.generation)
                    });
                    return same.then_some(Ok(after));
                }
                Node::File(_) | Node::Any => {}
            }
            if let (true, Some(file)) = (why.0.is_empty(), file) {
                after[usize::from(slot)] = Node::File(file);
            }
        }
        Get { at: slot, seen } => {
            why.exists(state, slot);
            match at(slot) {
                Node::File(there) if why.0.is_empty() => {
                    return (seen == Some(there)).then_some(Ok(after));
                }
                Node::Symlink(_) => why.0.push(ELOOP),
                Node::Dir => why.0.push(EISDIR),
                _ => {}
            }
        }
        Look { at: slot, seen } => {
            why.exists(state, slot);
            if why.0.is_empty() {
                let there = match at(slot) {
                    Node::File(file) => (Kind::File, file.inode),
                    Node::Symlink(_) => (Kind::Symlink, 0),
                    _ => (Kind::Dir, 0),
                };
                return (seen == Some(there)).then_some(Ok(after));
            }
        }
        ReadLink { at: slot, seen } => {
            why.exists(state, slot);
            match at(slot) {
                Node::Symlink(tag) if why.0.is_empty() => {
                    return (seen == Some(tag)).then_some(Ok(after));
                }
                Node::File(_) | Node::Dir => why.0.push(libc::EINVAL),
                _ => {}
            }
        }
        Listed { at: slot, there } => {
            return ((at(slot) != Node::None) == there).then_some(Ok(after));
        }
        Links { inode, count } => {
            let is = state
                .iter()
                .filter(|node| matches!(node, Node::File(file) if file.inode == inode))
                .count();
            return (is as u64 == count).then_some(Ok(after));
        }
        Unlink { at: slot } => {
            why.exists(state, slot);
            if at(slot) == Node::Dir {
                why.0.extend([EISDIR, EPERM]);
            }
            after[usize::from(slot)] = Node::None;
        }
        Rename { from, to, how, .. } => return Some(rename(state, from, to, how)),
        LinkFile { inode, to } => {
            why.absent(state, to);
            let it = state
                .iter()
                .find(|node| matches!(node, Node::File(file) if file.inode == inode));
            match it {
                Some(node) => after[usize::from(to)] = *node,
                None => why.0.push(ENOENT),
            }
        }
        LinkSymlink { tag, to } => {
            why.absent(state, to);
            match state.contains(&Node::Symlink(tag)) {
                true => after[usize::from(to)] = Node::Symlink(tag),
                false => why.0.push(ENOENT),
            }
        }
        LinkDir { to } => {
            why.absent(state, to);
            why.0.extend([EPERM, ENOENT]);
        }
        Symlink { at: slot, tag } => {
            why.absent(state, slot);
            after[usize::from(slot)] = Node::Symlink(tag);
        }
        MakeDir { at: slot } => {
            why.absent(state, slot);
            after[usize::from(slot)] = Node::Dir;
        }
        RemoveDir { at: slot } => {
            why.exists(state, slot);
            if matches!(at(slot), Node::File(_) | Node::Symlink(_)) {
                why.0.push(ENOTDIR);
            }
            if has_entries(state, slot) {
                why.0.extend([ENOTEMPTY, EEXIST]);
            }
            after[usize::from(slot)] = Node::None;
        }
        Publish { at: slot, file } => {
            why.path(state, slot);
            if at(slot) == Node::Dir {
                why.0.push(EISDIR);
            }
            after[usize::from(slot)] = Node::File(file);
        }
        PutAny { at: slot } => {
            why.path(state, slot);
            after[usize::from(slot)] = Node::Any;
        }
    }
    Some(match why.0.is_empty() {
        true => Ok(after),
        false => Err(why),
    })
}

fn rename(state: &State, from: u8, to: u8, how: Rename) -> Result<State, RefusalReasons> {
    let (source, target) = (state[usize::from(from)], state[usize::from(to)]);
    let mut after = *state;
    let mut why = RefusalReasons::default();
    why.exists(state, from);
    why.path(state, to);
    match how {
        Rename::NoReplace if target != Node::None => why.0.push(EEXIST),
        Rename::Exchange if target == Node::None => why.0.push(ENOENT),
        Rename::Over => match (source, target) {
            (Node::Dir, Node::File(_) | Node::Symlink(_)) => why.0.push(ENOTDIR),
            (Node::File(_) | Node::Symlink(_), Node::Dir) => why.0.push(EISDIR),
            _ => {}
        },
        _ => {}
    }
    if !why.0.is_empty() {
        return Err(why);
    }
    match how {
        // Two names of one file stay as they are.
        _ if from == to => {}
        Rename::Over if source == target && source != Node::Dir => {}
        Rename::Exchange => after.swap(usize::from(from), usize::from(to)),
        _ => {
            after[usize::from(to)] = source;
            after[usize::from(from)] = Node::None;
        }
    }
    Ok(after)
}

/// Whether a racing rename may have been refused for what one of its names was just now.
fn refused_by_kinds(state: &State, what: &NameAction, errno: i32) -> bool {
    let NameAction::Rename {
        from,
        to,
        racing: true,
        ..
    } = *what
    else {
        return false;
    };
    let directory = |slot: u8| state[usize::from(slot)] == Node::Dir;
    match errno {
        EISDIR => directory(to),
        ENOTDIR => directory(from),
        _ => false,
    }
}

fn has_entries(state: &State, slot: u8) -> bool {
    (subject::PLAIN..subject::FOLDERS).contains(&slot)
        && subject::inside(slot).any(|inside| state[usize::from(inside)] != Node::None)
}

impl RefusalReasons {
    /// What keeps a path from leading to a slot.
    fn path(&mut self, state: &State, slot: u8) {
        let Some(folder) = subject::folder(slot) else {
            return;
        };
        match state[usize::from(folder)] {
            Node::Dir | Node::Any => {}
            Node::None => self.0.push(ENOENT),
            Node::File(_) | Node::Symlink(_) => self.0.extend([ENOTDIR, ENOENT]),
        }
    }

    fn exists(&mut self, state: &State, slot: u8) {
        self.path(state, slot);
        if state[usize::from(slot)] == Node::None {
            self.0.push(ENOENT);
        }
    }

    fn absent(&mut self, state: &State, slot: u8) {
        self.path(state, slot);
        if state[usize::from(slot)] != Node::None {
            self.0.push(EEXIST);
        }
    }
}
