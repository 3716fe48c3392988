//! Names: all that some inodes have, and how people call them.

use super::editor::RecordEditor;
use crate::exit::CliResult;
use gupfs_namespace::{EntryRecord, Inode, KeyRange, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_proto::{InodeId, Name, VirtualShard};
use std::collections::{BTreeMap, BTreeSet};

/// Directories above a name that are looked up for its path.
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

/// All names of these inodes, in the order of their keys: one look at every entry there is.
pub fn names_of(
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

/// The path of a name, from the root on where the way up is whole, else from where it breaks.
pub fn path(editor: &RecordEditor, named: &NamedEntry) -> CliResult<String> {
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
        let Some(link) = inode.parent else {
            break;
        };
        let range = KeyRange::entries_with_hash(link.dir, link.hash);
        let mut above = None;
        editor.each(&range, |key, value| {
            if let (Some(ParsedKey::Entry { name, .. }), Ok(entry)) =
                (key.parse(), EntryRecord::decode(value))
                && entry.ino == dir
            {
                above = Some(name);
            }
        })?;
        let Some(name) = above else {
            break;
        };
        parts.push(show(&name));
        dir = link.dir;
    }
    parts.push(format!("(inode {:x})", dir.0));
    parts.reverse();
    Ok(parts.join("/"))
}

fn show(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}
