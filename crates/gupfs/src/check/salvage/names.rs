//! The names of inodes, and the paths of names.

use super::editor::RecordEditor;
use crate::exit::CliResult;
use gupfs_namespace::{EntryRecord, Inode, KeyRange, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_proto::{InodeId, Name, VirtualShard};
use std::collections::{BTreeMap, BTreeSet};

/// Most directories in a path.
const DEPTH: usize = 64;

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedEntry {
    pub dir: InodeId,
    pub hash: u64,
    pub name: Name,
}

impl NamedEntry {
    pub fn key(&self) -> RecordKey {
        RecordKey::entry(self.dir, self.hash, &self.name)
    }
}

/// All names of these inodes, in the order of their keys. Reads every directory entry of the store.
///
/// # Errors
/// If the store cannot be read.
pub fn find_names(
    editor: &RecordEditor,
    wanted: &BTreeSet<InodeId>,
    shards: u16,
) -> CliResult<BTreeMap<InodeId, Vec<NamedEntry>>> {
    let mut found: BTreeMap<InodeId, Vec<NamedEntry>> = BTreeMap::new();
    for shard in (0..shards).map(VirtualShard) {
        editor.each(
            &KeyRange::of_kind(shard, RecordKind::Entry),
            |key, value| {
                let (Some(ParsedKey::Entry { dir, hash, name }), Ok(entry)) =
                    (key.parse(), EntryRecord::decode(value))
                else {
                    return;
                };
                if wanted.contains(&entry.ino) {
                    found
                        .entry(entry.ino)
                        .or_default()
                        .push(NamedEntry { dir, hash, name });
                }
            },
        )?;
    }
    Ok(found)
}

/// The path of a name, from the root or, if a parent directory is lost, from the highest directory that is left.
///
/// # Errors
/// If the store cannot be read.
pub fn entry_path(editor: &RecordEditor, named: &NamedEntry) -> CliResult<String> {
    let mut parts = vec![show(&named.name)];
    let mut dir = named.dir;
    for _ in 0..DEPTH {
        if dir == InodeId::ROOT {
            parts.push(String::new());
            parts.reverse();
            return Ok(parts.join("/"));
        }
        let Some(inode) = editor.get::<Inode>(&RecordKey::inode(dir))? else {
            break;
        };
        let Some(position) = inode.parent else {
            break;
        };
        let range = KeyRange::entries_with_hash(position.dir, position.hash);
        let mut parent_name = None;
        editor.each(&range, |key, value| {
            if let (Some(ParsedKey::Entry { name, .. }), Ok(entry)) =
                (key.parse(), EntryRecord::decode(value))
                && entry.ino == dir
            {
                parent_name = Some(name);
            }
        })?;
        let Some(name) = parent_name else {
            break;
        };
        parts.push(show(&name));
        dir = position.dir;
    }
    parts.push(format!("(inode {:x})", dir.0));
    parts.reverse();
    Ok(parts.join("/"))
}

fn show(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}
