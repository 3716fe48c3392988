//! # relay: writes of mirrored files that this server passes on
//!
//! Owns   the connections to other object servers; which relayed writes this server's targets accept.
//! Never  decides what a missing reply means: the client does.
//! Enter  at `WriteRelay::relay` for each other member of a `MirroredWrite`; at `RelayTickets` for what other servers relay to this one.
//!
//! A relayed write has the credentials of the client, so the other server authorizes it as if the client had sent it.

mod tickets;

pub use tickets::RelayTickets;

use gupfs_platform::{BootTime, Clock, Platform, Tasks};
use gupfs_proto::cluster::{ClusterMap, ClusterReply, ClusterReplyBody, ClusterRequest};
use gupfs_proto::data::{DataReply, DataRequest, MemberWritten, RelayOutcome};
use gupfs_proto::limits::RELAY_PATIENCE;
use gupfs_proto::{FsError, MapEpoch, OstId};
use gupfs_rpc::{DialOss, Peer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Relayed writes under way to one server; further ones wait. Of 256 KiB each they are half of the bytes that a server takes over a connection.
const RELAYS_PER_SERVER: usize = 128;

/// The cluster map is fetched at most so often, whatever map epochs requests name.
const MAP_PAUSE: Duration = Duration::from_millis(300);

/// How long a relay waits for a newer map before it uses the one that it has.
const MAP_PATIENCE: Duration = Duration::from_millis(200);

/// Passes writes on to other object servers.
pub struct WriteRelay {
    mds: Peer<ClusterRequest, ClusterReply>,
    dial: Arc<dyn DialOss>,
    clock: Clock,
    tasks: Tasks,
    servers: Mutex<KnownServers>,
    /// One fetch of the map at a time.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KnownServers {
    epoch: MapEpoch,
    /// When the map was fetched last.
    fetched: Option<BootTime>,
    by_ost: BTreeMap<OstId, Arc<OtherServer>>,
}

struct OtherServer {
    address: String,
    peer: Peer<DataRequest, DataReply>,
    permits: Arc<Semaphore>,
}

impl WriteRelay {
    /// No connection yet; each is made for the first write that is relayed there.
    pub fn new(
        mds: Peer<ClusterRequest, ClusterReply>,
        dial: Arc<dyn DialOss>,
        platform: &Platform,
    ) -> Arc<WriteRelay> {
        Arc::new(WriteRelay {
            mds,
            dial,
            clock: platform.clock.clone(),
            tasks: platform.tasks.clone(),
            servers: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    /// Sends a write to the server of its target; takes `RELAY_PATIENCE` at most.
    pub async fn relay(&self, request: DataRequest) -> RelayOutcome {
        let until = self.clock.boot() + RELAY_PATIENCE;
        let late = || RelayOutcome::Refused(FsError::TimedOut(format!("ost{}", request.ost)));
        let server = tokio::select! {
            biased;
            server = self.server_of(request.ost, request.map_epoch) => server,
            // The target refuses the write if it has moved since.
            () = self.clock.sleep(MAP_PATIENCE) => self.known(request.ost, MapEpoch(0)).ok_or_else(
                || FsError::TimedOut("the cluster map".into()),
            ),
        };
        let server = match server {
            Ok(server) => server,
            Err(error) => return RelayOutcome::Refused(error),
        };
        let permit = tokio::select! {
            biased;
            permit = server.permits.clone().acquire_owned() => permit,
            () = self.clock.sleep_until(until) => return late(),
        };
        let permit = permit.expect("the semaphore is never closed");
        if self.clock.boot() >= until {
            return late();
        }
        let (sender, outcome) = oneshot::channel();
        // In a task of its own: a call that is dropped ends the connection, which others share. Tickets make a late write harmless.
        self.tasks.spawn("relayed write", async move {
            let _permit = permit;
            let _is_late = sender.send(outcome_of(server.peer.call(request).await));
        });
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or(RelayOutcome::Unknown),
            () = self.clock.sleep_until(until) => RelayOutcome::Unknown,
        }
    }

    /// The server of a target, by a map of this epoch or a newer one, unless the map was fetched just now.
    async fn server_of(&self, ost: OstId, newest: MapEpoch) -> Result<Arc<OtherServer>, FsError> {
        if let Some(server) = self.known(ost, newest) {
            return Ok(server);
        }
        let _fetching = self.fetching.lock().await;
        if let Some(server) = self.known(ost, newest) {
            return Ok(server);
        }
        let now = self.clock.boot();
        let fetched = self.servers.lock().fetched;
        if fetched.is_none_or(|at| now.since(at) >= MAP_PAUSE) {
            let reply = self.mds.call(ClusterRequest::Map).await?;
            let ClusterReplyBody::Map(map) = reply else {
                let why = "the reply to 'map' has the wrong type";
                return Err(FsError::Malformed(why.into()));
            };
            self.adopt(map, now);
        }
        let server = self.servers.lock().by_ost.get(&ost).cloned();
        server.ok_or_else(|| FsError::TargetDown {
            ost,
            reason: "this object server knows no address of it".into(),
        })
    }

    fn known(&self, ost: OstId, newest: MapEpoch) -> Option<Arc<OtherServer>> {
        let servers = self.servers.lock();
        let server = servers.by_ost.get(&ost)?;
        (servers.epoch >= newest).then(|| server.clone())
    }

    /// Connections to addresses that stay are kept.
    fn adopt(&self, map: ClusterMap, now: BootTime) {
        let mut servers = self.servers.lock();
        let former = std::mem::take(&mut servers.by_ost);
        let mut by_address: BTreeMap<String, Arc<OtherServer>> = former
            .into_values()
            .map(|server| (server.address.clone(), server))
            .collect();
        for place in map.targets {
            let Some(address) = place.address else {
                continue;
            };
            let server = by_address.entry(address.clone()).or_insert_with(|| {
                Arc::new(OtherServer {
                    peer: self.dial.dial(&address),
                    address,
                    permits: Arc::new(Semaphore::new(RELAYS_PER_SERVER)),
                })
            });
            servers.by_ost.insert(place.ost, server.clone());
        }
        (servers.epoch, servers.fetched) = (map.epoch, Some(now));
    }
}

/// What a reply says. An error that the target has sent ends the write; without any reply it may be executed later.
fn outcome_of(reply: DataReply) -> RelayOutcome {
    match reply.map(MemberWritten::of) {
        Ok(Some(written)) => RelayOutcome::Written(written),
        Ok(None) | Err(FsError::TimedOut(_)) => RelayOutcome::Unknown,
        Err(error) => RelayOutcome::Refused(error),
    }
}

#[cfg(test)]
mod tests;
