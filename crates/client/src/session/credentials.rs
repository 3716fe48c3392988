//! Credentials for OSTs: from the cache, or from the metadata server.

use super::MdsSession;
use super::capabilities::needed_rights;
use crate::reply;
use gupfs_proto::capability::{DataCredentials, Rights};
use gupfs_proto::data::DataOp;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, InodeId, OstId};

impl MdsSession {
    /// The credentials of an operation at this OST.
    pub async fn credentials_for(
        &self,
        ost: OstId,
        op: &DataOp,
    ) -> Result<DataCredentials, FsError> {
        if let Some(credentials) = self.capabilities.credentials(ost, op) {
            return Ok(credentials);
        }
        if let Some((ino, rights)) = needed_rights(op) {
            self.fetch_file_capability(ino, rights).await?;
        }
        // Still none: the file has no object on this OST any more.
        self.capabilities.credentials(ost, op).ok_or(FsError::Stale)
    }

    /// Fetches the capability that has expired according to the OST.
    pub async fn refresh_credentials(&self, op: &DataOp) -> Result<(), FsError> {
        match needed_rights(op) {
            Some((ino, rights)) => self.fetch_file_capability(ino, rights).await,
            None => self.fetch_session_capability().await,
        }
    }

    async fn fetch_file_capability(&self, ino: InodeId, rights: Rights) -> Result<(), FsError> {
        let op = MetaOp::IssueCapability { ino, rights };
        match self.call(&Caller::root(), op).await? {
            MetaReplyBody::CapabilityIssued {
                session_capability,
                capability,
            } => {
                self.capabilities.put_session(session_capability);
                self.capabilities.put_file(ino, capability);
                Ok(())
            }
            _ => reply::unexpected("issue_capability"),
        }
    }

    async fn fetch_session_capability(&self) -> Result<(), FsError> {
        match self.call(&Caller::root(), MetaOp::Renew).await? {
            MetaReplyBody::Renewed { session_capability } => {
                self.capabilities.put_session(session_capability);
                Ok(())
            }
            _ => reply::unexpected("renew"),
        }
    }
}
