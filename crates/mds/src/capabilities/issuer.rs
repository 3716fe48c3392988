//! Issues the capabilities that sessions show to OSTs, and the keys with which OSTs verify them.
//!
//! Each start makes a new secret, together with its owner epoch: capabilities of a later owner differ. No OST learns
//! the key share of another OST.

use super::OpenCapabilityKey;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::capability::{
    Capability, CapabilityKey, CapabilityMac, CapabilityStatement, CredentialTime, DataCredentials,
    Rights, SessionCapability,
};
use gupfs_proto::cluster::{CapabilityKeys, KeyShare};
use gupfs_proto::limits::{SERVER_TERM, SESSION_CAPABILITY_TERM};
use gupfs_proto::{Incarnation, InodeId, Layout, OstId, OwnerEpoch, SessionId};
use gupfs_rpc::ClusterKey;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long the server announces to OSTs that a session has ended: its last session capability expires before, even if clocks
/// differ.
const ANNOUNCED_FOR: Duration = SERVER_TERM.saturating_mul(2);

pub struct CapabilityIssuer {
    platform: Platform,
    epoch: OwnerEpoch,
    cluster: Option<ClusterKey>,
    secret: ClusterKey,
    session_key: CapabilityKey,
    pub open_key: OpenCapabilityKey,
    tables: Mutex<IssuerTables>,
}

struct IssuerTables {
    keys: BTreeMap<OstId, Arc<OstKey>>,
    /// For each session with a session capability: when its newest one expires.
    valid_until: BTreeMap<SessionId, BootTime>,
    /// When the session capabilities that the previous owner issued expire at the latest.
    predecessor_until: BootTime,
    ended: BTreeMap<SessionId, EndedSession>,
}

struct OstKey {
    key: CapabilityKey,
    /// Shown by this server itself to the OST.
    server_mac: CapabilityMac,
}

struct EndedSession {
    since: BootTime,
    /// When the session's newest capability expires.
    until: BootTime,
    /// Targets whose servers have confirmed that no request of the session takes effect there any more.
    fenced: BTreeSet<OstId>,
    /// The end may be announced to OSTs: no client continues this session, whatever a power loss undoes.
    may_announce: bool,
}

impl CapabilityIssuer {
    /// For this owner of this store. The cluster's key is the half of every key that the server never sends.
    pub fn new(
        platform: &Platform,
        epoch: OwnerEpoch,
        cluster: Option<ClusterKey>,
        store: Incarnation,
    ) -> CapabilityIssuer {
        let mut secret = [0; 32];
        platform.random.fill(&mut secret);
        let secret = ClusterKey::new(secret);
        let session_key = ClusterKey::capability_key(cluster.as_ref(), &session_key_share(&secret));
        CapabilityIssuer {
            platform: platform.clone(),
            epoch,
            session_key,
            open_key: OpenCapabilityKey::new(cluster.as_ref(), store),
            tables: Mutex::new(IssuerTables {
                keys: BTreeMap::new(),
                valid_until: BTreeMap::new(),
                predecessor_until: platform.clock.boot() + SESSION_CAPABILITY_TERM,
                ended: BTreeMap::new(),
            }),
            cluster,
            secret,
        }
    }

    fn key_share(&self, ost: OstId) -> KeyShare {
        KeyShare(self.secret.hmac(&[b"ost", &ost.0.to_le_bytes()]))
    }

    fn ost_key(&self, ost: OstId) -> Arc<OstKey> {
        if let Some(key) = self.tables.lock().keys.get(&ost) {
            return key.clone();
        }
        let key = ClusterKey::capability_key(self.cluster.as_ref(), &self.key_share(ost));
        let epoch = self.epoch;
        let server_mac = key.compute_mac(&CapabilityStatement::Server { epoch, ost });
        let made = Arc::new(OstKey { key, server_mac });
        self.tables.lock().keys.insert(ost, made.clone());
        made
    }

    /// The session's capability for a file, on every OST of its layout; None for a file without objects.
    pub fn capability(
        &self,
        session: SessionId,
        ino: InodeId,
        layout: &Layout,
        rights: Rights,
    ) -> Option<Capability> {
        let components = layout.components.iter();
        let mut osts: Vec<OstId> = components
            .flat_map(|component| component.targets.iter().copied())
            .collect();
        osts.sort_unstable();
        osts.dedup();
        if osts.is_empty() {
            return None;
        }
        let epoch = self.epoch;
        let macs = osts.into_iter().map(|ost| {
            let statement = CapabilityStatement::File {
                epoch,
                ost,
                session,
                ino,
                rights,
            };
            (ost, self.ost_key(ost).key.compute_mac(&statement))
        });
        Some(Capability {
            epoch,
            rights,
            macs: macs.collect(),
        })
    }

    /// The same with the open capability, which proves that the session has opened the file. A file without objects has one, too.
    pub fn open_capability(
        &self,
        session: SessionId,
        ino: InodeId,
        layout: &Layout,
        opened: Rights,
    ) -> Option<Capability> {
        let given = self.capability(session, ino, layout, Rights::READ);
        self.with_open_capability(session, ino, given, opened)
    }

    /// Adds the open capability to a session's capability for a file.
    pub fn with_open_capability(
        &self,
        session: SessionId,
        ino: InodeId,
        given: Option<Capability>,
        opened: Rights,
    ) -> Option<Capability> {
        if opened.is_empty() {
            return given;
        }
        let mut capability = given.unwrap_or_else(|| Capability {
            epoch: self.epoch,
            rights: Rights::READ,
            macs: Vec::new(),
        });
        let mac = self.open_key.mac(session, ino, opened);
        capability.macs.push((Capability::MDS_PSEUDO_OST, mac));
        Some(capability)
    }

    /// A capability that shows that this session is alive. Called when the server knows that it is, at the moment of the reply.
    pub fn session_capability(&self, session: SessionId) -> SessionCapability {
        let until = self.platform.clock.boot() + SESSION_CAPABILITY_TERM;
        self.tables.lock().valid_until.insert(session, until);
        let (epoch, until) = (self.epoch, millis(until));
        let statement = CapabilityStatement::Session {
            epoch,
            session,
            until,
        };
        SessionCapability {
            epoch,
            until,
            mac: self.session_key.compute_mac(&statement),
        }
    }

    /// The time of the newest session capability that may have been issued so far.
    pub fn newest(&self) -> CredentialTime {
        CredentialTime {
            epoch: self.epoch,
            until: millis(self.platform.clock.boot() + SESSION_CAPABILITY_TERM),
        }
    }

    /// The server's own credentials at an OST.
    pub fn server_credentials(&self, ost: OstId) -> DataCredentials {
        DataCredentials::Server {
            epoch: self.epoch,
            mac: self.ost_key(ost).server_mac,
        }
    }

    /// The keys for the server of these targets.
    pub fn capability_keys(&self, osts: &[OstId]) -> CapabilityKeys {
        CapabilityKeys {
            epoch: self.epoch,
            now: millis(self.platform.clock.boot()),
            session_key: session_key_share(&self.secret),
            ost_keys: osts
                .iter()
                .map(|ost| (*ost, self.key_share(*ost)))
                .collect(),
            ended_sessions: self.announced_ends(),
        }
    }

    /// An OST does not forget an announced end; so the server announces none that a power loss could undo.
    fn announced_ends(&self) -> Vec<SessionId> {
        let tables = self.tables.lock();
        let ended = tables.ended.iter().filter(|(_, ended)| ended.may_announce);
        ended.map(|(session, _)| *session).collect()
    }

    /// The session is unregistered: it gets no session capability from here on.
    pub fn session_ended(&self, session: SessionId) {
        let now = self.platform.clock.boot();
        let mut tables = self.tables.lock();
        let until = tables
            .valid_until
            .remove(&session)
            .unwrap_or(tables.predecessor_until);
        tables.ended.entry(session).or_insert_with(|| EndedSession {
            since: now,
            until,
            fenced: BTreeSet::new(),
            may_announce: false,
        });
        tables
            .ended
            .retain(|_, ended| now.since(ended.since) <= ANNOUNCED_FOR);
    }

    /// The client has closed the session, or its end survives a power loss.
    pub fn may_announce_end(&self, session: SessionId) {
        if let Some(ended) = self.tables.lock().ended.get_mut(&session) {
            ended.may_announce = true;
        }
    }

    /// How long an OST that did not learn of a session's end may accept the session.
    pub fn valid_until(&self, session: SessionId) -> BootTime {
        let tables = self.tables.lock();
        let ended = tables.ended.get(&session);
        ended.map_or(tables.predecessor_until, |ended| ended.until)
    }

    pub fn is_fenced(&self, session: SessionId, ost: OstId) -> bool {
        let tables = self.tables.lock();
        let ended = tables.ended.get(&session);
        ended.is_some_and(|ended| ended.fenced.contains(&ost))
    }

    pub fn mark_fenced(&self, session: SessionId, ost: OstId) {
        let now = self.platform.clock.boot();
        let mut tables = self.tables.lock();
        let predecessor_until = tables.predecessor_until;
        // The previous owner ended this session; this server announces the end from here on.
        let ended = tables.ended.entry(session).or_insert_with(|| EndedSession {
            since: now,
            until: predecessor_until,
            fenced: BTreeSet::new(),
            may_announce: true,
        });
        ended.fenced.insert(ost);
    }
}

fn session_key_share(secret: &ClusterKey) -> KeyShare {
    KeyShare(secret.hmac(&[b"pass"]))
}

fn millis(time: BootTime) -> u64 {
    time.0 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakePlatform;

    /// A power loss of this server may bring the session back, and an OST does not forget an announced end.
    #[tokio::test(start_paused = true)]
    async fn no_session_end_that_a_power_loss_could_undo_is_announced() {
        let platform = FakePlatform::new(1).platform();
        let issuer = CapabilityIssuer::new(&platform, OwnerEpoch(3), None, Incarnation(7));
        let session = SessionId(5);
        issuer.session_capability(session);
        issuer.session_ended(session);
        assert_eq!(issuer.capability_keys(&[]).ended_sessions, []);
        issuer.may_announce_end(session);
        assert_eq!(issuer.capability_keys(&[]).ended_sessions, [session]);
    }
}
