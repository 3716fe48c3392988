//! Writes to files that are small enough for inline data.

use super::inode_table::ActiveInode;
use super::write::WriteDone;
use crate::metrics::Counters;
use crate::reply;
use crate::service::Client;
use bytes::Bytes;
use gupfs_proto::limits::INLINE_MAX;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, WritePosition};
use gupfs_proto::{Caller, FsError};

/// Whether a write that ends at `end` should go inline. A write that fills the inline area to its last byte is probably the first
/// of several (stdio writes 4 KiB at a time): moving its bytes out again would cost a sync.
pub fn fits(end: u64) -> bool {
    end < INLINE_MAX.0
}

impl Client {
    /// None when the server answers that the bytes do not fit. The caller has locked the whole file.
    pub(super) async fn write_inline(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        data: &Bytes,
        kill_privileges: bool,
    ) -> Result<Option<WriteDone>, FsError> {
        let _reporting = inode.reporting.lock().await;
        let op = MetaOp::WriteInline {
            ino: inode.ino,
            at,
            data: data.clone(),
            kill_privileges,
        };
        let attr = match self.call_mds(&Caller::root(), op).await? {
            MetaReplyBody::InlineTooLarge => return Ok(None),
            MetaReplyBody::Attr(attr) => attr,
            MetaReplyBody::Opened(opened) => opened.attr,
            _ => return reply::unexpected("write_inline"),
        };
        let len = data.len() as u64;
        let offset = match at {
            WritePosition::Offset(offset) => offset,
            WritePosition::End => attr.size - len,
        };
        let mut state = inode.state();
        state.apply_inline_write(offset, data, attr);
        state.set_privileges_killed(kill_privileges);
        Counters::add(&self.counters.inline_writes, 1);
        Ok(Some(WriteDone {
            written: len,
            offset,
            size: attr.size,
        }))
    }
}
