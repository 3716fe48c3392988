//! The client's side of its connection to the metadata server: callbacks, which may arrive before the client exists, and the
//! renewal of the session after each reconnect.

use crate::client::Client;
use gupfs_proto::{FsError, callback};
use gupfs_rpc::{ClientConnection, Service};
use std::sync::{Arc, OnceLock, Weak};

/// Answers the metadata server's callbacks: with the client, and before `set_client` as a client without open files. It does not keep the
/// client: the client has the connection that has this.
#[derive(Default)]
pub struct ClientCallbacks(OnceLock<Weak<Client>>);

impl ClientCallbacks {
    /// From now on this client answers the callbacks.
    pub fn set_client(&self, client: &Arc<Client>) {
        // Set once: there is one client.
        let _ = self.0.set(Arc::downgrade(client));
    }
}

impl Service<callback::CallbackRequest, callback::CallbackReply> for ClientCallbacks {
    async fn handle(
        self: Arc<Self>,
        request: callback::CallbackRequest,
    ) -> callback::CallbackReply {
        match self.0.get().and_then(Weak::upgrade) {
            Some(client) => client.handle(request).await,
            // The client has opened no file yet, or has ended its session: it holds no write lease.
            None => match request {
                callback::CallbackRequest::CheckOpen { inodes } => {
                    Ok(callback::CallbackReplyBody::IsOpen(vec![
                        false;
                        inodes.len()
                    ]))
                }
                callback::CallbackRequest::Glimpse { .. }
                | callback::CallbackRequest::Revoke { .. }
                | callback::CallbackRequest::Downgrade { .. }
                | callback::CallbackRequest::LeaveOut { .. }
                | callback::CallbackRequest::TargetsStop { .. }
                | callback::CallbackRequest::LockGranted { .. } => {
                    Ok(callback::CallbackReplyBody::Done)
                }
                // The session has asked for leases; the server sends this again.
                callback::CallbackRequest::RevokeLeases { .. } => Err(FsError::Overloaded),
            },
        }
    }
}

/// Runs until its task is stopped. After each reconnect the client contacts the server at once: other clients may wait for this
/// client's reply to a callback.
pub async fn renew_after_reconnect(connection: Arc<ClientConnection>, client: Arc<Client>) {
    let mut number = connection.connection_number();
    loop {
        connection.wait_connection_changed(number).await;
        number = connection.connection_number();
        if number != 0 {
            client.connection_restored();
        }
    }
}
