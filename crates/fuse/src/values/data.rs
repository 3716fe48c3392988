//! Data bytes of replies.

use bytes::Bytes;

use crate::buffer::Scratch;

/// Data bytes of a reply, in the memory where the handler has them; this crate does not copy them before the kernel does.
#[derive(Debug, Default)]
pub struct ReplyData(pub(crate) DataSource);

#[derive(Debug, Default)]
pub(crate) enum DataSource {
    #[default]
    None,
    Static(&'static [u8]),
    Vec(Vec<u8>),
    Bytes(Bytes),
    Scratch(Scratch),
    Many(Vec<Bytes>),
}

impl ReplyData {
    pub fn len(&self) -> usize {
        match &self.0 {
            DataSource::None => 0,
            DataSource::Static(bytes) => bytes.len(),
            DataSource::Vec(bytes) => bytes.len(),
            DataSource::Bytes(bytes) => bytes.len(),
            DataSource::Scratch(bytes) => bytes.len(),
            DataSource::Many(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes in one buffer, as the kernel would receive them.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            DataSource::None => Bytes::new(),
            DataSource::Static(bytes) => Bytes::from_static(bytes),
            DataSource::Vec(bytes) => bytes.into(),
            DataSource::Bytes(bytes) => bytes,
            DataSource::Scratch(bytes) => Bytes::copy_from_slice(&bytes),
            DataSource::Many(pieces) => pieces.concat().into(),
        }
    }

    /// Appends the bytes, without a copy.
    pub(crate) fn append_to(self, slices: &mut Vec<Bytes>) {
        match self.0 {
            DataSource::None => {}
            DataSource::Static(bytes) => slices.push(Bytes::from_static(bytes)),
            DataSource::Vec(bytes) => slices.push(bytes.into()),
            DataSource::Bytes(bytes) => slices.push(bytes),
            DataSource::Scratch(scratch) => slices.push(Bytes::from_owner(scratch)),
            DataSource::Many(mut pieces) => slices.append(&mut pieces),
        }
    }
}

impl From<Vec<u8>> for ReplyData {
    fn from(bytes: Vec<u8>) -> ReplyData {
        ReplyData(DataSource::Vec(bytes))
    }
}

impl From<Bytes> for ReplyData {
    fn from(bytes: Bytes) -> ReplyData {
        ReplyData(DataSource::Bytes(bytes))
    }
}

impl From<Vec<Bytes>> for ReplyData {
    fn from(pieces: Vec<Bytes>) -> ReplyData {
        ReplyData(DataSource::Many(pieces))
    }
}

impl From<Scratch> for ReplyData {
    fn from(scratch: Scratch) -> ReplyData {
        ReplyData(DataSource::Scratch(scratch))
    }
}

impl From<&'static [u8]> for ReplyData {
    fn from(bytes: &'static [u8]) -> ReplyData {
        ReplyData(DataSource::Static(bytes))
    }
}
