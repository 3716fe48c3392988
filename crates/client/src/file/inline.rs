//! Writes to files so small that they live in their inode.

use super::table::File;
use super::write::WriteDone;
use crate::answer;
use crate::metrics::Counters;
use crate::service::Client;
use bytes::Bytes;
use gupfs_proto::limits::INLINE_MAX;
use gupfs_proto::meta::{Answer, Op, WriteAt};
use gupfs_proto::{Caller, Refusal};

/// Whether a write that ends at `end` should be tried in the inode. One that fills it to its last byte is taken for
/// the first of more (stdio writes 4 KiB at a time): moving its bytes out again would cost a sync.
pub fn fits(end: u64) -> bool {
    end < INLINE_MAX.0
}

impl Client {
    /// None when the server says that the bytes do not fit. The caller has the whole file for itself.
    pub(super) async fn write_inline(
        &self,
        inode: &File,
        at: WriteAt,
        data: &Bytes,
        kill_privileges: bool,
    ) -> Result<Option<WriteDone>, Refusal> {
        let _telling = inode.telling.lock().await;
        let op = Op::WriteInline {
            ino: inode.ino,
            at,
            data: data.clone(),
            kill_privileges,
        };
        let attr = match self.ask(&Caller::root(), op).await? {
            Answer::Outgrown => return Ok(None),
            Answer::Attr(attr) => attr,
            Answer::Opened(opened) => opened.attr,
            _ => return answer::unexpected("write_inline"),
        };
        let len = data.len() as u64;
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => attr.size - len,
        };
        let mut state = inode.state();
        state.wrote_inline(offset, data, attr);
        state.took_privileges(kill_privileges);
        Counters::add(&self.counters.inline_writes, 1);
        Ok(Some(WriteDone {
            written: len,
            offset,
            size: attr.size,
        }))
    }
}
