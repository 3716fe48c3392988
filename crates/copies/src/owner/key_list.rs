//! The list of the clients' keys: every copy that counts has it, so that a revoked key stays revoked after a take-over.

use super::OwnerShared;
use super::strike::failure_of;
use crate::limits::{APPEND_TIMEOUT, KEY_LIST_MAX};
use crate::peers::{CopyCallError, CopyPeer};
use bytes::Bytes;
use futures_util::future::join_all;
use gupfs_proto::copy::CopyOp;

impl OwnerShared {
    /// Sends the list to the copies that count if it has changed; strikes those that do not take it.
    pub(super) async fn send_key_list(&self) {
        let Some(list) = self.read_key_list().await else {
            return;
        };
        if self.key_list.lock().as_ref() == Some(&list) {
            return;
        }
        let sent = self.counting().into_iter().map(|copy| {
            let list = list.clone();
            async move {
                let sent = self.give_key_list(&copy, list).await;
                (copy, sent)
            }
        });
        for (copy, sent) in join_all(sent).await {
            if let Err(error) = sent {
                let why = failure_of("take the list of the clients' keys", &error);
                if self.strike(&copy, &why).await.is_err() {
                    return;
                }
            }
        }
        *self.key_list.lock() = Some(list);
    }

    /// Gives a copy that is about to count the list.
    pub(super) async fn send_key_list_to(&self, copy: &CopyPeer) -> Result<(), CopyCallError> {
        match self.read_key_list().await {
            Some(list) => self.give_key_list(copy, list).await,
            None => Ok(()),
        }
    }

    async fn give_key_list(&self, copy: &CopyPeer, list: Bytes) -> Result<(), CopyCallError> {
        let owner = self.epoch;
        copy.call(CopyOp::KeyList { owner, list }, APPEND_TIMEOUT)
            .await?;
        Ok(())
    }

    /// The list of this host; None if it has none, or it cannot be read.
    async fn read_key_list(&self) -> Option<Bytes> {
        let files = self.files.clone();
        let read = self.platform.tasks.blocking(move || files.read_key_list());
        match read.await {
            Ok(list) => list.filter(|list| list.len() <= KEY_LIST_MAX),
            Err(error) => {
                tracing::warn!(
                    error,
                    "the list of the clients' keys cannot be read, and the copies do not get it"
                );
                None
            }
        }
    }
}
