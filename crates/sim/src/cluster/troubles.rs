//! What happened to the cluster, and which failures of a program that excuses.
//!
//! An error without an excuse is a broken promise: servers may come and go, and connections, and no program notices.

use super::machine::Failure;
use gupfs_proto::Refusal;
use gupfs_proto::refusal::ObjectDamage;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A client is ended that was not heard of for 22 seconds; it speaks every 5, and finds its way back within some.
const CUT_ENDS: u64 = 8_000;

/// What a cut or a lost session leads to has shown by then: others wait for it as long as 60 seconds.
const LONG: u64 = 200_000;

/// What waits is told so after 60 seconds.
const PATIENCE: u64 = 55_000;

/// What a metadata server's power cut does to the sessions that had seen more than it kept. With the replay of what was
/// answered they would live on: then this is to be `Replayed`.
const AFTER_POWER_CUT: AfterPowerCut = AfterPowerCut::Ended;

#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // one of them is what is promised now
enum AfterPowerCut {
    /// They are ended: what was open is stale, and answered names that were not synced are gone.
    Ended,
    /// They live on.
    Replayed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    MetadataDisk = 0,
    ObjectDisk = 1,
    Full = 2,
}

pub struct Troubles {
    /// Power cuts so far: of the metadata server, of object servers.
    metadata_cuts: AtomicU64,
    object_cuts: AtomicU64,
    seen: Mutex<Seen>,
}

struct Seen {
    /// When each was there last.
    last: [Option<u64>; 3],
    last_metadata_cut: Option<u64>,
    /// For each client, from when until when something kept it from the metadata server.
    cut_off: Vec<Vec<(u64, Option<u64>)>>,
}

/// How many power cuts there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    pub metadata: u64,
    pub objects: u64,
}

impl Troubles {
    pub fn new(clients: usize) -> Troubles {
        Troubles {
            metadata_cuts: AtomicU64::new(0),
            object_cuts: AtomicU64::new(0),
            seen: Mutex::new(Seen {
                last: [None; 3],
                last_metadata_cut: None,
                cut_off: vec![Vec::new(); clients],
            }),
        }
    }

    pub fn cuts(&self) -> Cuts {
        Cuts {
            metadata: self.metadata_cuts.load(SeqCst),
            objects: self.object_cuts.load(SeqCst),
        }
    }

    pub fn metadata_cut(&self, now: u64) {
        self.metadata_cuts.fetch_add(1, SeqCst);
        self.seen.lock().last_metadata_cut = Some(now);
    }

    pub fn object_cut(&self) {
        self.object_cuts.fetch_add(1, SeqCst);
    }

    pub fn is_there(&self, what: Trouble, now: u64) {
        let mut seen = self.seen.lock();
        let last = &mut seen.last[what as usize];
        *last = Some(last.unwrap_or(0).max(now));
    }

    pub fn cut_off(&self, client: usize, now: u64) {
        self.seen.lock().cut_off[client].push((now, None));
    }

    pub fn back(&self, client: usize, now: u64) {
        let mut seen = self.seen.lock();
        for (_, until) in &mut seen.cut_off[client] {
            until.get_or_insert(now);
        }
    }

    /// Whether this client's session may have been ended a short while ago.
    pub fn may_have_ended(&self, client: usize, now: u64) -> bool {
        let seen = self.seen.lock();
        let after_cut = AFTER_POWER_CUT == AfterPowerCut::Ended
            && seen.last_metadata_cut.is_some_and(|at| at + LONG >= now);
        let recently = seen.cut_off[client]
            .iter()
            .filter(|(_, until)| until.is_none_or(|until| until + LONG >= now));
        let cut_off: u64 = recently
            .map(|(from, until)| until.unwrap_or(now) - from)
            .sum();
        after_cut || cut_off >= CUT_ENDS
    }

    /// Whether what happened excuses that a call failed which began at `since`. `late`: the call may tell of something that
    /// failed before (fsync).
    pub fn excuse(
        &self,
        client: usize,
        failure: &Failure,
        (since, now): (u64, u64),
        late: bool,
    ) -> bool {
        let recent = |what: Trouble| {
            let last = self.seen.lock().last[what as usize];
            last.is_some_and(|last| last + LONG >= now)
        };
        let refusal = match failure {
            Failure::Killed => return true,
            Failure::Refused(refusal) => refusal,
        };
        match refusal {
            Refusal::SessionEnded | Refusal::Stale => self.may_have_ended(client, now),
            Refusal::TimedOut(_) => now - since >= PATIENCE || late,
            Refusal::StoreFailed(_) => recent(Trouble::MetadataDisk) || recent(Trouble::ObjectDisk),
            Refusal::TargetDown { .. } => recent(Trouble::ObjectDisk),
            Refusal::NoSpace => recent(Trouble::Full),
            _ => late && self.cuts().objects > 0 && is_loss(failure),
        }
    }
}

/// Whether it tells that an object server lost power before something was synced.
pub fn is_loss(failure: &Failure) -> bool {
    let Failure::Refused(Refusal::ObjectDamaged { what, .. }) = failure else {
        return false;
    };
    *what == ObjectDamage::Unsynced
}
