//! Replies in the kernel's format.

use std::io::IoSlice;

use crate::limits::{DATA_SLICES_MAX, FIXED_REPLY_MAX, OUT_HEADER};
use crate::op::FileLock;
use crate::transport::ring::EntryPayload;
use crate::values::{
    AttrReply, CreateReply, DataSource, EntryReply, IoctlReply, OpenReply, ReplyData, StatfsReply,
    StatxReply, XattrReply,
};
use crate::wire::Put;
use crate::{Dirents, DirentsPlus, Errno, FileHandle, NodeId, Unique};

/// One reply: a fixed part that begins with the header, and data bytes in the memory where the handler has them.
pub(crate) struct Reply {
    errno: Option<Errno>,
    fixed_part: FixedPart,
    data: ReplyData,
}

/// Bytes on the stack, long enough for the fixed part of every reply.
struct FixedPart {
    bytes: [u8; FIXED_REPLY_MAX],
    length: usize,
}

impl Put for FixedPart {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn put_zeros(&mut self, count: usize) {
        self.bytes[self.length..][..count].fill(0);
        self.length += count;
    }
}

impl Reply {
    pub fn empty() -> Reply {
        Reply {
            errno: None,
            fixed_part: FixedPart {
                bytes: [0; FIXED_REPLY_MAX],
                length: OUT_HEADER,
            },
            data: ReplyData::default(),
        }
    }

    pub fn error(errno: Errno) -> Reply {
        Reply {
            errno: Some(errno),
            ..Reply::empty()
        }
    }

    fn fixed(fill: impl FnOnce(&mut FixedPart)) -> Reply {
        let mut reply = Reply::empty();
        fill(&mut reply.fixed_part);
        reply
    }

    fn data(data: ReplyData) -> Reply {
        Reply {
            data,
            ..Reply::empty()
        }
    }

    pub fn is_error(&self) -> bool {
        self.errno.is_some()
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = &self.fixed_part.bytes[OUT_HEADER + at..][..8];
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// The node of an entry, or of a created file.
    pub fn first_node(&self) -> NodeId {
        NodeId(self.word(0))
    }

    /// The handle of an opened file.
    pub fn opened_handle(&self) -> FileHandle {
        FileHandle(self.word(0))
    }

    /// The handle of a created file: it follows the entry.
    pub fn created_handle(&self) -> FileHandle {
        FileHandle(self.word(EntryReply::WIRE))
    }

    /// The nodes of a READDIRPLUS reply to which the kernel takes references.
    pub fn listed_nodes(&self) -> Vec<NodeId> {
        match &self.data.0 {
            DataSource::Vec(bytes) => DirentsPlus::referenced_nodes(bytes),
            _ => Vec::new(),
        }
    }

    /// Length of the reply in bytes without the header.
    pub fn body_length(&self) -> usize {
        self.fixed_part.length - OUT_HEADER + self.data.len()
    }

    /// If the reply's data is scratch memory for which `is_it` holds, removes it from the reply and returns its length; the
    /// bytes stay in the ring entry.
    pub fn take_in_place(&mut self, is_it: impl FnOnce(&EntryPayload) -> bool) -> Option<usize> {
        let DataSource::Scratch(scratch) = &self.data.0 else {
            return None;
        };
        if !scratch.entry_payload().is_some_and(is_it) {
            return None;
        }
        if self.fixed_part.length > OUT_HEADER {
            // The fixed part goes before the data in the same memory and would overwrite it.
            self.data = ReplyData::from(scratch.to_vec());
            return None;
        }
        let length = scratch.len();
        self.data = ReplyData::default();
        Some(length)
    }

    /// Passes the slices of the message, header first, to `write`.
    pub fn with_slices<T>(&mut self, unique: Unique, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let length = OUT_HEADER + self.body_length();
        let error = self.errno.map_or(0, |errno| -errno.raw());
        // A message is shorter than 4 GiB: its data was compared with a 32-bit size.
        self.fixed_part.bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        self.fixed_part.bytes[4..8].copy_from_slice(&error.to_ne_bytes());
        self.fixed_part.bytes[8..16].copy_from_slice(&unique.0.to_ne_bytes());
        let head = IoSlice::new(&self.fixed_part.bytes[..self.fixed_part.length]);
        match &self.data.0 {
            DataSource::None => write(&[head]),
            DataSource::Static(bytes) => write(&[head, IoSlice::new(bytes)]),
            DataSource::Vec(bytes) => write(&[head, IoSlice::new(bytes)]),
            DataSource::Bytes(bytes) => write(&[head, IoSlice::new(bytes)]),
            DataSource::Scratch(bytes) => write(&[head, IoSlice::new(bytes)]),
            DataSource::Many(parts) => {
                // A message is one writev(2), which takes a limited number of slices: the last slices of a longer list are
                // joined.
                let direct = parts.len().min(DATA_SLICES_MAX - 1);
                let joined: Vec<u8> = parts[direct..].iter().flatten().copied().collect();
                let mut slices = Vec::with_capacity(direct + 2);
                slices.push(head);
                slices.extend(parts[..direct].iter().map(|part| IoSlice::new(part)));
                slices.push(IoSlice::new(&joined));
                write(&slices)
            }
        }
    }
}

/// Converts the result of a `FileSystem` method to a reply.
pub(crate) trait IntoReply {
    fn into_reply(self) -> Reply;
}

impl<T: IntoReply> IntoReply for crate::Result<T> {
    fn into_reply(self) -> Reply {
        match self {
            Ok(value) => value.into_reply(),
            Err(errno) => Reply::error(errno),
        }
    }
}

impl IntoReply for () {
    fn into_reply(self) -> Reply {
        Reply::empty()
    }
}

impl IntoReply for EntryReply {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| self.put(out))
    }
}

impl IntoReply for AttrReply {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| {
            out.put_u64(self.ttl.as_secs());
            out.put_u32(self.ttl.subsec_nanos());
            out.put_u32(0);
            self.attr.put(out);
        })
    }
}

impl IntoReply for StatxReply {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| {
            out.put_u64(self.ttl.as_secs());
            out.put_u32(self.ttl.subsec_nanos());
            out.put_zeros(4 + 16);
            self.statx.put(out);
        })
    }
}

fn put_open_reply(opened: &OpenReply, out: &mut FixedPart) {
    out.put_u64(opened.fh.0);
    out.put_u32(opened.flags.bits());
    out.put_i32(0);
}

impl IntoReply for OpenReply {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| put_open_reply(&self, out))
    }
}

impl IntoReply for CreateReply {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| {
            self.entry.put(out);
            put_open_reply(&self.opened, out);
        })
    }
}

impl IntoReply for ReplyData {
    fn into_reply(self) -> Reply {
        Reply::data(self)
    }
}

impl IntoReply for Vec<u8> {
    fn into_reply(self) -> Reply {
        Reply::data(self.into())
    }
}

impl IntoReply for Dirents {
    fn into_reply(self) -> Reply {
        self.into_bytes().into_reply()
    }
}

impl IntoReply for DirentsPlus {
    fn into_reply(self) -> Reply {
        self.into_bytes().into_reply()
    }
}

impl IntoReply for XattrReply {
    fn into_reply(self) -> Reply {
        match self {
            XattrReply::Value(value) => value.into_reply(),
            XattrReply::Size(size) => Reply::fixed(|out| {
                out.put_u32(size);
                out.put_u32(0);
            }),
        }
    }
}

impl IntoReply for StatfsReply {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| {
            out.put_u64(self.blocks);
            out.put_u64(self.blocks_free);
            out.put_u64(self.blocks_available);
            out.put_u64(self.files);
            out.put_u64(self.files_free);
            out.put_u32(self.block_size);
            out.put_u32(self.name_max);
            out.put_u32(self.fragment_size);
            out.put_zeros(28);
        })
    }
}

impl IntoReply for FileLock {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| {
            out.put_u64(self.start);
            out.put_u64(self.end);
            out.put_u32(self.kind.raw());
            out.put_u32(self.pid);
        })
    }
}

impl IntoReply for IoctlReply {
    fn into_reply(self) -> Reply {
        let mut reply = Reply::fixed(|out| {
            out.put_i32(self.result);
            out.put_zeros(12);
        });
        reply.data = self.data.into();
        reply
    }
}

/// Bytes written or copied, or poll events: a 32-bit number and padding.
pub(crate) struct Number32(pub u32);

impl IntoReply for Number32 {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| {
            out.put_u32(self.0);
            out.put_u32(0);
        })
    }
}

/// An offset, a block number, or bytes copied: a 64-bit number.
pub(crate) struct Number64(pub u64);

impl IntoReply for Number64 {
    fn into_reply(self) -> Reply {
        Reply::fixed(|out| out.put_u64(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::LockKind;
    use crate::{FileHandle, values::Statx};
    use bytes::Bytes;
    use std::time::Duration;

    fn bytes(reply: impl IntoReply) -> Vec<u8> {
        let mut reply = reply.into_reply();
        reply.with_slices(Unique(0x1234), |parts| {
            parts.iter().flat_map(|part| part.iter().copied()).collect()
        })
    }

    /// Kind of reply and the size of `struct fuse_…_out` in the kernel's header file, plus the 16 bytes of the header.
    #[test]
    fn replies_have_the_sizes_of_the_kernels_structs() {
        let entry = EntryReply::absent(Duration::ZERO);
        let opened = OpenReply::default();
        let ttl = Duration::ZERO;
        let lock = FileLock {
            start: 0,
            end: FileLock::EOF,
            kind: LockKind::Unlock,
            pid: 0,
        };
        let table: [(&str, Vec<u8>, usize); 12] = [
            ("nothing", bytes(()), 0),
            ("entry", bytes(entry), 128),
            (
                "attributes",
                bytes(AttrReply {
                    attr: entry.attr,
                    ttl,
                }),
                104,
            ),
            (
                "statx",
                bytes(StatxReply {
                    statx: Statx::default(),
                    ttl,
                }),
                288,
            ),
            ("open", bytes(opened), 16),
            ("create", bytes(CreateReply { entry, opened }), 144),
            ("write", bytes(Number32(1)), 8),
            ("statfs", bytes(StatfsReply::default()), 80),
            ("xattr size", bytes(XattrReply::Size(1)), 8),
            ("lock", bytes(lock), 24),
            ("ioctl", bytes(IoctlReply::default()), 16),
            ("lseek", bytes(Number64(1)), 8),
        ];
        for (kind, bytes, size) in table {
            assert_eq!(bytes.len(), 16 + size, "{kind}");
            assert_eq!(bytes[..4], (16 + size as u32).to_ne_bytes(), "{kind}");
        }
    }

    #[test]
    fn an_error_is_a_negative_number_without_a_body() {
        let bytes = bytes(crate::Result::<OpenReply>::Err(Errno::ENOENT));
        assert_eq!(bytes.len(), 16);
        assert_eq!(bytes[4..8], (-2i32).to_ne_bytes());
        assert_eq!(bytes[8..], 0x1234u64.to_ne_bytes());
    }

    #[test]
    fn data_in_many_parts_is_written_completely() {
        let parts: Vec<Bytes> = (0..3000u32)
            .map(|part| Bytes::from(part.to_ne_bytes().to_vec()))
            .collect();
        let expected: Vec<u8> = (0..3000u32).flat_map(u32::to_ne_bytes).collect();
        let mut reply = ReplyData::from(parts).into_reply();
        let (count, bytes) = reply.with_slices(Unique(1), |parts| {
            (
                parts.len(),
                parts
                    .iter()
                    .skip(1)
                    .flat_map(|part| part.iter().copied())
                    .collect::<Vec<u8>>(),
            )
        });
        assert!(count <= 1024);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn an_open_reply_carries_handle_and_flags() {
        let flags = crate::wire::OpenReplyFlags::DIRECT_IO;
        let bytes = bytes(OpenReply {
            fh: FileHandle(0xabcd),
            flags,
        });
        assert_eq!(bytes[16..24], 0xabcdu64.to_ne_bytes());
        assert_eq!(bytes[24..28], 1u32.to_ne_bytes());
    }
}
