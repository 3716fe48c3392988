//! Building the answers to READDIR and READDIRPLUS.

use crate::NodeId;
use crate::limits::DIRENTS_RESERVED;
use crate::op::Readdir;
use crate::values::Entry;
use crate::wire::{Cursor, FromWire, Malformed, Put};

/// Entries of a directory, as many as the kernel has room for.
///
/// The offset of an entry is what a later request continues after: a file system chooses it so that it stays good
/// while names come and go. It must not be 0.
#[derive(Debug)]
pub struct Dirents {
    bytes: Vec<u8>,
    room: usize,
}

/// Entries with their attributes. Each counts as a lookup of its node, except "." and "..", and those whose node is
/// `NodeId::NONE`: of these the kernel learns the name and the kind only.
#[derive(Debug)]
pub struct DirentsPlus {
    bytes: Vec<u8>,
    room: usize,
}

const HEAD: usize = 24;

fn record(name: &[u8]) -> usize {
    (HEAD + name.len()).next_multiple_of(8)
}

fn put(out: &mut Vec<u8>, ino: u64, offset: u64, mode: u32, name: &[u8]) {
    out.put_u64(ino);
    out.put_u64(offset);
    // A name never has 4 GiB: `push` has compared it with the room.
    out.put_u32(name.len() as u32);
    out.put_u32(mode >> 12 & 0o17);
    out.put(name);
    out.put_zeros(record(name) - HEAD - name.len());
}

fn reserved(request: &Readdir) -> usize {
    (request.size as usize).min(DIRENTS_RESERVED)
}

impl Dirents {
    pub fn new(request: &Readdir) -> Dirents {
        Dirents {
            bytes: Vec::with_capacity(reserved(request)),
            room: request.size as usize,
        }
    }

    /// `false` if there is no more room; the entry was not added. Of `mode` only the kind counts.
    #[must_use]
    pub fn push(&mut self, ino: u64, offset: u64, mode: u32, name: &[u8]) -> bool {
        if self.bytes.len() + record(name) > self.room {
            return false;
        }
        put(&mut self.bytes, ino, offset, mode, name);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl DirentsPlus {
    pub fn new(request: &Readdir) -> DirentsPlus {
        DirentsPlus {
            bytes: Vec::with_capacity(reserved(request)),
            room: request.size as usize,
        }
    }

    /// If an entry for `name` still fits. To be asked before a lookup is counted.
    pub fn has_room(&self, name: &[u8]) -> bool {
        self.bytes.len() + Entry::WIRE + record(name) <= self.room
    }

    /// `false` if there is no more room; the entry was not added and must not be counted.
    #[must_use]
    pub fn push(&mut self, entry: &Entry, offset: u64, name: &[u8]) -> bool {
        if !self.has_room(name) {
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

    /// What was pushed, as the kernel reads it: entry, offset, name.
    pub fn entries(&self) -> Vec<(Entry, u64, Vec<u8>)> {
        DirentsPlus::read(&self.bytes)
    }

    /// The nodes in such bytes to which the kernel takes a reference.
    pub(crate) fn given(bytes: &[u8]) -> Vec<NodeId> {
        let counted = |(entry, _, name): &(Entry, u64, Vec<u8>)| {
            entry.node != NodeId::NONE && !matches!(name.as_slice(), b"." | b"..")
        };
        let entries = DirentsPlus::read(bytes).into_iter().filter(counted);
        entries.map(|(entry, _, _)| entry.node).collect()
    }

    fn read(bytes: &[u8]) -> Vec<(Entry, u64, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut rest = Cursor::new(bytes);
        while let Ok(entry) = Entry::from_wire(&mut rest) {
            let name = read_name(&mut rest);
            let (offset, name) = name.expect("an entry has a name behind it");
            entries.push((entry, offset, name));
        }
        entries
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn read_name(rest: &mut Cursor<'_>) -> Result<(u64, Vec<u8>), Malformed> {
    rest.u64("ino")?;
    let offset = rest.u64("offset")?;
    let length = rest.u32("length")? as usize;
    rest.u32("kind")?;
    let name = rest.bytes(length, "name")?.to_vec();
    rest.skip(record(&name) - HEAD - length)?;
    Ok((offset, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;
    use std::time::Duration;

    fn request(size: u32) -> Readdir {
        Readdir {
            fh: Handle(0),
            offset: 0,
            size,
        }
    }

    #[test]
    fn entries_are_padded_and_stop_at_the_room() {
        let mut dirents = Dirents::new(&request(72));
        assert!(dirents.push(7, 1, 0o040755, b"a"));
        assert!(dirents.push(8, 2, 0o100644, b"exactly8"));
        assert!(!dirents.push(9, 3, 0o100644, b"c"));
        let bytes = dirents.into_bytes();
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[16..24], [1, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(&bytes[24..32], b"a\0\0\0\0\0\0\0");
        assert_eq!(bytes[48..56], [8, 0, 0, 0, 8, 0, 0, 0]);
    }

    #[test]
    fn memory_is_not_taken_only_because_there_is_room() {
        let bytes = Dirents::new(&request(u32::MAX)).into_bytes();
        assert!(bytes.capacity() <= DIRENTS_RESERVED);
        let bytes = DirentsPlus::new(&request(u32::MAX)).into_bytes();
        assert!(bytes.capacity() <= DIRENTS_RESERVED);
    }

    #[test]
    fn entries_with_attributes_carry_an_entry_before_them() {
        let mut dirents = DirentsPlus::new(&request(200));
        let attr = crate::Attr {
            ino: 9,
            size: 1 << 40,
            mode: 0o100644,
            nlink: 2,
            uid: 3,
            ..crate::Attr::default()
        };
        let entry = Entry {
            node: crate::NodeId(9),
            generation: 4,
            attr,
            attr_ttl: Duration::from_millis(1_500),
            ..Entry::absent(Duration::from_nanos(7))
        };
        assert!(dirents.push(&entry, 1, b"name"));
        assert!(!dirents.has_room(b"name"));
        assert!(!dirents.push(&entry, 2, b"name"));
        assert_eq!(dirents.entries(), [(entry, 1, b"name".to_vec())]);
        assert_eq!(dirents.into_bytes().len(), 128 + 32);
    }
}
