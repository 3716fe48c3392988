//! What all operations of one connection share.

use crate::connect::ClusterSession;
use crate::host_rules::HostRules;
use gupfs_client::Client;
use gupfs_platform::{Clock, Tasks};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A session, and how its operations run.
pub(crate) struct SharedSession {
    pub client: Arc<Client>,
    /// None above a client in this process.
    pub session: Option<ClusterSession>,
    pub tasks: Tasks,
    pub clock: Clock,
    /// Where operations go on whose futures were dropped. A drop may happen on a thread without a runtime.
    pub runtime: tokio::runtime::Handle,
    pub deadline: Option<Duration>,
    pub rules: HostRules,
}

impl SharedSession {
    /// Starts a task from any thread.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let _in_runtime = self.runtime.enter();
        self.tasks.spawn(name, task);
    }

    /// The servers that a call that missed its deadline waits for.
    pub fn unreachable_servers(&self) -> String {
        match &self.session {
            Some(session) => session.unreachable_servers(),
            None => "the servers".into(),
        }
    }
}
