//! Targets that are served elsewhere: their servers say every second that they are there, and where.

use super::{Far, OstPeer, Standing, State, TargetInfo, Targets, down};
use crate::limits::HEARD_OF;
use gupfs_names::KnownTarget;
use gupfs_proto::cluster::{Map, OpenTarget, Place, TargetWord};
use gupfs_proto::{Incarnation, MapEpoch, OstId, OwnerEpoch, Refusal};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// How a server elsewhere is reached.
pub trait Dial: Send + Sync + 'static {
    /// A peer that connects by itself, and again when its connection breaks. The same address gives the same line.
    fn dial(&self, address: &str) -> OstPeer;
}

/// What one word of a server changes.
pub struct Heard {
    /// To be remembered from now on, before the target is believed.
    pub remember: Option<KnownTarget>,
    pub verdict: Result<(), Refusal>,
}

impl Targets {
    /// Epochs of an owner are above those of its predecessors.
    pub fn begin_epochs(&self, owner: OwnerEpoch) {
        if self.dial.is_some() {
            self.epoch.store((owner.0 << 20) + 1, Release);
        }
    }

    pub fn epoch(&self) -> MapEpoch {
        MapEpoch(self.epoch.load(Acquire))
    }

    /// A server at `address` tells of one of its targets.
    ///
    /// # Errors
    /// `NotSupported` if this server uses the targets of its own process alone.
    pub fn here(&self, address: &str, word: &TargetWord) -> Result<Heard, Refusal> {
        let Some(dial) = &self.dial else {
            return Err(Refusal::NotSupported);
        };
        let ost = word.ost;
        self.place(ost, address, || dial.dial(address))?;
        let told = match &word.open {
            Ok(open) => Ok(info(ost, open)),
            Err(why) => Err(why.clone()),
        };
        if let (Ok(open), Some(state)) = (&word.open, self.list.lock().get_mut(&ost)) {
            state.space = Ok(open.space);
        }
        let heard = self.hear(ost, told);
        Ok(match heard {
            Ok(remember) => Heard {
                remember,
                verdict: Ok(()),
            },
            Err(refusal) => Heard {
                remember: None,
                verdict: Err(refusal),
            },
        })
    }

    /// Notes where a target is served.
    fn place(
        &self,
        ost: OstId,
        address: &str,
        dial: impl FnOnce() -> OstPeer,
    ) -> Result<(), Refusal> {
        let now = self.clock.boot();
        let mut list = self.list.lock();
        let state = list
            .get_mut(&ost)
            .ok_or_else(|| down(ost, "no target of this number was ever added"))?;
        match &mut state.far {
            Some(far) if far.address == address => far.heard = now,
            Some(far) if state.standing.is_good() && now.since(far.heard) < HEARD_OF => {
                // Two servers with one target: the one that is there keeps it.
                let why = format!("it is served at {} already", far.address);
                return Err(down(ost, why));
            }
            None if state.peer.is_some() => {
                return Err(down(ost, "the metadata server's own process serves it"));
            }
            _ => {
                state.peer = Some(dial());
                state.far = Some(Far {
                    address: address.to_string(),
                    heard: now,
                });
                self.epoch.fetch_add(1, AcqRel);
            }
        }
        Ok(())
    }

    /// Targets whose servers were not heard of for a while are expected to come back; new files go elsewhere.
    pub fn miss_the_silent(&self) {
        let now = self.clock.boot();
        for (ost, state) in self.list.lock().iter_mut() {
            if let Some(far) = &state.far
                && state.standing.is_good()
                && now.since(far.heard) >= HEARD_OF
            {
                tracing::warn!(%ost, address = far.address, "its server is silent");
                let why = format!("its server at {} is silent", far.address);
                state.standing = Standing::Expected(why);
            }
        }
    }

    pub fn map(&self) -> Map {
        let list = self.list.lock();
        Map {
            epoch: self.epoch(),
            targets: list
                .iter()
                .map(|(ost, state)| Place {
                    ost: *ost,
                    address: match (&state.far, &state.peer) {
                        (Some(far), _) => Some(far.address.clone()),
                        (None, Some(_)) => Some(String::new()),
                        (None, None) => None,
                    },
                })
                .collect(),
        }
    }

    /// A number for a target that is about to be made, the same for the same incarnation. The caller commits what is
    /// to be remembered before anybody is told.
    ///
    /// # Errors
    /// `NotSupported` if this server uses the targets of its own process alone, `NoSpace` when all numbers are in use.
    pub fn admit(&self, incarnation: Incarnation) -> Result<(OstId, Option<KnownTarget>), Refusal> {
        if self.dial.is_none() {
            return Err(Refusal::NotSupported);
        }
        let mut list = self.list.lock();
        let known = |state: &State| {
            state
                .remembered
                .is_some_and(|r| r.incarnation == incarnation)
        };
        if let Some((ost, _)) = list.iter().find(|(_, state)| known(state)) {
            return Ok((*ost, None));
        }
        let next = list
            .keys()
            .next_back()
            .map_or(0, |last| u32::from(last.0) + 1);
        let ost = OstId(u16::try_from(next).map_err(|_| Refusal::NoSpace)?);
        let remembered = KnownTarget {
            incarnation,
            stamp: 0,
            run: 0,
        };
        list.insert(
            ost,
            State {
                peer: None,
                far: None,
                remembered: Some(remembered),
                standing: Standing::Expected("its server has not been heard of".into()),
                space: Err("its space is not known yet".into()),
            },
        );
        Ok((ost, Some(remembered)))
    }

    /// No target can be used, and some may become usable soon: their servers have not been heard of, or are silent.
    pub fn are_all_expected(&self) -> bool {
        let list = self.list.lock();
        let expected = |state: &State| matches!(state.standing, Standing::Expected(_));
        list.values().all(|state| state.why_not().is_some()) && list.values().any(expected)
    }

    /// Returns when a target can be used, or none is expected any more.
    pub async fn one_is_usable(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.are_all_expected() {
                return;
            }
            changed.await;
        }
    }
}

impl Standing {
    fn is_good(&self) -> bool {
        matches!(self, Standing::Good)
    }
}

fn info(ost: OstId, open: &OpenTarget) -> TargetInfo {
    TargetInfo {
        ost,
        cluster: open.cluster,
        incarnation: open.incarnation,
        stamp: open.stamp,
        run: open.run,
    }
}
