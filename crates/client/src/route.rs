//! Which peer answers.

use gupfs_platform::Clock;
use gupfs_proto::cluster::{self, Map};
use gupfs_proto::{MapEpoch, OstId, Refusal, data, meta};
use gupfs_rpc::Peer;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub type Mds = Peer<meta::Request, meta::Reply>;
pub type Ost = Peer<data::Request, data::Reply>;
pub type Cluster = Peer<cluster::Request, cluster::Reply>;

/// How long to wait before the map is asked for again, when a target's server has not been heard of yet.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// How targets that are served elsewhere are found.
pub trait Dial: Send + Sync + 'static {
    /// A peer that connects by itself, and again when its connection breaks. The same address gives the same line.
    fn dial(&self, address: &str) -> Ost;
}

pub struct Route {
    pub mds: Mds,
    osts: RwLock<Osts>,
    finder: Option<Finder>,
    /// There is a newer map than was known.
    newer: Notify,
}

struct Osts {
    epoch: MapEpoch,
    /// Each with its address, which is empty for one in this process.
    known: BTreeMap<OstId, (Arc<str>, Ost)>,
}

impl Osts {
    fn peer(&self, ost: OstId) -> Option<Ost> {
        self.known.get(&ost).map(|(_, peer)| peer.clone())
    }
}

struct Finder {
    cluster: Cluster,
    dial: Arc<dyn Dial>,
    clock: Clock,
    /// One asks for the map at a time.
    asking: tokio::sync::Mutex<()>,
}

impl Route {
    /// To targets that are all known now.
    pub fn new(mds: Mds, osts: Vec<(OstId, Ost)>) -> Route {
        let known = osts
            .into_iter()
            .map(|(ost, peer)| (ost, (Arc::from(""), peer)));
        Route {
            mds,
            osts: RwLock::new(Osts {
                epoch: MapEpoch(0),
                known: known.collect(),
            }),
            finder: None,
            newer: Notify::new(),
        }
    }

    /// To targets in this process, and others that the metadata server tells the places of.
    pub fn found(
        mds: Mds,
        near: Vec<(OstId, Ost)>,
        cluster: Cluster,
        dial: Arc<dyn Dial>,
        clock: Clock,
    ) -> Route {
        Route {
            finder: Some(Finder {
                cluster,
                dial,
                clock,
                asking: tokio::sync::Mutex::default(),
            }),
            ..Route::new(mds, near)
        }
    }

    /// The way to a target. `newest` is the newest map that is known to exist: with an older one the places are asked for
    /// before.
    ///
    /// # Errors
    /// `TargetDown` for a target that was never added. One whose server has not been heard of is waited for.
    pub async fn ost(&self, ost: OstId, newest: MapEpoch) -> Result<Ost, Refusal> {
        loop {
            let (epoch, peer) = {
                let osts = self.osts.read();
                (osts.epoch, osts.peer(ost))
            };
            let unknown = || Refusal::TargetDown {
                ost,
                why: "this client knows no such target".to_string(),
            };
            let Some(finder) = &self.finder else {
                return peer.ok_or_else(unknown);
            };
            match peer {
                Some(peer) if epoch >= newest => return Ok(peer),
                _ => {}
            }
            let Some(expected) = self.ask_for_map(finder, epoch).await? else {
                continue;
            };
            let found = self.osts.read().peer(ost);
            match found {
                Some(peer) => return Ok(peer),
                None if expected.contains(&ost) => finder.clock.sleep(ASK_AGAIN).await,
                None => return Err(unknown()),
            }
        }
    }

    /// Whether targets may come and go.
    pub fn is_found(&self) -> bool {
        self.finder.is_some()
    }

    /// A newer map than was known exists.
    pub fn newer_map(&self) {
        self.newer.notify_waiters();
    }

    /// Returns when the target is served elsewhere than when this was called.
    pub async fn moved(&self, ost: OstId, newest: impl Fn() -> MapEpoch) {
        let was = self.address(ost);
        loop {
            let mut newer = pin!(self.newer.notified());
            newer.as_mut().enable();
            // That the map cannot be had now is told by the call itself, or by the next.
            let _ = self.ost(ost, newest()).await;
            if self.address(ost) != was {
                return;
            }
            newer.await;
        }
    }

    /// Where a target is served, as far as this client has heard.
    pub fn address(&self, ost: OstId) -> Option<Arc<str>> {
        let osts = self.osts.read();
        osts.known.get(&ost).map(|(address, _)| address.clone())
    }

    /// Whether the newest map has another address for the target than `was`. False if the map cannot be had.
    pub async fn has_moved(&self, ost: OstId, was: Option<&str>) -> bool {
        let Some(finder) = &self.finder else {
            return false;
        };
        if self.address(ost).as_deref() == was {
            let epoch = self.osts.read().epoch;
            let _ = self.ask_for_map(finder, epoch).await;
        }
        self.address(ost).as_deref() != was
    }

    /// Gets the map; which targets are expected. None if somebody got a newer one than `had` meanwhile.
    async fn ask_for_map(
        &self,
        finder: &Finder,
        had: MapEpoch,
    ) -> Result<Option<Vec<OstId>>, Refusal> {
        let _asking = finder.asking.lock().await;
        if self.osts.read().epoch > had {
            return Ok(None);
        }
        let cluster::Answer::Map(map) = finder.cluster.call(cluster::Request::Map).await? else {
            return crate::answer::unexpected("map");
        };
        Ok(Some(self.adopt(finder, map)))
    }

    /// Lines to places that stay are kept.
    fn adopt(&self, finder: &Finder, map: Map) -> Vec<OstId> {
        let mut osts = self.osts.write();
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
                        let peer = finder.dial.dial(&address);
                        osts.known.insert(place.ost, (Arc::from(address), peer));
                    }
                }
            }
        }
        osts.epoch = map.epoch;
        expected
    }

    /// Every target.
    pub async fn all(&self, newest: MapEpoch) -> Result<Vec<OstId>, Refusal> {
        if let Some(finder) = &self.finder {
            let epoch = self.osts.read().epoch;
            if epoch == MapEpoch(0) || epoch < newest {
                self.ask_for_map(finder, epoch).await?;
            }
        }
        Ok(self.osts.read().known.keys().copied().collect())
    }
}
