//! Making names. Every entry given counts as known by the caller until `Client::forget`.

use crate::service::Client;
use gupfs_proto::meta::{Make, Op};
use gupfs_proto::{Attr, Caller, FileKind, InodeId, Name, Refusal};

impl Client {
    pub async fn mkdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        make: Make,
    ) -> Result<Attr, Refusal> {
        let op = Op::Mkdir {
            dir,
            name: name.clone(),
            make,
        };
        self.ask_entry(caller, op).await
    }

    /// A fifo, socket, device, or an empty regular file.
    pub async fn mknod(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        kind: FileKind,
        rdev: u32,
        make: Make,
    ) -> Result<Attr, Refusal> {
        let op = Op::Mknod {
            dir,
            name: name.clone(),
            kind,
            rdev,
            make,
        };
        self.ask_entry(caller, op).await
    }

    pub async fn symlink(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        target: &[u8],
    ) -> Result<Attr, Refusal> {
        let op = Op::Symlink {
            dir,
            name: name.clone(),
            target: target.to_vec(),
        };
        self.ask_entry(caller, op).await
    }

    /// Another name; of a file without one, its first.
    pub async fn link(
        &self,
        caller: &Caller,
        ino: InodeId,
        dir: InodeId,
        name: &Name,
    ) -> Result<Attr, Refusal> {
        let op = Op::Link {
            ino,
            dir,
            name: name.clone(),
        };
        let attr = self.ask_entry(caller, op).await?;
        self.ledger.lock().named(ino);
        Ok(attr)
    }
}
