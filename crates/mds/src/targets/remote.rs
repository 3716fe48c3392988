//! Targets that are served elsewhere: their servers say every second that they are there, and where.

use super::judge::{Verdict, judge};
use super::{Far, OstPeer, Speaker, Standing, State, Targets, UnknownSpace};
use crate::limits::HEARD_OF;
use gupfs_namespace::KnownTarget;
use gupfs_proto::capability::Capability;
use gupfs_proto::cluster::{Map, Place, TargetIdentity, TargetReport, TargetVerdict};
use gupfs_proto::{Incarnation, MapEpoch, OstId, OwnerEpoch, Refusal};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// How a server elsewhere is reached.
pub trait Dial: Send + Sync + 'static {
    /// A peer that connects by itself, and again when its connection breaks. The same address gives the same line.
    fn dial(&self, address: &str) -> OstPeer;
}

/// What one target's part of a report brings.
pub(crate) enum Heard {
    /// What it is to do, and what is to be remembered before it is told so; with `true` also after a power cut.
    Verdict(TargetVerdict, Option<(KnownTarget, bool)>),
    /// It has served a later state of the store than this.
    Restored(String),
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
    /// `NotSupported` if this server uses the targets of its own process alone.
    pub(crate) fn report(
        &self,
        address: &str,
        word: &TargetReport,
        leaves: bool,
    ) -> Result<Heard, Refusal> {
        let Some(dial) = &self.dial else {
            return Err(Refusal::NotSupported);
        };
        let ost = word.ost;
        let refused = |why: String| Ok(Heard::Verdict(TargetVerdict::Refused(why), None));
        let mut list = self.list.lock();
        let Some(state) = list.get_mut(&ost) else {
            return refused("no target of this number was ever added".into());
        };
        if state.far.is_none() && state.peer.is_some() {
            return refused("the metadata server's own process serves it".into());
        }
        let open = match &word.open {
            Ok(open) => open,
            Err(why) => {
                // Another's copy of it that cannot be opened says nothing about the one that is known.
                if state.is_known_at(address) {
                    state.standing = Standing::Down(why.clone());
                    self.changed.notify_waiters();
                }
                return Ok(Heard::Verdict(TargetVerdict::Wait(why.clone()), None));
            }
        };
        let told = &open.identity;
        let now = self.clock.boot();
        let accept = self.ground.accept_loss && !state.standing.is_good();
        let verdict = judge(&self.ground, ost, state.remembered, told, accept);
        let (known, verdict) = match verdict {
            Verdict::Adopt(known) => (known, TargetVerdict::Adopt),
            Verdict::Serve(known) => (known, TargetVerdict::Serve),
            Verdict::Refused(why) => {
                if state.is_known_at(address) {
                    state.standing = Standing::Refused(why.clone());
                    self.changed.notify_waiters();
                }
                return refused(why);
            }
            Verdict::Restored(why) => return Ok(Heard::Restored(why)),
        };
        if let Some(why) = self.another_lives(state, address, told) {
            tracing::warn!(%ost, address, why, "an opening of a target waits");
            return Ok(Heard::Verdict(TargetVerdict::Wait(why), None));
        }
        let remember = state.remember(known);
        let contended = (state.speaker.as_ref()).is_some_and(|speaker| speaker.is_contended);
        state.speaker = (!leaves).then(|| Speaker {
            opening: told.opening,
            address: address.to_string(),
            heard: now,
            is_contended: false,
        });
        self.changed.notify_waiters();
        if leaves {
            state.standing = Standing::Expected(format!("its server at {address} was stopped"));
            return Ok(Heard::Verdict(verdict, remember));
        }
        if verdict == TargetVerdict::Adopt {
            state.standing = Standing::Expected("its server opens it".into());
            return Ok(Heard::Verdict(verdict, remember));
        }
        match &mut state.far {
            Some(far) if far.address == address => far.heard = now,
            // The same target, opened again elsewhere, and the former opening is over.
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
        state.space = open.space.ok_or_else(|| {
            UnknownSpace::NotYet("its disk does not say how much room it has".into())
        });
        let verdict = match contended {
            true => TargetVerdict::RaiseStamp,
            false => verdict,
        };
        Ok(Heard::Verdict(verdict, remember))
    }

    /// Why an opening must wait: perhaps another one of the target serves still. None if none does for sure: it is silent for
    /// its term, or was at this very address.
    fn another_lives(
        &self,
        state: &mut State,
        address: &str,
        told: &TargetIdentity,
    ) -> Option<String> {
        let now = self.clock.boot();
        match &mut state.speaker {
            Some(speaker) if speaker.opening == told.opening => None,
            Some(speaker) if speaker.address == address => None,
            Some(speaker) if now.since(speaker.heard) < HEARD_OF => {
                // It is to become another than the copy, which then is an older one for good.
                speaker.is_contended = true;
                Some(format!(
                    "another opening of it is served at {}",
                    speaker.address
                ))
            }
            Some(_) => None,
            // Since our start nobody spoke for it, and the one that did before may do so any moment.
            None if !told.is_adopted()
                && !told.stopped
                && told.run != 0
                && now.since(self.started) < HEARD_OF =>
            {
                Some("perhaps another opening of it is served: it is waited for a term".into())
            }
            None => None,
        }
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
            adopting: 0,
            owner: OwnerEpoch(0),
            owner_run: 0,
        };
        list.insert(
            ost,
            State {
                peer: None,
                far: None,
                remembered: Some(remembered),
                is_kept: false,
                speaker: None,
                standing: Standing::Expected("its server has not been heard of".into()),
                space: Err(UnknownSpace::untold()),
            },
        );
        Ok((ost, Some(remembered)))
    }

    /// No target can be used, and some may become usable soon: their servers have not been heard of or are silent, or their disks
    /// have not said how much room they have.
    pub fn are_all_expected(&self) -> bool {
        let list = self.list.lock();
        list.values().all(|state| state.why_not().is_some())
            && list.values().any(State::may_become_usable)
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
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Standing::Good)
    }
}

impl State {
    /// Whether a server at this address may say that the target is down or refused.
    fn is_known_at(&self, address: &str) -> bool {
        self.far.as_ref().is_none_or(|far| far.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ground;
    use super::*;
    use gupfs_platform::fake::FakeWorld;
    use gupfs_proto::cluster::{OpenReport, OwnerMark};
    use gupfs_proto::data::{self, Space};
    use gupfs_proto::{ClusterId, Incarnation, Seq};
    use gupfs_rpc::{Peer, Service};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    const OURS: OwnerMark = OwnerMark {
        epoch: OwnerEpoch(4),
        run: 40,
        durable: Seq(0),
    };

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
        let clock = FakeWorld::new(1).platform().clock;
        let dial: Arc<dyn Dial> = Arc::new(Nobody);
        let ground = Ground {
            cluster: ClusterId(7),
            ours: OURS,
            found: Seq(100),
            lost_before: OwnerEpoch(0),
            accept_loss: false,
        };
        let targets = Targets::new(ground, clock, Some(dial), BTreeMap::new(), BTreeMap::new());
        targets.admit(Incarnation(5)).unwrap();
        targets
    }

    /// A report of ost0: its superblock says (stamp, run), and it was opened as `opening`.
    fn word(stamp: u64, run: u64, opening: u64) -> TargetReport {
        let identity = TargetIdentity {
            cluster: ClusterId(7),
            incarnation: Incarnation(5),
            stamp,
            run,
            opening,
            stopped: false,
            owner: OwnerMark::default(),
        };
        let space = Space {
            available: 100,
            ..Space::default()
        };
        TargetReport {
            ost: OstId(0),
            open: Ok(OpenReport {
                identity,
                space: Some(space),
                holdings: None,
            }),
        }
    }

    fn says(targets: &Targets, address: &str, word: &TargetReport) -> TargetVerdict {
        match targets.report(address, word, false) {
            Ok(Heard::Verdict(verdict, _)) => verdict,
            Ok(Heard::Restored(why)) => panic!("{why}"),
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// Opened at an address, from (stamp, run) to the next stamp and this run.
    fn opens(targets: &Targets, address: &str, found: (u64, u64), run: u64) {
        let verdict = says(targets, address, &word(found.0, found.1, run));
        assert_eq!(verdict, TargetVerdict::Adopt);
        let verdict = says(targets, address, &word(found.0 + 1, run, run));
        assert_eq!(verdict, TargetVerdict::Serve);
    }

    fn address(targets: &Targets) -> Option<String> {
        targets.map().targets[0].address.clone()
    }

    fn is_refused(verdict: &TargetVerdict) -> bool {
        matches!(verdict, TargetVerdict::Refused(_))
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_is_not_believed_changes_nothing() {
        let targets = targets();
        assert_eq!(targets.admit(Incarnation(5)).unwrap(), (OstId(0), None));
        assert!(targets.are_all_expected());
        opens(&targets, "real:1", (0, 0), 70);
        let epoch = targets.epoch();
        // An older copy, one that cannot be opened, another cluster's.
        let mut foreign = word(1, 70, 71);
        foreign.open.as_mut().unwrap().identity.cluster = ClusterId(8);
        for copy in [word(0, 0, 72), foreign] {
            assert!(is_refused(&says(&targets, "copy:1", &copy)));
        }
        let broken = TargetReport {
            ost: OstId(0),
            open: Err("no such disk".into()),
        };
        let verdict = says(&targets, "copy:1", &broken);
        assert_eq!(verdict, TargetVerdict::Wait("no such disk".into()));
        assert_eq!(
            (address(&targets).as_deref(), targets.epoch()),
            (Some("real:1"), epoch)
        );
        assert!(targets.is_up(OstId(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_twin_waits_while_the_original_lives_and_then_is_an_older_copy() {
        let targets = targets();
        opens(&targets, "real:1", (0, 0), 70);
        // A copy of what serves, at the same stamp.
        let twin = word(1, 70, 80);
        let waits = says(&targets, "twin:1", &twin);
        assert!(
            matches!(&waits, TargetVerdict::Wait(why) if why.contains("real:1")),
            "{waits:?}"
        );
        let verdict = says(&targets, "real:1", &word(1, 70, 70));
        assert_eq!(verdict, TargetVerdict::RaiseStamp);
        assert_eq!(
            says(&targets, "real:1", &word(2, 70, 70)),
            TargetVerdict::Serve
        );
        assert!(is_refused(&says(&targets, "twin:1", &twin)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(is_refused(&says(&targets, "twin:1", &twin)));
        assert_eq!(
            says(&targets, "real:1", &word(2, 70, 70)),
            TargetVerdict::Serve
        );
        assert_eq!(address(&targets).as_deref(), Some("real:1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_moves_is_believed_when_its_former_server_has_left_or_is_silent() {
        let targets = targets();
        opens(&targets, "old:1", (0, 0), 70);
        let moved = word(1, 70, 71);
        assert!(matches!(
            says(&targets, "new:1", &moved),
            TargetVerdict::Wait(_)
        ));
        tokio::time::sleep(HEARD_OF).await;
        let epoch = targets.epoch();
        opens(&targets, "new:1", (1, 70), 71);
        assert_eq!(address(&targets).as_deref(), Some("new:1"));
        assert!(targets.epoch() > epoch);
        // At the address where it was, the former server is over for sure.
        opens(&targets, "new:1", (2, 71), 72);
        // And where it has said that it ends.
        let stopped = word(4, 72, 72);
        targets.report("new:1", &stopped, true).unwrap();
        assert!(!targets.is_up(OstId(0)) || targets.are_all_expected());
        opens(&targets, "third:1", (4, 72), 73);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_start_an_original_that_lives_is_heard_before_its_copy_is_believed() {
        let clock = FakeWorld::new(1).platform().clock;
        let dial: Arc<dyn Dial> = Arc::new(Nobody);
        let known = KnownTarget {
            incarnation: Incarnation(5),
            stamp: 6,
            run: 70,
            adopting: 0,
            owner: OwnerEpoch(3),
            owner_run: 30,
        };
        let ground = targets().ground;
        let remembered = BTreeMap::from([(OstId(0), known)]);
        let targets = Targets::new(ground, clock, Some(dial), BTreeMap::new(), remembered);
        assert!(matches!(
            says(&targets, "twin:1", &word(6, 70, 80)),
            TargetVerdict::Wait(_)
        ));
        assert_eq!(
            says(&targets, "real:1", &word(6, 70, 70)),
            TargetVerdict::Serve
        );
        assert!(matches!(
            says(&targets, "twin:1", &word(6, 70, 80)),
            TargetVerdict::Wait(_)
        ));
        assert_eq!(
            says(&targets, "real:1", &word(6, 70, 70)),
            TargetVerdict::RaiseStamp
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_was_never_added_is_not_taken() {
        let targets = targets();
        let stranger = TargetReport {
            ost: OstId(9),
            ..word(1, 1, 2)
        };
        assert!(is_refused(&says(&targets, "real:1", &stranger)));
    }
}
