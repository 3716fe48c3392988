//! Targets that are served elsewhere: their servers say every second that they are there, and where.

use super::judge::{Verdict, judge};
use super::{Far, OstPeer, Standing, State, TargetInfo, Targets, down};
use crate::limits::HEARD_OF;
use gupfs_names::KnownTarget;
use gupfs_proto::capability::Capability;
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
    /// To be remembered from now on.
    pub remember: Option<KnownTarget>,
    /// It is not who it was: nobody may believe its bytes.
    pub refused: Option<String>,
}

impl Heard {
    fn nothing() -> Heard {
        Heard {
            remember: None,
            refused: None,
        }
    }
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

    /// A server at `address` tells of one of its targets. Who is not believed changes nothing about where the target is.
    ///
    /// # Errors
    /// `NotSupported` if this server uses the targets of its own process alone, `TargetDown` for one that was never added.
    pub fn here(&self, address: &str, word: &TargetWord) -> Result<Heard, Refusal> {
        let Some(dial) = &self.dial else {
            return Err(Refusal::NotSupported);
        };
        let ost = word.ost;
        let mut list = self.list.lock();
        let state = list
            .get_mut(&ost)
            .ok_or_else(|| down(ost, "no target of this number was ever added"))?;
        if state.far.is_none() && state.peer.is_some() {
            return Err(down(ost, "the metadata server's own process serves it"));
        }
        let open = match &word.open {
            Ok(open) => open,
            Err(why) => {
                // Another's copy of it that cannot be opened says nothing about the one that is known.
                if state.far.as_ref().is_none_or(|far| far.address == address) {
                    state.standing = Standing::Down(why.clone());
                    self.changed.notify_waiters();
                }
                return Ok(Heard::nothing());
            }
        };
        let accept = self.accept_loss && !state.standing.is_good();
        let verdict = judge(self.cluster, state.remembered, &info(ost, open), accept);
        let remember = match verdict {
            Verdict::Good(remember) => remember,
            Verdict::Refused(why) => {
                let is_known_here = state.far.as_ref().is_none_or(|far| far.address == address);
                if is_known_here {
                    state.standing = Standing::Refused(why.clone());
                    self.changed.notify_waiters();
                }
                return Ok(Heard {
                    remember: None,
                    refused: Some(why),
                });
            }
        };
        let now = self.clock.boot();
        match &mut state.far {
            Some(far) if far.address == address => far.heard = now,
            // The same target, opened again elsewhere: its directory has one lock, so the former opening is over.
            _ => {
                state.peer = Some(dial.dial(address));
                state.far = Some(Far {
                    address: address.to_string(),
                    heard: now,
                });
                self.epoch.fetch_add(1, AcqRel);
            }
        }
        state.standing = Standing::Good;
        state.remembered = remember.or(state.remembered);
        state.space = Ok(open.space);
        self.changed.notify_waiters();
        Ok(Heard {
            remember,
            refused: None,
        })
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
        if ost == Capability::OPEN {
            return Err(Refusal::NoSpace);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::data::{self, Space};
    use gupfs_proto::{ClusterId, Incarnation};
    use gupfs_rpc::{Peer, Service};
    use gupfs_world::fake::FakeWorld;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    struct Nobody;
    impl Service<data::Request, data::Reply> for Nobody {
        async fn answer(self: Arc<Self>, _: data::Request) -> data::Reply {
            Err(Refusal::NotSupported)
        }
    }
    impl Dial for Nobody {
        fn dial(&self, _: &str) -> OstPeer {
            Peer::local(Arc::new(Nobody))
        }
    }

    fn targets() -> Targets {
        let clock = FakeWorld::new(1).world().clock;
        let dial: Arc<dyn Dial> = Arc::new(Nobody);
        let (none, nobody) = (BTreeMap::new(), BTreeMap::new());
        Targets::new(ClusterId(7), clock, false, Some(dial), none, nobody)
    }

    fn word(stamp: u64, run: u64) -> TargetWord {
        TargetWord {
            ost: OstId(0),
            open: Ok(OpenTarget {
                cluster: ClusterId(7),
                incarnation: Incarnation(5),
                stamp,
                run,
                space: Space {
                    available: 100,
                    ..Space::default()
                },
            }),
        }
    }

    fn address(targets: &Targets) -> Option<String> {
        targets.map().targets[0].address.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_is_not_believed_changes_nothing() {
        let targets = targets();
        assert_eq!(targets.admit(Incarnation(5)).unwrap().0, OstId(0));
        assert_eq!(targets.admit(Incarnation(5)).unwrap(), (OstId(0), None));
        assert!(targets.are_all_expected());
        assert_eq!(targets.here("real:1", &word(8, 70)).unwrap().refused, None);
        let epoch = targets.epoch();
        // An older copy, one that cannot be opened, another cluster's.
        let mut foreign = word(9, 71);
        foreign.open.as_mut().unwrap().cluster = ClusterId(8);
        for copy in [word(7, 72), foreign] {
            assert!(targets.here("copy:1", &copy).unwrap().refused.is_some());
        }
        let broken = TargetWord {
            ost: OstId(0),
            open: Err("no such disk".into()),
        };
        assert_eq!(targets.here("copy:1", &broken).unwrap().refused, None);
        assert_eq!(
            (address(&targets).as_deref(), targets.epoch()),
            (Some("real:1"), epoch)
        );
        assert!(targets.is_up(OstId(0)));
        // The same target, opened again elsewhere, is where it says at once.
        assert_eq!(targets.here("new:1", &word(9, 73)).unwrap().refused, None);
        assert_eq!(address(&targets).as_deref(), Some("new:1"));
        assert!(targets.epoch() > epoch);
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_was_never_added_is_not_taken() {
        let refused = targets().here("real:1", &word(1, 1));
        assert!(matches!(refused, Err(Refusal::TargetDown { .. })));
    }
}
