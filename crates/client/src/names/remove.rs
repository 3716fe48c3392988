//! Removing and moving names. What loses its last one lives on while somebody knows it.

use crate::answer;
use crate::service::Client;
use gupfs_proto::meta::{Op, Removed, RenameHow};
use gupfs_proto::{Caller, InodeId, Name, Refusal};
use std::sync::Arc;

impl Client {
    pub async fn unlink(
        self: &Arc<Self>,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<Removed, Refusal> {
        let op = Op::Unlink {
            dir,
            name: name.clone(),
        };
        self.ask_removed(caller, op).await
    }

    pub async fn rmdir(
        self: &Arc<Self>,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<Removed, Refusal> {
        let op = Op::Rmdir {
            dir,
            name: name.clone(),
        };
        self.ask_removed(caller, op).await
    }

    pub async fn rename(
        self: &Arc<Self>,
        caller: &Caller,
        from: (InodeId, &Name),
        to: (InodeId, &Name),
        how: RenameHow,
    ) -> Result<Removed, Refusal> {
        let op = Op::Rename {
            from: from.0,
            name: from.1.clone(),
            to: to.0,
            new_name: to.1.clone(),
            how,
        };
        self.ask_removed(caller, op).await
    }

    async fn ask_removed(self: &Arc<Self>, caller: &Caller, op: Op) -> Result<Removed, Refusal> {
        let (moment, question) = (self.table.moment(), op.name());
        let mut removed = answer::removed(question, self.ask(caller, op).await?)?;
        if let Some(victim) = removed.victim
            && removed.orphan
        {
            let gone = self.ledger.lock().orphaned(victim);
            self.tell_gone(gone);
        }
        if let Some(attr) = removed.attr {
            removed.attr = Some(self.current(moment, attr).await?);
        }
        Ok(removed)
    }
}
