//! Converts the results of handlers to replies.

use super::{FixedPart, Reply};
use crate::dirents::{Dirents, DirentsPlus};
use crate::op::FileLock;
use crate::values::{
    AttrReply, CreateReply, EntryReply, IoctlReply, OpenReply, ReplyData, StatfsReply, StatxReply,
    XattrReply,
};
use crate::wire::Put;

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
    use crate::values::Statx;
    use crate::{Errno, FileHandle, Unique};
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
