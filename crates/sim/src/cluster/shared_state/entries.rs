//! Names in one directory that all clients change.

use crate::cluster::possible::Model;
use gupfs_proto::FsError;
use std::collections::BTreeMap;

/// What a name stands for: the question that made it, since its number is known only when that is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thing {
    pub made_by: u64,
    pub is_dir: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Change {
    Create { name: u8, thing: Thing },
    Unlink { name: u8 },
    Rmdir { name: u8 },
    Rename { from: u8, to: u8 },
    Link { thing: Thing, name: u8 },
}

/// Ok, or why not. Directories are never filled, so that they are empty always.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Out {
    Done,
    Exists,
    Missing,
    IsDirectory,
    NotDirectory,
}

impl Out {
    /// None for a refusal that says nothing about names.
    pub fn of<T>(answer: &Result<T, FsError>) -> Option<Out> {
        Some(match answer {
            Ok(_) => Out::Done,
            Err(FsError::Exists) => Out::Exists,
            Err(FsError::NotFound) => Out::Missing,
            Err(FsError::IsDirectory) => Out::IsDirectory,
            Err(FsError::NotDirectory) => Out::NotDirectory,
            Err(_) => return None,
        })
    }
}

pub type Names = BTreeMap<u8, Thing>;

pub struct Entries;

impl Model for Entries {
    type State = Names;
    type Op = Change;
    type Out = Out;

    fn change(names: &Names, change: &Change) -> Vec<(Names, Out)> {
        let mut after = names.clone();
        let out = apply(&mut after, change);
        if let (Change::Link { thing, name }, Out::Missing) = (*change, out) {
            // It gets a name again if the requester has it open.
            let mut named = names.clone();
            named.insert(name, thing);
            return vec![(after, out), (named, Out::Done)];
        }
        vec![(after, out)]
    }

    fn cut<'a>(states: impl Iterator<Item = &'a Names>) -> Vec<Names> {
        states.cloned().collect()
    }
}

fn apply(names: &mut Names, change: &Change) -> Out {
    match *change {
        Change::Create { name, thing } | Change::Link { thing, name } => {
            if names.contains_key(&name) {
                return Out::Exists;
            }
            let is_link = matches!(change, Change::Link { .. });
            if is_link && !names.values().any(|other| *other == thing) {
                return Out::Missing; // its last name went
            }
            names.insert(name, thing);
            Out::Done
        }
        Change::Unlink { name } => match names.get(&name) {
            None => Out::Missing,
            Some(thing) if thing.is_dir => Out::IsDirectory,
            Some(_) => remove(names, name),
        },
        Change::Rmdir { name } => match names.get(&name) {
            None => Out::Missing,
            Some(thing) if !thing.is_dir => Out::NotDirectory,
            Some(_) => remove(names, name),
        },
        Change::Rename { from, to } => {
            let Some(moved) = names.get(&from).copied() else {
                return Out::Missing;
            };
            match names.get(&to) {
                Some(over) if *over == moved => return Out::Done, // two names of one file stay
                Some(over) if over.is_dir && !moved.is_dir => return Out::IsDirectory,
                Some(over) if !over.is_dir && moved.is_dir => return Out::NotDirectory,
                _ => {}
            }
            names.remove(&from);
            names.insert(to, moved);
            Out::Done
        }
    }
}

fn remove(names: &mut Names, name: u8) -> Out {
    names.remove(&name);
    Out::Done
}
