//! Which peer serves the metadata server's and each target's requests.

use gupfs_platform::Clock;
use gupfs_proto::cluster::{self, ClusterMap};
use gupfs_proto::{FsError, MapEpoch, OstId, data, meta};
use gupfs_rpc::{DialOss, Peer};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub type MdsPeer = Peer<meta::MetaRequest, meta::MetaReply>;
pub type OstPeer = Peer<data::DataRequest, data::DataReply>;
pub type ClusterPeer = Peer<cluster::ClusterRequest, cluster::ClusterReply>;

/// Pause before the client fetches the map again, when the map has no address for a target yet.
const MAP_RETRY_PAUSE: Duration = Duration::from_millis(300);

const NOT_IN_MAP: &str =
    "it is not in the cluster map: it was declared lost (`gupfs ost lost`), or was never added";

pub struct Route {
    pub mds: MdsPeer,
    osts: RwLock<OstTable>,
    map_source: Option<MapSource>,
    /// Notified when a newer map exists than the one known here.
    map_changed: Notify,
}

struct OstTable {
    epoch: MapEpoch,
    /// Each with its address, which is empty for a target in this process.
    known: BTreeMap<OstId, (Arc<str>, OstPeer)>,
    /// All targets of the map, also those without an address.
    listed: BTreeSet<OstId>,
}

impl OstTable {
    fn peer(&self, ost: OstId) -> Option<OstPeer> {
        self.known.get(&ost).map(|(_, peer)| peer.clone())
    }
}

struct MapSource {
    cluster: ClusterPeer,
    dial: Arc<dyn DialOss>,
    clock: Clock,
    /// One fetch of the map at a time.
    fetching: tokio::sync::Mutex<()>,
}

impl Route {
    /// A route to targets that are all known now.
    pub fn new(mds: MdsPeer, osts: Vec<(OstId, OstPeer)>) -> Route {
        let known = osts
            .into_iter()
            .map(|(ost, peer)| (ost, (Arc::from(""), peer)));
        Route {
            mds,
            osts: RwLock::new(OstTable {
                epoch: MapEpoch(0),
                known: known.collect(),
                listed: BTreeSet::new(),
            }),
            map_source: None,
            map_changed: Notify::new(),
        }
    }

    /// A route to targets in this process, and to others whose addresses are in the metadata server's map.
    pub fn with_map(
        mds: MdsPeer,
        near: Vec<(OstId, OstPeer)>,
        cluster: ClusterPeer,
        dial: Arc<dyn DialOss>,
        clock: Clock,
    ) -> Route {
        Route {
            map_source: Some(MapSource {
                cluster,
                dial,
                clock,
                fetching: tokio::sync::Mutex::default(),
            }),
            ..Route::new(mds, near)
        }
    }

    /// The peer that serves a target. `newest` is the newest map that is known to exist: if this route has an older one, it
    /// fetches the map first.
    ///
    /// # Errors
    /// `TargetDown` for a target that was never added, or was declared lost. For a target that the map expects but has no address of, the call waits.
    pub async fn peer(&self, ost: OstId, newest: MapEpoch) -> Result<OstPeer, FsError> {
        loop {
            let (epoch, peer) = {
                let osts = self.osts.read();
                (osts.epoch, osts.peer(ost))
            };
            let unknown = || FsError::TargetDown {
                ost,
                reason: NOT_IN_MAP.to_string(),
            };
            let Some(map_source) = &self.map_source else {
                return peer.ok_or_else(unknown);
            };
            match peer {
                Some(peer) if epoch >= newest => return Ok(peer),
                _ => {}
            }
            let Some(expected) = self.fetch_map(map_source, epoch).await? else {
                continue;
            };
            let found = self.osts.read().peer(ost);
            match found {
                Some(peer) => return Ok(peer),
                None if expected.contains(&ost) => map_source.clock.sleep(MAP_RETRY_PAUSE).await,
                None => return Err(unknown()),
            }
        }
    }

    /// Whether the route follows the cluster map, so that targets may be added and move.
    pub fn uses_map(&self) -> bool {
        self.map_source.is_some()
    }

    /// A newer map than the known one exists.
    pub fn notify_newer_map(&self) {
        self.map_changed.notify_waiters();
    }

    /// Returns when the target has another address than when this was called.
    pub async fn wait_until_moved(&self, ost: OstId, newest: impl Fn() -> MapEpoch) {
        let was = self.address(ost);
        loop {
            let mut map_changed = pin!(self.map_changed.notified());
            map_changed.as_mut().enable();
            // If the map cannot be fetched now, the call itself or the next one returns the error.
            let _ = self.peer(ost, newest()).await;
            if self.address(ost) != was {
                return;
            }
            map_changed.await;
        }
    }

    /// The target's address in the map that this client has.
    pub fn address(&self, ost: OstId) -> Option<Arc<str>> {
        let osts = self.osts.read();
        osts.known.get(&ost).map(|(address, _)| address.clone())
    }

    /// The other targets at this target's address, which are silent if its server is. None of a target in this process.
    pub fn others_on_server(&self, ost: OstId) -> Vec<OstId> {
        let osts = self.osts.read();
        let Some((address, _)) = osts.known.get(&ost) else {
            return Vec::new();
        };
        let others = (osts.known.iter()).filter(|(other, _)| **other != ost);
        let there = others.filter(|(_, (at, _))| !address.is_empty() && at == address);
        there.map(|(other, _)| *other).collect()
    }

    /// Whether the target's server is on this host: no link is on the way to it.
    pub fn is_on_this_host(&self, ost: OstId) -> bool {
        let osts = self.osts.read();
        let known = osts.known.get(&ost);
        known.is_none_or(|(address, _)| is_loopback(address))
    }

    /// Whether all known targets are on this host.
    pub fn are_all_on_this_host(&self) -> bool {
        let osts = self.osts.read();
        let mut addresses = osts.known.values().map(|(address, _)| address);
        addresses.all(|address| is_loopback(address))
    }

    /// Whether the map that this client has does not list the target: no retry will find it.
    pub fn is_gone(&self, ost: OstId) -> bool {
        let osts = self.osts.read();
        self.uses_map() && osts.epoch > MapEpoch(0) && !osts.listed.contains(&ost)
    }

    /// Whether the newest map has another address for the target than `was`. False if the map cannot be fetched.
    pub async fn has_moved(&self, ost: OstId, was: Option<&str>) -> bool {
        let Some(map_source) = &self.map_source else {
            return false;
        };
        if self.address(ost).as_deref() == was {
            let epoch = self.osts.read().epoch;
            let _ = self.fetch_map(map_source, epoch).await;
        }
        self.address(ost).as_deref() != was
    }

    /// Fetches the map; returns the targets that it expects without an address. None if another task has fetched a newer one than
    /// `had` meanwhile.
    async fn fetch_map(
        &self,
        map_source: &MapSource,
        had: MapEpoch,
    ) -> Result<Option<Vec<OstId>>, FsError> {
        let _fetching = map_source.fetching.lock().await;
        if self.osts.read().epoch > had {
            return Ok(None);
        }
        let cluster::ClusterReplyBody::Map(map) = map_source
            .cluster
            .call(cluster::ClusterRequest::Map)
            .await?
        else {
            return crate::reply::unexpected("map");
        };
        Ok(Some(self.adopt(map_source, map)))
    }

    /// Connections to unchanged addresses are kept; targets that the map does not list any more are dropped.
    fn adopt(&self, map_source: &MapSource, map: ClusterMap) -> Vec<OstId> {
        let mut osts = self.osts.write();
        let listed: BTreeSet<OstId> = map.targets.iter().map(|place| place.ost).collect();
        osts.known.retain(|ost, _| {
            let stays = listed.contains(ost);
            if !stays {
                tracing::error!(%ost, "the metadata server does not know this target any more: reads and writes of bytes there fail with EIO");
            }
            stays
        });
        let mut expected = Vec::new();
        for place in map.targets {
            match place.address {
                None => expected.push(place.ost),
                Some(address) => {
                    let stays = osts
                        .known
                        .get(&place.ost)
                        .is_some_and(|(known, _)| **known == *address);
                    if !stays {
                        let peer = map_source.dial.dial(&address);
                        osts.known.insert(place.ost, (Arc::from(address), peer));
                    }
                }
            }
        }
        osts.listed = listed;
        osts.epoch = map.epoch;
        expected
    }

    /// Every target.
    ///
    /// # Errors
    /// The metadata server's, when the map must be fetched.
    pub async fn all(&self, newest: MapEpoch) -> Result<Vec<OstId>, FsError> {
        if let Some(map_source) = &self.map_source {
            let epoch = self.osts.read().epoch;
            if epoch == MapEpoch(0) || epoch < newest {
                self.fetch_map(map_source, epoch).await?;
            }
        }
        Ok(self.osts.read().known.keys().copied().collect())
    }
}

/// Whether an address is of this host, or of this process.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.is_empty() || host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn loopback_addresses_are_of_this_host() {
        for address in [
            "",
            "127.0.0.1:7701",
            "127.3.2.1:1",
            "[::1]:7701",
            "localhost:7701",
        ] {
            assert!(is_loopback(address), "{address}");
        }
        for address in [
            "10.0.0.2:7701",
            "[fd00::2]:7701",
            "oss1:7701",
            "128.0.0.1:1",
        ] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
