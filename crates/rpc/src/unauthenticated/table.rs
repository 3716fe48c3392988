//! Which unauthenticated connections stay open: a pure state machine over arrivals, removals and finished handshakes.

use super::Origin;
use super::origin::Network;
use crate::limits::{KNOWN_ORIGINS_MAX, UNAUTHENTICATED_MIN};
use gupfs_platform::BootTime;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Limits on unauthenticated connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnauthenticatedLimits {
    pub all: usize,
    /// This many of them are reserved for origins that have proved a key before.
    pub for_known: usize,
}

/// Id of an entry. Later entries have higher ids.
pub(super) type UnauthenticatedId = u64;

pub(super) struct UnauthenticatedTable {
    limits: UnauthenticatedLimits,
    last_id: UnauthenticatedId,
    open: BTreeMap<UnauthenticatedId, UnauthenticatedEntry>,
    /// Evicted connections that are not closed yet: they still hold a descriptor.
    closing: BTreeSet<UnauthenticatedId>,
    /// Origins that proved a key, with the id that was current then: a logical time stamp.
    known: BTreeMap<Origin, UnauthenticatedId>,
}

struct UnauthenticatedEntry {
    origin: Origin,
    is_known: bool,
    since: BootTime,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum AdmissionDecision {
    Admitted {
        id: UnauthenticatedId,
        evicted: Option<UnauthenticatedId>,
    },
    /// No connection can be evicted yet. The caller tries again at this time, or when a connection was removed.
    WaitUntil(BootTime),
}

impl UnauthenticatedTable {
    pub fn new(limits: UnauthenticatedLimits) -> UnauthenticatedTable {
        UnauthenticatedTable {
            limits,
            last_id: 0,
            open: BTreeMap::new(),
            closing: BTreeSet::new(),
            known: BTreeMap::new(),
        }
    }

    /// Decides on a new connection. If the table is full it evicts the oldest connection of the origin with the most connections,
    /// in the network with the most: one host cannot displace another host, and many hosts of one network cannot displace other
    /// networks.
    pub fn admit(&mut self, origin: &Origin, now: BootTime) -> AdmissionDecision {
        let UnauthenticatedLimits { all, for_known } = self.limits;
        let is_known = self.known.contains_key(origin);
        let unknown = self.open.values().filter(|entry| !entry.is_known).count();
        let is_full = self.open.len() >= all || (!is_known && unknown >= all - for_known);
        let evicted = match is_full {
            false => None,
            true => self.eviction_candidate(origin, is_known),
        };
        // Evicted connections that are not closed yet hold descriptors too, so their number is limited as well.
        let retry_at = now + UNAUTHENTICATED_MIN;
        if is_full && self.closing.len() >= all {
            return AdmissionDecision::WaitUntil(retry_at);
        }
        if let Some(id) = evicted {
            let evictable_at = self.open[&id].since + UNAUTHENTICATED_MIN;
            if evictable_at > now {
                return AdmissionDecision::WaitUntil(evictable_at);
            }
            self.open.remove(&id);
            self.closing.insert(id);
        }
        self.last_id += 1;
        let entry = UnauthenticatedEntry {
            origin: origin.clone(),
            is_known,
            since: now,
        };
        self.open.insert(self.last_id, entry);
        AdmissionDecision::Admitted {
            id: self.last_id,
            evicted,
        }
    }

    /// The connection to evict for a new one from `newcomer`: one of an unknown origin if there is one.
    fn eviction_candidate(&self, newcomer: &Origin, is_known: bool) -> Option<UnauthenticatedId> {
        let has_unknown = self.open.values().any(|entry| !entry.is_known);
        let is_candidate = |entry: &UnauthenticatedEntry| entry.is_known != has_unknown;
        let mut networks: BTreeMap<Network, usize> = BTreeMap::new();
        let mut origins: BTreeMap<&Origin, usize> = BTreeMap::new();
        // The new connection counts with the existing ones of its kind (known or unknown origin).
        let counted = (is_known != has_unknown).then_some(newcomer);
        let existing = self.open.values().filter(|entry| is_candidate(entry));
        for origin in existing.map(|entry| &entry.origin).chain(counted) {
            *networks.entry(origin.network()).or_default() += 1;
            *origins.entry(origin).or_default() += 1;
        }
        let candidates = self.open.iter().filter(|(_, entry)| is_candidate(entry));
        let worst = candidates.max_by_key(|(id, entry)| {
            let network = networks[&entry.origin.network()];
            (network, origins[&entry.origin], Reverse(**id))
        });
        worst.map(|(id, _)| *id)
    }

    pub fn remove(&mut self, id: UnauthenticatedId) {
        self.open.remove(&id);
        self.closing.remove(&id);
    }

    /// Remembers this origin as known; forgets the one that was marked longest ago if there are too many.
    pub fn mark_known(&mut self, origin: &Origin) {
        self.last_id += 1;
        self.known.insert(origin.clone(), self.last_id);
        if self.known.len() > KNOWN_ORIGINS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, when)| **when);
            if let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) {
                self.known.remove(&oldest);
            }
        }
    }

    pub fn open_count(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMITS: UnauthenticatedLimits = UnauthenticatedLimits {
        all: 8,
        for_known: 2,
    };

    struct Scene {
        table: UnauthenticatedTable,
        now: BootTime,
    }

    impl Scene {
        fn new() -> Scene {
            Scene {
                table: UnauthenticatedTable::new(LIMITS),
                now: BootTime(1_000_000_000),
            }
        }

        /// A new connection, at a time when every other one may be evicted.
        fn connect(&mut self, host: &str) -> (UnauthenticatedId, Option<UnauthenticatedId>) {
            self.now = self.now + Duration::from_secs(1);
            match self.table.admit(&origin(host), self.now) {
                AdmissionDecision::Admitted { id, evicted } => {
                    if let Some(gone) = evicted {
                        self.table.remove(gone);
                    }
                    (id, evicted)
                }
                decision => panic!("{decision:?}"),
            }
        }

        fn hosts(&self) -> Vec<String> {
            let entry = self.table.open.values();
            entry.map(|entry| entry.origin.to_string()).collect()
        }
    }

    fn origin(host: &str) -> Origin {
        Origin::of(&format!("{host}:1"))
    }

    #[test]
    fn the_oldest_connection_of_the_origin_with_the_most_is_evicted() {
        let mut scene = Scene::new();
        let unknown: Vec<UnauthenticatedId> = (0..5).map(|_| scene.connect("10.0.0.3").0).collect();
        let (quiet, _) = scene.connect("10.1.0.1");
        // Unknown origins may have six connections.
        for expected in &unknown[..3] {
            assert_eq!(scene.connect("10.0.0.3").1, Some(*expected));
        }
        assert_eq!(scene.connect("10.2.0.1").1, Some(unknown[3]));
        assert!(scene.table.open.contains_key(&quiet));
    }

    #[test]
    fn entries_are_reserved_for_origins_that_proved_a_key() {
        let mut scene = Scene::new();
        scene.table.mark_known(&origin("10.0.0.9"));
        for _ in 0..20 {
            scene.connect("10.0.0.3");
        }
        assert_eq!(scene.hosts().len(), 6);
        assert_eq!(scene.connect("10.0.0.9").1, None);
        assert_eq!(scene.connect("10.0.0.9").1, None);
        // A known origin evicts connections of unknown origins; an unknown origin never evicts one of a known origin.
        assert!(scene.connect("10.0.0.9").1.is_some());
        for _ in 0..20 {
            scene.connect("10.0.0.3");
            scene.connect("10.5.0.3");
        }
        let known = scene
            .hosts()
            .iter()
            .filter(|entry| **entry == "10.0.0.9")
            .count();
        assert_eq!(known, 3);
        // Among known origins the same rule applies as among unknown ones.
        for _ in 0..20 {
            scene.connect("10.0.0.9");
        }
        assert_eq!(scene.hosts(), ["10.0.0.9"; 8]);
    }

    #[test]
    fn many_hosts_of_one_network_do_not_displace_other_networks() {
        let mut scene = Scene::new();
        let (quiet, _) = scene.connect("10.1.0.1");
        for host in 1..200 {
            scene.connect(&format!("10.0.0.{host}"));
        }
        for part in 1..200 {
            scene.connect(&format!("[2001:db8:1:{part:x}::1]"));
        }
        assert!(scene.table.open.contains_key(&quiet));
    }

    #[test]
    fn no_connection_is_evicted_before_its_minimum_time() {
        let mut scene = Scene::new();
        let begun = scene.now;
        for _ in 0..6 {
            let decision = scene.table.admit(&origin("10.0.0.3"), begun);
            assert!(matches!(decision, AdmissionDecision::Admitted { .. }));
        }
        let until = begun + UNAUTHENTICATED_MIN;
        let decision = scene.table.admit(&origin("10.0.0.4"), begun);
        assert_eq!(decision, AdmissionDecision::WaitUntil(until));
        let decision = scene.table.admit(&origin("10.0.0.4"), until);
        let evicted = Some(1);
        assert_eq!(decision, AdmissionDecision::Admitted { id: 7, evicted });
    }

    #[test]
    fn evicted_connections_that_do_not_close_block_new_ones() {
        let mut scene = Scene::new();
        let mut entered = 0;
        loop {
            scene.now = scene.now + Duration::from_secs(1);
            match scene.table.admit(&origin("10.0.0.3"), scene.now) {
                AdmissionDecision::Admitted { .. } => entered += 1,
                AdmissionDecision::WaitUntil(_) => break,
            }
        }
        assert_eq!(entered, 6 + LIMITS.all);
        scene.table.remove(1);
        assert_eq!(scene.table.open_count(), 6);
        scene.connect("10.0.0.3");
    }

    #[test]
    fn the_number_of_known_origins_is_limited() {
        let mut scene = Scene::new();
        for host in 0..KNOWN_ORIGINS_MAX + 10 {
            let host = format!("10.{}.{}.1", host >> 8, host & 255);
            scene.table.mark_known(&origin(&host));
        }
        assert_eq!(scene.table.known.len(), KNOWN_ORIGINS_MAX);
        assert!(!scene.table.known.contains_key(&origin("10.0.0.1")));
    }
}
