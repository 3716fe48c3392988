//! The inline data of a file.

use bytes::{Bytes, BytesMut};
use gupfs_proto::limits::INLINE_MAX;
use gupfs_proto::{ByteCount, FileOffset};

#[derive(Default)]
pub struct InlineData {
    bytes: Bytes,
    /// A sync may have answered that the inline data survives a power loss.
    may_be_durable: bool,
    /// This client created the file since it was loaded. Another client can have synced its inline data only if it has opened the
    /// file, and then the server answers `NotSynced`.
    created_here: bool,
}

impl InlineData {
    pub fn load(&mut self, bytes: Option<Bytes>, created: bool) {
        self.bytes = bytes.unwrap_or_default();
        self.may_be_durable = !self.bytes.is_empty();
        self.created_here = created;
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn write(&mut self, offset: FileOffset, data: &[u8]) {
        debug_assert!(offset.0 + data.len() as u64 <= INLINE_MAX.0);
        let (from, to) = (offset.0 as usize, offset.0 as usize + data.len());
        let mut bytes = BytesMut::zeroed(self.bytes.len().max(to));
        bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        bytes[from..to].copy_from_slice(data);
        self.bytes = bytes.freeze();
    }

    /// The bytes of `offset .. end`, and how many zeros follow them.
    pub fn read(&self, offset: FileOffset, end: FileOffset) -> (Bytes, ByteCount) {
        let have = self.bytes.len() as u64;
        let bytes = self
            .bytes
            .slice(offset.0.min(have) as usize..end.0.min(have) as usize);
        let zeros = (end - offset).0 - bytes.len() as u64;
        (bytes, ByteCount(zeros))
    }

    /// The file's bytes are inline now.
    pub fn replace(&mut self, bytes: Bytes) {
        self.bytes = bytes;
    }

    /// They are in objects now.
    pub fn clear(&mut self) {
        self.bytes = Bytes::new();
    }

    pub fn may_be_durable(&self) -> bool {
        self.may_be_durable
    }

    /// A sync begins: from now on they must survive a power loss.
    pub fn set_may_be_durable(&mut self) {
        self.may_be_durable = true;
    }

    /// Other clients may have used the file since it was loaded: a sync of theirs may have promised that it is durable.
    pub fn note_other_clients(&mut self) {
        self.may_be_durable |= !self.created_here && !self.bytes.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_behind_the_end_leaves_zeros_before_it() {
        let mut inline = InlineData::default();
        inline.write(FileOffset(2), b"cd");
        assert_eq!(&inline.bytes()[..], b"\0\0cd");
        inline.write(FileOffset(1), b"b");
        assert_eq!(&inline.bytes()[..], b"\0bcd");
        assert_eq!(
            inline.read(FileOffset(3), FileOffset(6)),
            (Bytes::from_static(b"d"), ByteCount(2))
        );
        assert_eq!(
            inline.read(FileOffset(8), FileOffset(9)),
            (Bytes::new(), ByteCount(1))
        );
    }

    #[test]
    fn only_a_file_of_another_client_may_have_been_synced_by_others() {
        let mut inline = InlineData::default();
        inline.load(None, true);
        inline.write(FileOffset(0), b"ab");
        inline.note_other_clients();
        assert!(!inline.may_be_durable());
        inline.load(None, false);
        inline.write(FileOffset(0), b"ab");
        inline.note_other_clients();
        assert!(inline.may_be_durable());
    }
}
