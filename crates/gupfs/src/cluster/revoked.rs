//! Client keys that were revoked while their hosts are connected.

use gupfs_mds::MetaHandler;
use gupfs_platform::Platform;
use gupfs_rpc::{ClientKeyId, ClientKeyList, ConnectedPeer, ProvenKey};
use std::sync::Arc;
use std::time::Duration;

/// How long a host whose key is revoked stays connected at most.
const EVERY: Duration = Duration::from_secs(1);

/// Runs for ever: ends the connections and sessions of hosts whose keys are let in no more.
pub async fn watch_revoked(
    platform: Platform,
    callers: impl Fn() -> Vec<Arc<ConnectedPeer>> + Send + Sync + 'static,
    meta: Arc<MetaHandler>,
    keys: Arc<dyn ClientKeyList>,
) {
    loop {
        platform.clock.sleep(EVERY).await;
        let is_revoked = |of: &ClientKeyId| keys.find(of).is_err();
        // The connections first: no session begins again meanwhile.
        for caller in callers() {
            if let ProvenKey::Client { id: of, .. } = &caller.identity().key
                && is_revoked(of)
            {
                tracing::warn!(key = %of, from = caller.address(), "its key is revoked; its connection is ended");
                caller.close();
            }
        }
        meta.end_revoked_sessions(&is_revoked).await;
    }
}
