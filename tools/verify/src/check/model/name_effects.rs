//! The effects of acts on names, and the reasons why they are refused.

use libc::{EEXIST, EISDIR, ELOOP, ENOENT, ENOTDIR, ENOTEMPTY, EPERM};

use super::name_state::{File, NameAction, Node, State};
use crate::history::{Kind, Rename};
use crate::subject;

/// Why an act is refused: each that applies, as POSIX does not order them.
#[derive(Default)]
pub struct RefusalReasons(Vec<i32>);

/// The state after an act, or the reasons of its refusal.
type Effect = Result<State, RefusalReasons>;

/// The effect of an act on a state. None: the answer is impossible in this state.
pub fn effect(state: &State, what: &NameAction) -> Option<Effect> {
    use NameAction::*;
    match *what {
        Create {
            at,
            exclusive,
            file,
        } => create(state, at, exclusive, file),
        Get { at, seen } => get(state, at, seen),
        Look { at, seen } => look(state, at, seen),
        ReadLink { at, seen } => read_link(state, at, seen),
        Listed { at, there } => seen_as(state, (node(state, at) != Node::None) == there),
        Links { inode, count } => {
            let names = state.iter().filter(|node| is_file(node, inode)).count();
            seen_as(state, names as u64 == count)
        }
        Rename { from, to, how, .. } => Some(rename(state, from, to, how)),
        LinkFile { .. } | LinkSymlink { .. } | LinkDir { .. } => Some(link(state, what)),
        _ => Some(change(state, what)),
    }
}

fn node(state: &State, slot: u8) -> Node {
    state[usize::from(slot)]
}

fn is_file(node: &Node, inode: u64) -> bool {
    matches!(node, Node::File(file) if file.inode == inode)
}

/// A look that succeeded and changes nothing, if it can be so.
fn seen_as(state: &State, possible: bool) -> Option<Effect> {
    possible.then_some(Ok(*state))
}

fn create(state: &State, slot: u8, exclusive: bool, file: Option<File>) -> Option<Effect> {
    let mut why = RefusalReasons::default();
    let mut after = *state;
    why.path(state, slot);
    match node(state, slot) {
        Node::None => {}
        _ if exclusive => why.0.push(EEXIST),
        Node::Dir => why.0.push(EISDIR),
        Node::Symlink(_) => why.0.push(ELOOP),
        Node::File(there) if why.0.is_empty() => {
            let same =
                |file: File| (file.inode, file.generation) == (there.inode, there.generation);
            return seen_as(state, file.is_none_or(same));
        }
        Node::File(_) | Node::Any => {}
    }
    if let (true, Some(file)) = (why.0.is_empty(), file) {
        after[usize::from(slot)] = Node::File(file);
    }
    Some(why.or_after(after))
}

fn get(state: &State, slot: u8, seen: Option<File>) -> Option<Effect> {
    let mut why = RefusalReasons::default();
    why.exists(state, slot);
    match node(state, slot) {
        Node::File(there) if why.0.is_empty() => return seen_as(state, seen == Some(there)),
        Node::Symlink(_) => why.0.push(ELOOP),
        Node::Dir => why.0.push(EISDIR),
        _ => {}
    }
    Some(why.or_after(*state))
}

fn look(state: &State, slot: u8, seen: Option<(Kind, u64)>) -> Option<Effect> {
    let mut why = RefusalReasons::default();
    why.exists(state, slot);
    if !why.0.is_empty() {
        return Some(Err(why));
    }
    let there = match node(state, slot) {
        Node::File(file) => (Kind::File, file.inode),
        Node::Symlink(_) => (Kind::Symlink, 0),
        _ => (Kind::Dir, 0),
    };
    seen_as(state, seen == Some(there))
}

fn read_link(state: &State, slot: u8, seen: Option<u64>) -> Option<Effect> {
    let mut why = RefusalReasons::default();
    why.exists(state, slot);
    match node(state, slot) {
        Node::Symlink(tag) if why.0.is_empty() => return seen_as(state, seen == Some(tag)),
        Node::File(_) | Node::Dir => why.0.push(libc::EINVAL),
        _ => {}
    }
    Some(why.or_after(*state))
}

fn link(state: &State, what: &NameAction) -> Effect {
    let mut why = RefusalReasons::default();
    let mut after = *state;
    match *what {
        NameAction::LinkFile { inode, to } => {
            why.absent(state, to);
            match state.iter().find(|node| is_file(node, inode)) {
                Some(node) => after[usize::from(to)] = *node,
                None => why.0.push(ENOENT),
            }
        }
        NameAction::LinkSymlink { tag, to } => {
            why.absent(state, to);
            match state.contains(&Node::Symlink(tag)) {
                true => after[usize::from(to)] = Node::Symlink(tag),
                false => why.0.push(ENOENT),
            }
        }
        NameAction::LinkDir { to } => {
            why.absent(state, to);
            why.0.extend([EPERM, ENOENT]);
        }
        _ => unreachable!("the caller passes links"),
    }
    why.or_after(after)
}

/// An act that changes one slot.
fn change(state: &State, what: &NameAction) -> Effect {
    use NameAction::*;
    let mut why = RefusalReasons::default();
    let (slot, new) = match *what {
        Unlink { at } => {
            why.exists(state, at);
            if node(state, at) == Node::Dir {
                why.0.extend([EISDIR, EPERM]);
            }
            (at, Node::None)
        }
        Symlink { at, tag } => {
            why.absent(state, at);
            (at, Node::Symlink(tag))
        }
        MakeDir { at } => {
            why.absent(state, at);
            (at, Node::Dir)
        }
        RemoveDir { at } => {
            why.exists(state, at);
            if matches!(node(state, at), Node::File(_) | Node::Symlink(_)) {
                why.0.push(ENOTDIR);
            }
            if has_entries(state, at) {
                why.0.extend([ENOTEMPTY, EEXIST]);
            }
            (at, Node::None)
        }
        Publish { at, file } => {
            why.path(state, at);
            if node(state, at) == Node::Dir {
                why.0.push(EISDIR);
            }
            (at, Node::File(file))
        }
        PutAny { at } => {
            why.path(state, at);
            (at, Node::Any)
        }
        _ => unreachable!("the caller passes changes of one slot"),
    };
    let mut after = *state;
    after[usize::from(slot)] = new;
    why.or_after(after)
}

fn rename(state: &State, from: u8, to: u8, how: Rename) -> Effect {
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
pub fn refused_by_kinds(state: &State, what: &NameAction, errno: i32) -> bool {
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
    pub fn contains(&self, errno: i32) -> bool {
        self.0.contains(&errno)
    }

    /// The state after, if there is no reason.
    fn or_after(self, after: State) -> Effect {
        match self.0.is_empty() {
            true => Ok(after),
            false => Err(self),
        }
    }

    /// Reasons why the path does not lead to the slot.
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
