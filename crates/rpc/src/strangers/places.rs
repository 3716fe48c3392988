//! Who of those that have proved nothing may stay, as a plain function of what came before.

use super::Origin;
use super::origin::Network;
use crate::limits::{KNOWN_ORIGINS, PLACE_LEAST};
use gupfs_platform::BootTime;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// How many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub all: usize,
    /// Of these only origins that have proved something before may have so many.
    pub for_known: usize,
}

/// Number of a place. Later ones have higher numbers.
pub(super) type StrangerId = u64;

pub(super) struct StrangerTable {
    bounds: Bounds,
    last: StrangerId,
    taken: BTreeMap<StrangerId, Stranger>,
    /// Those that must go and are not gone yet: they still hold a descriptor.
    leaving: BTreeSet<StrangerId>,
    /// Origins that proved something, and when that was, by the number of the place.
    known: BTreeMap<Origin, StrangerId>,
}

struct Stranger {
    origin: Origin,
    is_known: bool,
    since: BootTime,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    Enters {
        number: StrangerId,
        instead_of: Option<StrangerId>,
    },
    /// Everybody has had too little time yet. To be asked again at this time, or when somebody has left.
    Waits(BootTime),
}

impl StrangerTable {
    pub fn new(bounds: Bounds) -> StrangerTable {
        StrangerTable {
            bounds,
            last: 0,
            taken: BTreeMap::new(),
            leaving: BTreeSet::new(),
            known: BTreeMap::new(),
        }
    }

    /// Somebody comes. When all places are taken the oldest goes of the origin that has the most: so one host cannot take
    /// another's place, nor can many hosts of one network take the place of other networks.
    pub fn arrive(&mut self, origin: &Origin, now: BootTime) -> Arrival {
        let Bounds { all, for_known } = self.bounds;
        let is_known = self.known.contains_key(origin);
        let strangers = self.taken.values().filter(|it| !it.is_known).count();
        let is_full = self.taken.len() >= all || (!is_known && strangers >= all - for_known);
        let instead_of = match is_full {
            false => None,
            true => self.least_worthy(origin, is_known),
        };
        // Descriptors of those who were told to go are bounded as well.
        let soonest = now + PLACE_LEAST;
        if is_full && self.leaving.len() >= all {
            return Arrival::Waits(soonest);
        }
        if let Some(number) = instead_of {
            let has_until = self.taken[&number].since + PLACE_LEAST;
            if has_until > now {
                return Arrival::Waits(has_until);
            }
            self.taken.remove(&number);
            self.leaving.insert(number);
        }
        self.last += 1;
        let taken = Stranger {
            origin: origin.clone(),
            is_known,
            since: now,
        };
        self.taken.insert(self.last, taken);
        Arrival::Enters {
            number: self.last,
            instead_of,
        }
    }

    /// The one who goes for somebody from `newcomer`: a stranger if there is one.
    fn least_worthy(&self, newcomer: &Origin, is_known: bool) -> Option<StrangerId> {
        let has_strangers = self.taken.values().any(|it| !it.is_known);
        let is_candidate = |it: &Stranger| it.is_known != has_strangers;
        let mut networks: BTreeMap<Network, usize> = BTreeMap::new();
        let mut origins: BTreeMap<&Origin, usize> = BTreeMap::new();
        // Who comes counts with those of its own kind that are there.
        let comes = (is_known != has_strangers).then_some(newcomer);
        let there = self.taken.values().filter(|it| is_candidate(it));
        for origin in there.map(|it| &it.origin).chain(comes) {
            *networks.entry(origin.network()).or_default() += 1;
            *origins.entry(origin).or_default() += 1;
        }
        let candidates = self.taken.iter().filter(|(_, it)| is_candidate(it));
        let worst = candidates.max_by_key(|(number, it)| {
            let network = networks[&it.origin.network()];
            (network, origins[&it.origin], Reverse(**number))
        });
        worst.map(|(number, _)| *number)
    }

    pub fn leave(&mut self, number: StrangerId) {
        self.taken.remove(&number);
        self.leaving.remove(&number);
    }

    /// This origin is known from here on.
    pub fn proved(&mut self, origin: &Origin) {
        self.last += 1;
        self.known.insert(origin.clone(), self.last);
        if self.known.len() > KNOWN_ORIGINS {
            let longest_ago = self.known.iter().min_by_key(|(_, when)| **when);
            if let Some(longest_ago) = longest_ago.map(|(origin, _)| origin.clone()) {
                self.known.remove(&longest_ago);
            }
        }
    }

    pub fn taken(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BOUNDS: Bounds = Bounds {
        all: 8,
        for_known: 2,
    };

    struct Scene {
        places: StrangerTable,
        now: BootTime,
    }

    impl Scene {
        fn new() -> Scene {
            Scene {
                places: StrangerTable::new(BOUNDS),
                now: BootTime(1_000_000_000),
            }
        }

        /// Comes when all have had their least time.
        fn comes(&mut self, host: &str) -> (StrangerId, Option<StrangerId>) {
            self.now = self.now + Duration::from_secs(1);
            match self.places.arrive(&origin(host), self.now) {
                Arrival::Enters { number, instead_of } => {
                    if let Some(gone) = instead_of {
                        self.places.leave(gone);
                    }
                    (number, instead_of)
                }
                waits => panic!("{waits:?}"),
            }
        }

        fn hosts(&self) -> Vec<String> {
            let taken = self.places.taken.values();
            taken.map(|it| it.origin.to_string()).collect()
        }
    }

    fn origin(host: &str) -> Origin {
        Origin::of(&format!("{host}:1"))
    }

    #[test]
    fn the_oldest_of_the_origin_that_has_the_most_goes() {
        let mut scene = Scene::new();
        let strangers: Vec<StrangerId> = (0..5).map(|_| scene.comes("10.0.0.3").0).collect();
        let (quiet, _) = scene.comes("10.1.0.1");
        // Six places are for strangers.
        for expected in &strangers[..3] {
            assert_eq!(scene.comes("10.0.0.3").1, Some(*expected));
        }
        assert_eq!(scene.comes("10.2.0.1").1, Some(strangers[3]));
        assert!(scene.places.taken.contains_key(&quiet));
    }

    #[test]
    fn places_are_kept_for_origins_that_proved_something() {
        let mut scene = Scene::new();
        scene.places.proved(&origin("10.0.0.9"));
        for _ in 0..20 {
            scene.comes("10.0.0.3");
        }
        assert_eq!(scene.hosts().len(), 6);
        assert_eq!(scene.comes("10.0.0.9").1, None);
        assert_eq!(scene.comes("10.0.0.9").1, None);
        // Known ones take strangers' places; strangers never take theirs.
        assert!(scene.comes("10.0.0.9").1.is_some());
        for _ in 0..20 {
            scene.comes("10.0.0.3");
            scene.comes("10.5.0.3");
        }
        let known = scene.hosts().iter().filter(|it| **it == "10.0.0.9").count();
        assert_eq!(known, 3);
        // And among known ones alone it is as among strangers.
        for _ in 0..20 {
            scene.comes("10.0.0.9");
        }
        assert_eq!(scene.hosts(), ["10.0.0.9"; 8]);
    }

    #[test]
    fn many_hosts_of_one_network_are_no_more_than_one() {
        let mut scene = Scene::new();
        let (quiet, _) = scene.comes("10.1.0.1");
        for host in 1..200 {
            scene.comes(&format!("10.0.0.{host}"));
        }
        for part in 1..200 {
            scene.comes(&format!("[2001:db8:1:{part:x}::1]"));
        }
        assert!(scene.places.taken.contains_key(&quiet));
    }

    #[test]
    fn everybody_has_a_moment_to_speak() {
        let mut scene = Scene::new();
        let begun = scene.now;
        for _ in 0..6 {
            let arrival = scene.places.arrive(&origin("10.0.0.3"), begun);
            assert!(matches!(arrival, Arrival::Enters { .. }));
        }
        let until = begun + PLACE_LEAST;
        let arrival = scene.places.arrive(&origin("10.0.0.4"), begun);
        assert_eq!(arrival, Arrival::Waits(until));
        let arrival = scene.places.arrive(&origin("10.0.0.4"), until);
        let instead_of = Some(1);
        assert_eq!(
            arrival,
            Arrival::Enters {
                number: 7,
                instead_of
            }
        );
    }

    #[test]
    fn who_was_told_to_go_and_stays_is_waited_for_in_the_end() {
        let mut scene = Scene::new();
        let mut entered = 0;
        loop {
            scene.now = scene.now + Duration::from_secs(1);
            match scene.places.arrive(&origin("10.0.0.3"), scene.now) {
                Arrival::Enters { .. } => entered += 1,
                Arrival::Waits(_) => break,
            }
        }
        assert_eq!(entered, 6 + BOUNDS.all);
        scene.places.leave(1);
        assert_eq!(scene.places.taken(), 6);
        scene.comes("10.0.0.3");
    }

    #[test]
    fn so_many_origins_are_remembered_and_no_more() {
        let mut scene = Scene::new();
        for host in 0..KNOWN_ORIGINS + 10 {
            let host = format!("10.{}.{}.1", host >> 8, host & 255);
            scene.places.proved(&origin(&host));
        }
        assert_eq!(scene.places.known.len(), KNOWN_ORIGINS);
        assert!(!scene.places.known.contains_key(&origin("10.0.0.1")));
    }
}
