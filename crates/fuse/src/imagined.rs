//! Requests that no kernel sent: for models of the kernel, and for tests that call a file system without a mount.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::buffer::{Payload, Pool};
use crate::lane::Kit;
use crate::limits::BEFORE_PAYLOAD;
use crate::waits::Waits;
use crate::wire::{Groups, Header};
use crate::{Call, NodeId, Unique};

/// Who asks, in a request that is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asker {
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

/// Makes up requests, each with a number of its own.
pub struct Imagined {
    kit: Arc<Kit>,
    max_write: usize,
    last: AtomicU64,
}

impl Imagined {
    /// `max_write`: the longest payload, as INIT would agree on it.
    pub fn new(max_write: usize) -> Imagined {
        let kit = Kit {
            pool: Arc::new(Pool::new(max_write)),
            waits: Arc::new(Waits::new(None)),
        };
        Imagined {
            kit: Arc::new(kit),
            max_write,
            last: AtomicU64::new(0),
        }
    }

    /// A call about `node`. Uniques are even, as the kernel's are.
    pub fn call(&self, node: NodeId, asker: Asker) -> Call {
        let header = Header {
            unique: Unique(self.last.fetch_add(2, Ordering::Relaxed) + 2),
            node,
            uid: asker.uid,
            gid: asker.gid,
            pid: asker.pid,
            length: 0,
            opcode: 0,
            extensions: 0,
        };
        Call::new(&header, Groups::new(), self.kit.clone(), None)
    }

    /// What a WRITE brings.
    ///
    /// # Panics
    /// When there is more than `max_write`.
    pub fn payload(&self, bytes: &[u8]) -> Payload {
        assert!(
            bytes.len() <= self.max_write,
            "the kernel splits longer writes"
        );
        let mut buffer = self.kit.pool.take();
        buffer.landing()[BEFORE_PAYLOAD..][..bytes.len()].copy_from_slice(bytes);
        Payload::new(buffer, bytes.len(), self.kit.pool.clone())
    }

    /// The program that waits for this answer gets a signal.
    pub fn interrupt(&self, unique: Unique) {
        self.kit.waits.interrupt(unique);
    }
}

impl crate::Data {
    /// All of it in one piece, as the kernel would have it.
    pub fn into_bytes(self) -> Bytes {
        use crate::values::Pieces;
        match self.0 {
            Pieces::None => Bytes::new(),
            Pieces::Static(bytes) => Bytes::from_static(bytes),
            Pieces::Vec(bytes) => bytes.into(),
            Pieces::Bytes(bytes) => bytes,
            Pieces::Scratch(bytes) => Bytes::copy_from_slice(&bytes),
            Pieces::Many(pieces) => pieces.concat().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, FileSystem, Result, op};

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
        let imagined = Imagined::new(1 << 16);
        let asker = Asker {
            uid: 3,
            ..Asker::default()
        };
        let call = imagined.call(NodeId(7), asker);
        let unique = call.unique;
        let write = op::Write {
            fh: crate::Handle(0),
            offset: 0,
            flags: crate::WriteFlags::empty(),
            lock_owner: None,
            open_flags: 0,
            data: imagined.payload(b"bytes"),
        };
        let (written, ()) = tokio::join!(Echo.write(call, write), async {
            imagined.interrupt(unique);
        });
        assert_eq!(written.unwrap(), 5);
        let data = Data::from(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
        assert_eq!(data.into_bytes(), "abc");
    }
}
