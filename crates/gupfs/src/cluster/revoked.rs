//! Client keys that were revoked while their hosts are connected.

use super::MetaDoor;
use gupfs_platform::Platform;
use gupfs_rpc::{Caller, ClientKeys, ClientName, KeyKind};
use std::sync::Arc;
use std::time::Duration;

/// How long a host whose key is revoked stays connected at most.
const EVERY: Duration = Duration::from_secs(1);

/// Runs for ever: ends the connections and sessions of hosts whose keys are let in no more.
pub async fn watch_revoked(
    platform: Platform,
    callers: impl Fn() -> Vec<Arc<Caller>> + Send + Sync + 'static,
    meta: Arc<MetaDoor>,
    keys: Arc<dyn ClientKeys>,
) {
    loop {
        platform.clock.sleep(EVERY).await;
        let is_revoked = |of: &ClientName| keys.find(of).is_err();
        // The connections first: no session begins again meanwhile.
        for caller in callers() {
            if let KeyKind::Client { of, .. } = &caller.met().key
                && is_revoked(of)
            {
                tracing::warn!(key = %of, from = caller.from(), "its key is revoked; its connection is ended");
                caller.end();
            }
        }
        meta.end_sessions_of(&is_revoked).await;
    }
}
