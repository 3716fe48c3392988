//! Builds the replies to READDIR and READDIRPLUS.

use crate::NodeId;
use crate::limits::DIRENTS_RESERVED;
use crate::op::Readdir;
use crate::values::EntryReply;
use crate::wire::{Cursor, FromWire, Malformed, Put};

/// Entries of a directory, up to the size that the kernel requested.
///
/// A later request continues after the offset of the last entry that it received: a file system chooses offsets that stay valid
/// while entries are added and removed. An offset must not be 0.
#[derive(Debug)]
pub struct Dirents {
    bytes: Vec<u8>,
    size_max: usize,
}

/// Entries with their attributes. Each counts as a lookup of its node, except "." and ".." and entries whose node is
/// `NodeId::NONE`: of these the kernel takes only the name and the file type.
#[derive(Debug)]
pub struct DirentsPlus {
    bytes: Vec<u8>,
    size_max: usize,
}

const HEAD: usize = 24;

fn record_length(name: &[u8]) -> usize {
    (HEAD + name.len()).next_multiple_of(8)
}

fn put(out: &mut Vec<u8>, ino: u64, offset: u64, mode: u32, name: &[u8]) {
    out.put_u64(ino);
    out.put_u64(offset);
    // A name is shorter than 4 GiB: `push` has compared it with the requested size.
    out.put_u32(name.len() as u32);
    out.put_u32(mode >> 12 & 0o17);
    out.put(name);
    out.put_zeros(record_length(name) - HEAD - name.len());
}

fn initial_capacity(request: &Readdir) -> usize {
    (request.size as usize).min(DIRENTS_RESERVED)
}

impl Dirents {
    pub fn new(request: &Readdir) -> Dirents {
        Dirents {
            bytes: Vec::with_capacity(initial_capacity(request)),
            size_max: request.size as usize,
        }
    }

    /// Returns `false` if the entry does not fit; then it was not added. Only the file type in `mode` matters.
    #[must_use]
    pub fn push(&mut self, ino: u64, offset: u64, mode: u32, name: &[u8]) -> bool {
        if self.bytes.len() + record_length(name) > self.size_max {
            return false;
        }
        put(&mut self.bytes, ino, offset, mode, name);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The pushed entries as the kernel parses them: inode number, offset, file type (a mode shifted to the right by 12 bits), name.
    pub fn entries(&self) -> Vec<(u64, u64, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut rest = Cursor::new(&self.bytes);
        while let Ok(entry) = read_dirent(&mut rest) {
            entries.push(entry);
        }
        entries
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl DirentsPlus {
    pub fn new(request: &Readdir) -> DirentsPlus {
        DirentsPlus {
            bytes: Vec::with_capacity(initial_capacity(request)),
            size_max: request.size as usize,
        }
    }

    /// Whether an entry for `name` still fits. Call it before the lookup is counted.
    pub fn fits(&self, name: &[u8]) -> bool {
        self.bytes.len() + EntryReply::WIRE + record_length(name) <= self.size_max
    }

    /// Returns `false` if the entry does not fit; then it was not added, and the caller must not count a lookup.
    #[must_use]
    pub fn push(&mut self, entry: &EntryReply, offset: u64, name: &[u8]) -> bool {
        if !self.fits(name) {
            return false;
        }
        entry.put(&mut self.bytes);
        put(
            &mut self.bytes,
            entry.attr.ino,
            offset,
            entry.attr.mode,
            name,
        );
        true
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The pushed entries as the kernel parses them: entry, offset, name.
    pub fn entries(&self) -> Vec<(EntryReply, u64, Vec<u8>)> {
        DirentsPlus::read(&self.bytes)
    }

    /// The nodes in a READDIRPLUS reply to which the kernel takes a reference.
    pub(crate) fn referenced_nodes(bytes: &[u8]) -> Vec<NodeId> {
        let counted = |(entry, _, name): &(EntryReply, u64, Vec<u8>)| {
            entry.node != NodeId::NONE && !matches!(name.as_slice(), b"." | b"..")
        };
        let entries = DirentsPlus::read(bytes).into_iter().filter(counted);
        entries.map(|(entry, _, _)| entry.node).collect()
    }

    fn read(bytes: &[u8]) -> Vec<(EntryReply, u64, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut rest = Cursor::new(bytes);
        while let Ok(entry) = EntryReply::from_wire(&mut rest) {
            let dirent = read_dirent(&mut rest);
            let (_, offset, _, name) = dirent.expect("a name follows each entry");
            entries.push((entry, offset, name));
        }
        entries
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Inode number, offset, file type, name.
fn read_dirent(rest: &mut Cursor<'_>) -> Result<(u64, u64, u32, Vec<u8>), Malformed> {
    let ino = rest.u64("ino")?;
    let offset = rest.u64("offset")?;
    let length = rest.u32("length")? as usize;
    let kind = rest.u32("kind")?;
    let name = rest.bytes(length, "name")?.to_vec();
    rest.skip(record_length(&name) - HEAD - length)?;
    Ok((ino, offset, kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileHandle;
    use std::time::Duration;

    fn request(size: u32) -> Readdir {
        Readdir {
            fh: FileHandle(0),
            offset: 0,
            size,
        }
    }

    #[test]
    fn entries_are_padded_and_stop_at_the_requested_size() {
        let mut dirents = Dirents::new(&request(72));
        assert!(dirents.push(7, 1, 0o040755, b"a"));
        assert!(dirents.push(8, 2, 0o100644, b"exactly8"));
        assert!(!dirents.push(9, 3, 0o100644, b"c"));
        let entries = [
            (7, 1, 0o04, b"a".to_vec()),
            (8, 2, 0o10, b"exactly8".to_vec()),
        ];
        assert_eq!(dirents.entries(), entries);
        let bytes = dirents.into_bytes();
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[16..24], [1, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(&bytes[24..32], b"a\0\0\0\0\0\0\0");
        assert_eq!(bytes[48..56], [8, 0, 0, 0, 8, 0, 0, 0]);
    }

    #[test]
    fn the_initial_allocation_is_bounded() {
        let bytes = Dirents::new(&request(u32::MAX)).into_bytes();
        assert!(bytes.capacity() <= DIRENTS_RESERVED);
        let bytes = DirentsPlus::new(&request(u32::MAX)).into_bytes();
        assert!(bytes.capacity() <= DIRENTS_RESERVED);
    }

    #[test]
    fn a_readdirplus_entry_begins_with_an_entry_reply() {
        let mut dirents = DirentsPlus::new(&request(200));
        let attr = crate::InodeAttr {
            ino: 9,
            size: 1 << 40,
            mode: 0o100644,
            nlink: 2,
            uid: 3,
            ..crate::InodeAttr::default()
        };
        let entry = EntryReply {
            node: crate::NodeId(9),
            generation: 4,
            attr,
            attr_ttl: Duration::from_millis(1_500),
            ..EntryReply::absent(Duration::from_nanos(7))
        };
        assert!(dirents.push(&entry, 1, b"name"));
        assert!(!dirents.fits(b"name"));
        assert!(!dirents.push(&entry, 2, b"name"));
        assert_eq!(dirents.entries(), [(entry, 1, b"name".to_vec())]);
        assert_eq!(dirents.into_bytes().len(), 128 + 32);
    }
}
