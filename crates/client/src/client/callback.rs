//! Callbacks from the metadata server: a glimpse (report a leased file's attributes), a revoke (release the lease), a
//! downgrade (let others write beside this client), stale members of a mirrored file, which removed files are open here, the grant of a lock that this client waits for, and the revocation of leases on metadata.

use super::Client;
use gupfs_proto::FsError;
use gupfs_proto::callback::{CallbackReply, CallbackReplyBody, CallbackRequest};
use gupfs_proto::lease::LeaseKey;
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<CallbackRequest, CallbackReply> for Client {
    /// Runs on its own task: the server may stop waiting for the reply, and a started attribute report must finish.
    async fn handle(self: Arc<Self>, request: CallbackRequest) -> CallbackReply {
        tracing::trace!(target: "walk", file = file!(), "handle");
        let client = self.clone();
        let handled = self
            .tasks
            .spawn("handle a callback of the metadata server", async move {
                client.handle_callback(request).await
            });
        handled
            .await
            .unwrap_or_else(|ended| Err(FsError::TimedOut(ended.to_string())))
    }
}

impl Client {
    async fn handle_callback(&self, request: CallbackRequest) -> CallbackReply {
        match request {
            CallbackRequest::Glimpse { ino } => {
                self.opens.wait_for_grants(ino).await;
                self.files.leases.answer_glimpse(ino).await?
            }
            CallbackRequest::Revoke { ino } => {
                self.opens.wait_for_grants(ino).await;
                self.files.leases.answer_revoke(ino).await?
            }
            CallbackRequest::Downgrade { ino } => {
                self.opens.wait_for_grants(ino).await;
                self.files.leases.answer_downgrade(ino).await?
            }
            CallbackRequest::LeaveOut { ino, ost } => {
                self.files.leases.leave_out_members(ino, ost);
            }
            CallbackRequest::TargetsStop { osts } => {
                tracing::info!(?osts, "targets are about to be stopped");
                self.files.leases.expect_stop(&osts);
            }
            CallbackRequest::LockGranted {
                session,
                instance,
                acquire,
                grant_seq,
            } => self
                .lock_table
                .apply_grant(session, instance, acquire, grant_seq),
            CallbackRequest::RevokeLeases { revocation, .. } => {
                for key in &revocation.keys {
                    if let LeaseKey::Data(ino) = key {
                        self.files.leases.note_members_changed(*ino);
                    }
                }
                // Of whichever session: what is dropped needlessly is read again.
                self.mds.revoke_leases(&revocation).await;
            }
            CallbackRequest::CheckOpen { inodes } => {
                return Ok(CallbackReplyBody::IsOpen(
                    self.opens.which_are_open(&inodes).await,
                ));
            }
        }
        Ok(CallbackReplyBody::Done)
    }
}
