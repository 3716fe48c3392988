//! Names in one directory that all clients change.

use crate::cluster::possible_states::ObjectModel;
use gupfs_proto::FsError;
use std::collections::BTreeMap;

/// What a name stands for: the question that made it, since its number is known only when that is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CreatedInode {
    pub created_by: u64,
    pub is_dir: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Change {
    Create { name: u8, inode: CreatedInode },
    Unlink { name: u8 },
    Rmdir { name: u8 },
    Rename { from: u8, to: u8 },
    Link { inode: CreatedInode, name: u8 },
}

/// Ok, or why not. Directories are never filled, so that they are empty always.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ChangeOutcome {
    Done,
    Exists,
    Missing,
    IsDirectory,
    NotDirectory,
}

impl ChangeOutcome {
    /// None for a refusal that says nothing about names.
    pub fn of<T>(answer: &Result<T, FsError>) -> Option<ChangeOutcome> {
        Some(match answer {
            Ok(_) => ChangeOutcome::Done,
            Err(FsError::Exists) => ChangeOutcome::Exists,
            Err(FsError::NotFound) => ChangeOutcome::Missing,
            Err(FsError::IsDirectory) => ChangeOutcome::IsDirectory,
            Err(FsError::NotDirectory) => ChangeOutcome::NotDirectory,
            Err(_) => return None,
        })
    }
}

pub type SharedNames = BTreeMap<u8, CreatedInode>;

pub struct NameModel;

impl ObjectModel for NameModel {
    type State = SharedNames;
    type Change = Change;
    type Reply = ChangeOutcome;

    fn change(names: &SharedNames, change: &Change) -> Vec<(SharedNames, ChangeOutcome)> {
        let mut after = names.clone();
        let out = apply(&mut after, change);
        if let (Change::Link { inode, name }, ChangeOutcome::Missing) = (*change, out) {
            // It gets a name again if the requester has it open.
            let mut named = names.clone();
            named.insert(name, inode);
            return vec![(after, out), (named, ChangeOutcome::Done)];
        }
        vec![(after, out)]
    }

    fn after_power_loss<'a>(states: impl Iterator<Item = &'a SharedNames>) -> Vec<SharedNames> {
        states.cloned().collect()
    }
}

fn apply(names: &mut SharedNames, change: &Change) -> ChangeOutcome {
    match *change {
        Change::Create { name, inode } | Change::Link { inode, name } => {
            if names.contains_key(&name) {
                return ChangeOutcome::Exists;
            }
            let is_link = matches!(change, Change::Link { .. });
            if is_link && !names.values().any(|other| *other == inode) {
                return ChangeOutcome::Missing; // its last name went
            }
            names.insert(name, inode);
            ChangeOutcome::Done
        }
        Change::Unlink { name } => match names.get(&name) {
            None => ChangeOutcome::Missing,
            Some(inode) if inode.is_dir => ChangeOutcome::IsDirectory,
            Some(_) => remove(names, name),
        },
        Change::Rmdir { name } => match names.get(&name) {
            None => ChangeOutcome::Missing,
            Some(inode) if !inode.is_dir => ChangeOutcome::NotDirectory,
            Some(_) => remove(names, name),
        },
        Change::Rename { from, to } => {
            let Some(moved) = names.get(&from).copied() else {
                return ChangeOutcome::Missing;
            };
            match names.get(&to) {
                Some(over) if *over == moved => return ChangeOutcome::Done, // two names of one file stay
                Some(over) if over.is_dir && !moved.is_dir => return ChangeOutcome::IsDirectory,
                Some(over) if !over.is_dir && moved.is_dir => return ChangeOutcome::NotDirectory,
                _ => {}
            }
            names.remove(&from);
            names.insert(to, moved);
            ChangeOutcome::Done
        }
    }
}

fn remove(names: &mut SharedNames, name: u8) -> ChangeOutcome {
    names.remove(&name);
    ChangeOutcome::Done
}
