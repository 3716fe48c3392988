//! Requests about the cluster: what this process runs answers for its status, its metadata server for the rest.

use super::Parts;
use super::status::{self, Audience};
use gupfs_mds::Mds;
use gupfs_proto::FsError;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, ClusterRequest};
use gupfs_proto::copy::CopiesChange;
use gupfs_rpc::Service;
use std::sync::{Arc, Weak};

pub struct ClusterHandler {
    /// Weak: the parts own the server that has this handler.
    parts: Weak<Parts>,
}

impl ClusterHandler {
    pub fn new(parts: &Arc<Parts>) -> Arc<ClusterHandler> {
        Arc::new(ClusterHandler {
            parts: Arc::downgrade(parts),
        })
    }

    /// None in a process that does not serve the metadata: it replies to status requests only.
    fn mds(&self) -> Option<Arc<Mds>> {
        self.parts.upgrade()?.mds.get().cloned()
    }

    async fn status(&self) -> ClusterReply {
        let Some(parts) = self.parts.upgrade() else {
            return Err(FsError::Interrupted);
        };
        let answer = status::of(&parts, Audience::Others).await;
        Ok(ClusterReplyBody::Status {
            text: answer.text,
            json: answer.status.to_string(),
        })
    }

    /// Where the metadata has copies: what this process knows of them.
    fn copies(&self) -> ClusterReply {
        let parts = self.parts.upgrade().ok_or(FsError::Interrupted)?;
        let copy = parts.copy.as_ref().ok_or(FsError::NotSupported)?;
        let report = copy.report(parts.ownership.get().map(|ownership| &**ownership));
        // It has not read the register yet.
        Ok(ClusterReplyBody::Copies(report.ok_or(FsError::Overloaded)?))
    }

    async fn change_copies(&self, change: &CopiesChange) -> ClusterReply {
        let parts = self.parts.upgrade().ok_or(FsError::Interrupted)?;
        let ownership = parts.ownership.get().ok_or(FsError::NotSupported)?;
        tracing::info!(
            ?change,
            "an administrator changes the copies of the metadata"
        );
        match ownership.administer(change).await {
            Ok(()) => self.copies(),
            Err(error) => Ok(ClusterReplyBody::ChangeRefused {
                why: error.to_string(),
            }),
        }
    }
}

impl Service<ClusterRequest, ClusterReply> for ClusterHandler {
    async fn handle(self: Arc<Self>, request: ClusterRequest) -> ClusterReply {
        match (request, self.mds()) {
            (ClusterRequest::Status, _) => self.status().await,
            (ClusterRequest::Copies, _) => self.copies(),
            (ClusterRequest::ChangeCopies { change }, _) => self.change_copies(&change).await,
            (request, Some(mds)) => mds.handle(request).await,
            (_, None) => Err(FsError::NotSupported),
        }
    }
}
