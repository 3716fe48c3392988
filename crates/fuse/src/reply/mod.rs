//! # reply: replies in the kernel's format
//!
//! Owns   the bytes of one reply, until they are written.
//! Never  writes them: `responder` does.
//! Enter  at `IntoReply::into_reply`.

mod encode;

use std::io::IoSlice;

use bytes::Bytes;

use crate::dirents::DirentsPlus;
use crate::limits::{DATA_SLICES_MAX, FIXED_REPLY_MAX, OUT_HEADER};
use crate::transport::ring::EntryPayload;
use crate::values::{DataSource, EntryReply, ReplyData};
use crate::wire::{Put, ReplyHeader};
use crate::{Errno, FileHandle, NodeId, Unique};
pub(crate) use encode::{IntoReply, Number32, Number64};

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

impl FixedPart {
    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
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

    fn write_header(&mut self, unique: Unique) {
        // A message is shorter than 4 GiB: its data was compared with a 32-bit size.
        let header = ReplyHeader {
            length: OUT_HEADER + self.body_length(),
            errno: self.errno,
            unique,
        };
        self.fixed_part.bytes[..OUT_HEADER].copy_from_slice(&header.to_bytes());
    }

    /// The slices of the message, header first, to be kept.
    pub fn into_slices(mut self, unique: Unique) -> Vec<Bytes> {
        self.write_header(unique);
        let mut slices = vec![Bytes::copy_from_slice(self.fixed_part.written())];
        self.data.append_to(&mut slices);
        slices
    }

    /// Passes the slices of the message, header first, to `write`.
    pub fn with_slices<T>(&mut self, unique: Unique, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        self.write_header(unique);
        let head = IoSlice::new(self.fixed_part.written());
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
