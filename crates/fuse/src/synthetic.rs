//! Requests that this process creates itself: for models of the kernel, and for tests that call a file system without a mount.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::{Payload, Pool};
use crate::call::CallContext;
use crate::limits::BEFORE_PAYLOAD;
use crate::pending::PendingRequests;
use crate::wire::{Groups, RequestHeader};
use crate::{Call, NodeId, Unique};

/// The credentials of a synthetic request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallerIds {
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

/// Creates requests, each with its own unique number.
pub struct SyntheticRequests {
    call_context: Arc<CallContext>,
    max_write: usize,
    last: AtomicU64,
}

impl SyntheticRequests {
    /// `max_write`: the longest payload, as INIT would negotiate it.
    pub fn new(max_write: usize) -> SyntheticRequests {
        let call_context = CallContext {
            pool: Arc::new(Pool::new(max_write)),
            pending: Arc::new(PendingRequests::new(None)),
        };
        SyntheticRequests {
            call_context: Arc::new(call_context),
            max_write,
            last: AtomicU64::new(0),
        }
    }

    /// A call that concerns `node`. Uniques are even, like the kernel's.
    pub fn call(&self, node: NodeId, caller: CallerIds) -> Call {
        let header = RequestHeader {
            unique: Unique(self.last.fetch_add(2, Ordering::Relaxed) + 2),
            node,
            uid: caller.uid,
            gid: caller.gid,
            pid: caller.pid,
            length: 0,
            opcode: 0,
            extensions: 0,
        };
        Call::new(&header, Groups::new(), self.call_context.clone(), None)
    }

    /// The payload of a WRITE.
    ///
    /// # Panics
    /// If `bytes` is longer than `max_write`.
    pub fn payload(&self, bytes: &[u8]) -> Payload {
        assert!(
            bytes.len() <= self.max_write,
            "the kernel splits longer writes"
        );
        let mut buffer = self.call_context.pool.take();
        buffer.read_target()[BEFORE_PAYLOAD..][..bytes.len()].copy_from_slice(bytes);
        Payload::new(buffer, bytes.len(), self.call_context.pool.clone())
    }

    /// Simulates a signal to the program that waits for this reply.
    pub fn interrupt(&self, unique: Unique) {
        self.call_context.pending.interrupt(unique);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, ReplyData, Result, op};
    use bytes::Bytes;

    struct Echo;

    impl FileSystem for Echo {
        async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
            assert_eq!((call.node, call.uid), (NodeId(7), 3));
            call.interrupted().await;
            Ok(op.data.len() as u32)
        }
    }

    #[tokio::test]
    async fn a_file_system_can_be_called_without_a_kernel() {
        let requests = SyntheticRequests::new(1 << 16);
        let caller = CallerIds {
            uid: 3,
            ..CallerIds::default()
        };
        let call = requests.call(NodeId(7), caller);
        let unique = call.unique;
        let write = op::Write {
            fh: crate::FileHandle(0),
            offset: 0,
            flags: crate::WriteFlags::empty(),
            lock_owner: None,
            open_flags: 0,
            data: requests.payload(b"bytes"),
        };
        let (written, ()) = tokio::join!(Echo.write(call, write), async {
            requests.interrupt(unique);
        });
        assert_eq!(written.unwrap(), 5);
        let data = ReplyData::from(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
        assert_eq!(data.into_bytes(), "abc");
    }
}
