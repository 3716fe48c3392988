//! Writes to files that are small enough for inline data.

use super::FileLeases;
use crate::inodes::ActiveInode;
use crate::metrics::Counters;
use crate::reply;
use bytes::Bytes;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, WritePosition};
use gupfs_proto::{Caller, FileOffset, FsError};

/// Where inline data was written, and the file's size since.
pub struct InlineWrite {
    pub offset: FileOffset,
    pub size: FileOffset,
}

impl FileLeases {
    /// None when the server answers that the bytes do not fit. The caller has locked the whole file.
    pub async fn write_inline(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        data: &Bytes,
        kill_privileges: bool,
    ) -> Result<Option<InlineWrite>, FsError> {
        let _reporting = inode.reporting.lock().await;
        let op = MetaOp::WriteInline {
            ino: inode.ino,
            at,
            data: data.clone(),
            kill_privileges,
        };
        let attr = match self.mds.call(&Caller::root(), op).await? {
            MetaReplyBody::InlineTooLarge => return Ok(None),
            MetaReplyBody::Attr(attr) => attr,
            MetaReplyBody::Opened(opened) => opened.attr,
            _ => return reply::unexpected("write_inline"),
        };
        let offset = match at {
            WritePosition::Offset(offset) => FileOffset(offset),
            WritePosition::End => FileOffset(attr.size - data.len() as u64),
        };
        let mut state = inode.state();
        state.apply_inline_write(offset, data, attr);
        state.set_privileges_killed(kill_privileges);
        Counters::add(&self.counters.inline_writes, 1);
        Ok(Some(InlineWrite {
            offset,
            size: FileOffset(attr.size),
        }))
    }
}
