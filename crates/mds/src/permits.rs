//! What sessions are given to show to OSTs, and what OSTs are told to believe it by.
//!
//! The secret is made anew at each start: with its owner's epoch, so a later owner's capabilities are others. No OST learns
//! the share of another.

use crate::opens::OpenSeal;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::capability::{Capability, Pass, Rights, SealKey, Statement, Tag, Warrant};
use gupfs_proto::cluster::{Seals, Share};
use gupfs_proto::limits::{PASS_TERM, SERVER_TERM};
use gupfs_proto::{Incarnation, InodeId, Layout, OstId, OwnerEpoch, SessionId};
use gupfs_rpc::ClusterKey;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long OSTs are told that a session has ended: its last pass is over before, whatever their clocks say.
const TOLD: Duration = SERVER_TERM.saturating_mul(2);

pub struct Permits {
    platform: Platform,
    epoch: OwnerEpoch,
    cluster: Option<ClusterKey>,
    secret: ClusterKey,
    pass: SealKey,
    pub opens: OpenSeal,
    state: Mutex<State>,
}

struct State {
    keys: BTreeMap<OstId, Arc<OstKey>>,
    /// Sessions given a pass: until when the newest counts.
    passes: BTreeMap<SessionId, BootTime>,
    /// Sessions that were given one by the owner before us: until when at most.
    before: BootTime,
    ended: BTreeMap<SessionId, Ended>,
}

struct OstKey {
    key: SealKey,
    /// What we show there ourselves.
    server: Tag,
}

struct Ended {
    since: BootTime,
    /// Its newest pass counts until then.
    until: BootTime,
    /// Targets whose servers have said that nothing of it takes effect there any more.
    fenced: BTreeSet<OstId>,
    /// OSTs may be told: nobody goes on in this session, whatever a power cut undoes.
    may_be_told: bool,
}

impl Permits {
    /// Of this owner of this store. The cluster's key is the half of every key that is never told.
    pub fn new(
        platform: &Platform,
        epoch: OwnerEpoch,
        cluster: Option<ClusterKey>,
        store: Incarnation,
    ) -> Permits {
        let mut secret = [0; 32];
        platform.dice.fill(&mut secret);
        let secret = ClusterKey::new(secret);
        let pass = ClusterKey::sealing(cluster.as_ref(), &pass_share(&secret));
        Permits {
            platform: platform.clone(),
            epoch,
            pass,
            opens: OpenSeal::new(cluster.as_ref(), store),
            state: Mutex::new(State {
                keys: BTreeMap::new(),
                passes: BTreeMap::new(),
                before: platform.clock.boot() + PASS_TERM,
                ended: BTreeMap::new(),
            }),
            cluster,
            secret,
        }
    }

    fn share(&self, ost: OstId) -> Share {
        Share(self.secret.prove(&[b"ost", &ost.0.to_le_bytes()]))
    }

    fn key(&self, ost: OstId) -> Arc<OstKey> {
        if let Some(key) = self.state.lock().keys.get(&ost) {
            return key.clone();
        }
        let key = ClusterKey::sealing(self.cluster.as_ref(), &self.share(ost));
        let epoch = self.epoch;
        let server = key.seal(&Statement::Server { epoch, ost });
        let made = Arc::new(OstKey { key, server });
        self.state.lock().keys.insert(ost, made.clone());
        made
    }

    /// This session's right to a file, on every OST of its layout; None for a file that lies on none.
    pub fn capability(
        &self,
        session: SessionId,
        ino: InodeId,
        layout: &Layout,
        rights: Rights,
    ) -> Option<Capability> {
        let components = layout.components.iter();
        let mut osts: Vec<OstId> = components
            .flat_map(|it| it.targets.iter().copied())
            .collect();
        osts.sort_unstable();
        osts.dedup();
        if osts.is_empty() {
            return None;
        }
        let epoch = self.epoch;
        let tags = osts.into_iter().map(|ost| {
            let what = Statement::File {
                epoch,
                ost,
                session,
                ino,
                rights,
            };
            (ost, self.key(ost).key.seal(&what))
        });
        Some(Capability {
            epoch,
            rights,
            tags: tags.collect(),
        })
    }

    /// The same with the proof that the session has opened the file, which a file on no OST has, too.
    pub fn of_open(
        &self,
        session: SessionId,
        ino: InodeId,
        layout: &Layout,
        opened: Rights,
    ) -> Option<Capability> {
        let given = self.capability(session, ino, layout, Rights::READ);
        if opened.is_empty() {
            return given;
        }
        let mut capability = given.unwrap_or_else(|| Capability {
            epoch: self.epoch,
            rights: Rights::READ,
            tags: Vec::new(),
        });
        let tag = self.opens.tag(session, ino, opened);
        capability.tags.push((Capability::OPEN, tag));
        Some(capability)
    }

    /// What shows that this session lives. Called when it is known to, in the moment of the answer.
    pub fn pass(&self, session: SessionId) -> Pass {
        let until = self.platform.clock.boot() + PASS_TERM;
        self.state.lock().passes.insert(session, until);
        let (epoch, until) = (self.epoch, millis(until));
        let what = Statement::Pass {
            epoch,
            session,
            until,
        };
        Pass {
            epoch,
            until,
            tag: self.pass.seal(&what),
        }
    }

    /// Our own warrant at an OST.
    pub fn server(&self, ost: OstId) -> Warrant {
        Warrant::Server {
            epoch: self.epoch,
            tag: self.key(ost).server,
        }
    }

    /// What the server of these targets is to know.
    pub fn seals(&self, osts: &[OstId]) -> Seals {
        Seals {
            epoch: self.epoch,
            now: millis(self.platform.clock.boot()),
            pass: pass_share(&self.secret),
            osts: osts.iter().map(|ost| (*ost, self.share(*ost))).collect(),
            ended: self.ended_for_good(),
        }
    }

    /// An OST that has heard of an end believes it for ever; so it hears of none that a power cut could undo.
    fn ended_for_good(&self) -> Vec<SessionId> {
        let state = self.state.lock();
        let ended = state.ended.iter().filter(|(_, ended)| ended.may_be_told);
        ended.map(|(session, _)| *session).collect()
    }

    /// The session is registered no more: no pass is given to it from here on.
    pub fn ends(&self, session: SessionId) {
        let now = self.platform.clock.boot();
        let mut state = self.state.lock();
        let until = state.passes.remove(&session).unwrap_or(state.before);
        state.ended.entry(session).or_insert_with(|| Ended {
            since: now,
            until,
            fenced: BTreeSet::new(),
            may_be_told: false,
        });
        state
            .ended
            .retain(|_, ended| now.since(ended.since) <= TOLD);
    }

    /// Its client has closed the session, or its end survives a power cut.
    pub fn may_tell_end(&self, session: SessionId) {
        if let Some(ended) = self.state.lock().ended.get_mut(&session) {
            ended.may_be_told = true;
        }
    }

    /// Until when an OST that heard nothing may believe a session that has ended.
    pub fn counts_until(&self, session: SessionId) -> BootTime {
        let state = self.state.lock();
        let ended = state.ended.get(&session);
        ended.map_or(state.before, |ended| ended.until)
    }

    pub fn is_fenced(&self, session: SessionId, ost: OstId) -> bool {
        let state = self.state.lock();
        let ended = state.ended.get(&session);
        ended.is_some_and(|ended| ended.fenced.contains(&ost))
    }

    pub fn was_fenced(&self, session: SessionId, ost: OstId) {
        let now = self.platform.clock.boot();
        let mut state = self.state.lock();
        let before = state.before;
        // One that the owner before us has ended is told of from here on.
        let ended = state.ended.entry(session).or_insert_with(|| Ended {
            since: now,
            until: before,
            fenced: BTreeSet::new(),
            may_be_told: true,
        });
        ended.fenced.insert(ost);
    }
}

fn pass_share(secret: &ClusterKey) -> Share {
    Share(secret.prove(&[b"pass"]))
}

fn millis(time: BootTime) -> u64 {
    time.0 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakeWorld;

    /// A power cut of this server may bring the session back, and an OST never forgets an end.
    #[tokio::test(start_paused = true)]
    async fn an_ost_hears_of_no_end_that_a_power_cut_could_undo() {
        let platform = FakeWorld::new(1).platform();
        let permits = Permits::new(&platform, OwnerEpoch(3), None, Incarnation(7));
        let session = SessionId(5);
        permits.pass(session);
        permits.ends(session);
        assert_eq!(permits.seals(&[]).ended, []);
        permits.may_tell_end(session);
        assert_eq!(permits.seals(&[]).ended, [session]);
    }
}
