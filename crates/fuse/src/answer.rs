//! Answers as the kernel reads them.

use std::io::IoSlice;

use crate::limits::{OUT_HEADER, PIECES_MAX, SMALL_ANSWER};
use crate::op::FileLock;
use crate::transport::ring::Lent;
use crate::values::{
    Attributes, Created, Data, Entry, Ioctled, Opened, Pieces, Statfs, Statxed, Xattr,
};
use crate::wire::Put;
use crate::{Dirents, DirentsPlus, Errno, Handle, NodeId, Unique};

/// One answer: a small part that holds the header, and bytes that lie elsewhere.
pub(crate) struct Answer {
    errno: Option<Errno>,
    small: Small,
    data: Data,
}

/// Bytes on the stack; longer than any fixed part of an answer.
struct Small {
    bytes: [u8; SMALL_ANSWER],
    length: usize,
}

impl Put for Small {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn put_zeros(&mut self, count: usize) {
        self.bytes[self.length..][..count].fill(0);
        self.length += count;
    }
}

impl Answer {
    pub fn empty() -> Answer {
        Answer {
            errno: None,
            small: Small {
                bytes: [0; SMALL_ANSWER],
                length: OUT_HEADER,
            },
            data: Data::default(),
        }
    }

    pub fn error(errno: Errno) -> Answer {
        Answer {
            errno: Some(errno),
            ..Answer::empty()
        }
    }

    fn fixed(fill: impl FnOnce(&mut Small)) -> Answer {
        let mut answer = Answer::empty();
        fill(&mut answer.small);
        answer
    }

    fn data(data: Data) -> Answer {
        Answer {
            data,
            ..Answer::empty()
        }
    }

    pub fn is_error(&self) -> bool {
        self.errno.is_some()
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = &self.small.bytes[OUT_HEADER + at..][..8];
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// Of an entry, or of what was created.
    pub fn first_node(&self) -> NodeId {
        NodeId(self.word(0))
    }

    /// Of a file that was opened.
    pub fn opened_handle(&self) -> Handle {
        Handle(self.word(0))
    }

    /// Of a file that was created: the entry comes first.
    pub fn created_handle(&self) -> Handle {
        Handle(self.word(Entry::WIRE))
    }

    /// Nodes of a listing with attributes, whose references the kernel takes.
    pub fn listed_nodes(&self) -> Vec<NodeId> {
        match &self.data.0 {
            Pieces::Vec(bytes) => DirentsPlus::given(bytes),
            _ => Vec::new(),
        }
    }

    /// Bytes without the header.
    pub fn body(&self) -> usize {
        self.small.length - OUT_HEADER + self.data.len()
    }

    /// Takes scratch memory out of the answer if it is the one; returns its length. The bytes stay where they are.
    pub fn take_lent(&mut self, is_it: impl FnOnce(&Lent) -> bool) -> Option<usize> {
        let Pieces::Scratch(scratch) = &self.data.0 else {
            return None;
        };
        if !scratch.lent().is_some_and(is_it) {
            return None;
        }
        if self.small.length > OUT_HEADER {
            // What comes before it would be written over it.
            self.data = Data::from(scratch.to_vec());
            return None;
        }
        let length = scratch.len();
        self.data = Data::default();
        Some(length)
    }

    /// Hands the pieces of the message, header first, to `write`.
    pub fn with_pieces<T>(&mut self, unique: Unique, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let length = OUT_HEADER + self.body();
        let error = self.errno.map_or(0, |errno| -errno.raw());
        // A message never has 4 GiB: its data was compared with a 32-bit size.
        self.small.bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        self.small.bytes[4..8].copy_from_slice(&error.to_ne_bytes());
        self.small.bytes[8..16].copy_from_slice(&unique.0.to_ne_bytes());
        let head = IoSlice::new(&self.small.bytes[..self.small.length]);
        match &self.data.0 {
            Pieces::None => write(&[head]),
            Pieces::Static(bytes) => write(&[head, IoSlice::new(bytes)]),
            Pieces::Vec(bytes) => write(&[head, IoSlice::new(bytes)]),
            Pieces::Bytes(bytes) => write(&[head, IoSlice::new(bytes)]),
            Pieces::Scratch(bytes) => write(&[head, IoSlice::new(bytes)]),
            Pieces::Many(pieces) => {
                // A message is one write, and a write takes so many pieces: the last of a longer list are joined.
                let direct = pieces.len().min(PIECES_MAX - 1);
                let joined: Vec<u8> = pieces[direct..].iter().flatten().copied().collect();
                let mut slices = Vec::with_capacity(direct + 2);
                slices.push(head);
                slices.extend(pieces[..direct].iter().map(|piece| IoSlice::new(piece)));
                slices.push(IoSlice::new(&joined));
                write(&slices)
            }
        }
    }
}

/// What a method of `FileSystem` returns, as an answer.
pub(crate) trait IntoAnswer {
    fn into_answer(self) -> Answer;
}

impl<T: IntoAnswer> IntoAnswer for crate::Result<T> {
    fn into_answer(self) -> Answer {
        match self {
            Ok(value) => value.into_answer(),
            Err(errno) => Answer::error(errno),
        }
    }
}

impl IntoAnswer for () {
    fn into_answer(self) -> Answer {
        Answer::empty()
    }
}

impl IntoAnswer for Entry {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| self.put(out))
    }
}

impl IntoAnswer for Attributes {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| {
            out.put_u64(self.ttl.as_secs());
            out.put_u32(self.ttl.subsec_nanos());
            out.put_u32(0);
            self.attr.put(out);
        })
    }
}

impl IntoAnswer for Statxed {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| {
            out.put_u64(self.ttl.as_secs());
            out.put_u32(self.ttl.subsec_nanos());
            out.put_zeros(4 + 16);
            self.statx.put(out);
        })
    }
}

fn opened(opened: &Opened, out: &mut Small) {
    out.put_u64(opened.fh.0);
    out.put_u32(opened.flags.bits());
    out.put_i32(0);
}

impl IntoAnswer for Opened {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| opened(&self, out))
    }
}

impl IntoAnswer for Created {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| {
            self.entry.put(out);
            opened(&self.opened, out);
        })
    }
}

impl IntoAnswer for Data {
    fn into_answer(self) -> Answer {
        Answer::data(self)
    }
}

impl IntoAnswer for Vec<u8> {
    fn into_answer(self) -> Answer {
        Answer::data(self.into())
    }
}

impl IntoAnswer for Dirents {
    fn into_answer(self) -> Answer {
        self.into_bytes().into_answer()
    }
}

impl IntoAnswer for DirentsPlus {
    fn into_answer(self) -> Answer {
        self.into_bytes().into_answer()
    }
}

impl IntoAnswer for Xattr {
    fn into_answer(self) -> Answer {
        match self {
            Xattr::Value(value) => value.into_answer(),
            Xattr::Size(size) => Answer::fixed(|out| {
                out.put_u32(size);
                out.put_u32(0);
            }),
        }
    }
}

impl IntoAnswer for Statfs {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| {
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

impl IntoAnswer for FileLock {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| {
            out.put_u64(self.start);
            out.put_u64(self.end);
            out.put_u32(self.kind.raw());
            out.put_u32(self.pid);
        })
    }
}

impl IntoAnswer for Ioctled {
    fn into_answer(self) -> Answer {
        let mut answer = Answer::fixed(|out| {
            out.put_i32(self.result);
            out.put_zeros(12);
        });
        answer.data = self.data.into();
        answer
    }
}

/// Bytes written or copied, events: a number and padding.
pub(crate) struct Number32(pub u32);

impl IntoAnswer for Number32 {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| {
            out.put_u32(self.0);
            out.put_u32(0);
        })
    }
}

/// Offsets, blocks, bytes copied.
pub(crate) struct Number64(pub u64);

impl IntoAnswer for Number64 {
    fn into_answer(self) -> Answer {
        Answer::fixed(|out| out.put_u64(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::LockKind;
    use crate::{Handle, values::Statx};
    use bytes::Bytes;
    use std::time::Duration;

    fn bytes(answer: impl IntoAnswer) -> Vec<u8> {
        let mut answer = answer.into_answer();
        answer.with_pieces(Unique(0x1234), |pieces| {
            pieces
                .iter()
                .flat_map(|piece| piece.iter().copied())
                .collect()
        })
    }

    /// Kind of answer and the size of `struct fuse_…_out` of the kernel's header, with the 16 bytes before it.
    #[test]
    fn answers_have_the_sizes_of_the_kernels_structs() {
        let entry = Entry::absent(Duration::ZERO);
        let opened = Opened::default();
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
                bytes(Attributes {
                    attr: entry.attr,
                    ttl,
                }),
                104,
            ),
            (
                "statx",
                bytes(Statxed {
                    statx: Statx::default(),
                    ttl,
                }),
                288,
            ),
            ("open", bytes(opened), 16),
            ("create", bytes(Created { entry, opened }), 144),
            ("write", bytes(Number32(1)), 8),
            ("statfs", bytes(Statfs::default()), 80),
            ("xattr size", bytes(Xattr::Size(1)), 8),
            ("lock", bytes(lock), 24),
            ("ioctl", bytes(Ioctled::default()), 16),
            ("lseek", bytes(Number64(1)), 8),
        ];
        for (what, bytes, size) in table {
            assert_eq!(bytes.len(), 16 + size, "{what}");
            assert_eq!(bytes[..4], (16 + size as u32).to_ne_bytes(), "{what}");
        }
    }

    #[test]
    fn an_error_is_a_negative_number_without_a_body() {
        let bytes = bytes(crate::Result::<Opened>::Err(Errno::ENOENT));
        assert_eq!(bytes.len(), 16);
        assert_eq!(bytes[4..8], (-2i32).to_ne_bytes());
        assert_eq!(bytes[8..], 0x1234u64.to_ne_bytes());
    }

    #[test]
    fn data_in_many_pieces_arrives_whole() {
        let pieces: Vec<Bytes> = (0..3000u32)
            .map(|piece| Bytes::from(piece.to_ne_bytes().to_vec()))
            .collect();
        let expected: Vec<u8> = (0..3000u32).flat_map(u32::to_ne_bytes).collect();
        let mut answer = Data::from(pieces).into_answer();
        let (count, bytes) = answer.with_pieces(Unique(1), |pieces| {
            (
                pieces.len(),
                pieces
                    .iter()
                    .skip(1)
                    .flat_map(|piece| piece.iter().copied())
                    .collect::<Vec<u8>>(),
            )
        });
        assert!(count <= 1024);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn an_open_file_is_named_by_its_handle() {
        let flags = crate::wire::OpenedFlags::DIRECT_IO;
        let bytes = bytes(Opened {
            fh: Handle(0xabcd),
            flags,
        });
        assert_eq!(bytes[16..24], 0xabcdu64.to_ne_bytes());
        assert_eq!(bytes[24..28], 1u32.to_ne_bytes());
    }
}
