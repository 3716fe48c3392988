//! Disconnects hosts whose client keys are revoked.

use gupfs_mds::MetaHandler;
use gupfs_platform::Platform;
use gupfs_rpc::{ClientKeyId, ClientKeyList, ConnectedPeer, ProvenKey};
use std::sync::Arc;
use std::time::Duration;

/// How often the connected keys are checked: a host stays connected at most so long after its key is revoked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Ends the connections and sessions of hosts whose keys are revoked. Does not return.
pub async fn disconnect_revoked_keys(
    platform: Platform,
    connected_peers: impl Fn() -> Vec<Arc<ConnectedPeer>> + Send + Sync + 'static,
    meta: Arc<MetaHandler>,
    keys: Arc<dyn ClientKeyList>,
) {
    loop {
        platform.clock.sleep(CHECK_INTERVAL).await;
        let is_revoked = |id: &ClientKeyId| keys.find(id).is_err();
        // The connections first, so that their hosts open no new sessions.
        for peer in connected_peers() {
            if let ProvenKey::Client { id, .. } = &peer.identity().key
                && is_revoked(id)
            {
                tracing::warn!(key = %id, from = peer.address(), "the client key of this host is revoked; closing its connection");
                peer.close();
            }
        }
        meta.end_revoked_sessions(&is_revoked).await;
    }
}
