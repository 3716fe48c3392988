//! The model of names in one directory that all clients change.

use crate::cluster::possible_states::ObjectModel;
use gupfs_proto::FsError;
use std::collections::BTreeMap;

/// A created inode, identified by its create request, because its number is known only after the reply.
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

/// The outcome of a change. Directories stay empty, so `NotEmpty` does not occur.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ChangeOutcome {
    Done,
    Exists,
    Missing,
    IsDirectory,
    NotDirectory,
}

impl ChangeOutcome {
    /// Returns None for an error that does not concern names.
    pub fn of<T>(reply: &Result<T, FsError>) -> Option<ChangeOutcome> {
        Some(match reply {
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
        let reply = apply(&mut after, change);
        if let (Change::Link { inode, name }, ChangeOutcome::Missing) = (*change, reply) {
            // The inode gets a name again if the requesting client has it open.
            let mut named = names.clone();
            named.insert(name, inode);
            return vec![(after, reply), (named, ChangeOutcome::Done)];
        }
        vec![(after, reply)]
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
                return ChangeOutcome::Missing; // the inode has lost its last name
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
                Some(over) if *over == moved => return ChangeOutcome::Done, // rename(2) keeps both names of one file
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
