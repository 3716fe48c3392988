//! The faults that hit the cluster, and which failures of a program each of them excuses.
//!
//! An error without an excuse is a broken promise: servers and connections may fail and return, and no program notices. A fault
//! excuses what SEMANTICS says of it, and during its time alone; where a seed has one kind of fault, only that kind excuses.

use super::machine::Failure;
use super::plan::{Kind, Plan};
use gupfs_proto::FsError;
use gupfs_proto::capability::CapabilityFault;
use gupfs_proto::error::ObjectDamage;
use parking_lot::Mutex;

/// The server ends a client's session after 22 seconds without a message; the client sends one every 5, and needs some
/// to reconnect.
const CUT_ENDS: u64 = 8_000;

/// A client learns that its session has ended when it reaches the metadata server again; that server may be starting
/// just then, waiting for clients that do not reconnect.
const TOLD_LATE: u64 = 60_000;

/// A waiting request fails after 60 seconds.
const PATIENCE: u64 = 55_000;

/// When a disk has free space again, or is replaced, the metadata server learns it within some seconds, or when it
/// reaches the object server again.
const HEARD_LATE: u64 = 65_000;

/// Changes answered so long before a power loss of the metadata server are on its disk: it syncs every 20 ms, and
/// loses power at the latest two seconds after its disk has died or failed.
pub const SYNCED: u64 = 4_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    MetadataDisk = 0,
    ObjectDisk = 1,
    Full = 2,
}

pub struct Troubles {
    plan: Plan,
    seen: Mutex<Seen>,
}

/// Begin and end of a fault; without an end it still lasts.
type Span = (u64, Option<u64>);

struct Seen {
    cuts: Cuts,
    spans: [Vec<Span>; 3],
    /// Power losses of the metadata server, and those of them that may undo something.
    metadata_cuts: Vec<u64>,
    undoing: Vec<u64>,
    /// For each client, the times when a fault kept it from the metadata server.
    cut_off: Vec<Vec<Span>>,
    /// How many clients are dead or partitioned from the metadata server, and whether none may become so now.
    disturbed: u64,
    clients_stay: bool,
}

/// Number of power losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    pub metadata: u64,
    /// Those of the metadata server at which not all clients lived and reached it.
    pub undoing: u64,
    pub objects: u64,
}

impl Cuts {
    /// Whether no power loss since `before` can have undone an answered change.
    pub fn undo_nothing_since(self, before: Cuts) -> bool {
        (self.undoing, self.objects) == (before.undoing, before.objects)
    }
}

/// A program's call: its client, the session in which it began, and when; `late` if it may report an earlier failure
/// (fsync).
#[derive(Clone, Copy)]
pub struct Asked {
    pub client: usize,
    /// When its session was found to have ended, if it was.
    pub ended: Option<u64>,
    pub since: u64,
    pub now: u64,
    pub late: bool,
}

impl Troubles {
    pub fn new(clients: usize, plan: Plan) -> Troubles {
        Troubles {
            plan,
            seen: Mutex::new(Seen {
                cuts: Cuts::default(),
                spans: Default::default(),
                metadata_cuts: Vec::new(),
                undoing: Vec::new(),
                cut_off: vec![Vec::new(); clients],
                disturbed: 0,
                clients_stay: false,
            }),
        }
    }

    pub fn plan(&self) -> Plan {
        self.plan
    }

    pub fn cuts(&self) -> Cuts {
        self.seen.lock().cuts
    }

    /// `undoes`: not all clients live and reach the server, or may not until it has started.
    pub fn metadata_cut(&self, now: u64, undoes: bool) {
        let mut seen = self.seen.lock();
        seen.cuts.metadata += 1;
        seen.metadata_cuts.push(now);
        if undoes {
            seen.cuts.undoing += 1;
            seen.undoing.push(now);
        }
    }

    pub fn object_cut(&self) {
        self.seen.lock().cuts.objects += 1;
    }

    /// When the first power loss of the metadata server after the first `count` of them was.
    pub fn metadata_cut_after(&self, count: u64) -> Option<u64> {
        self.seen.lock().metadata_cuts.get(count as usize).copied()
    }

    pub fn begins(&self, what: Trouble, now: u64) {
        self.seen.lock().spans[what as usize].push((now, None));
    }

    pub fn is_over(&self, what: Trouble, now: u64) {
        let mut seen = self.seen.lock();
        for (_, until) in &mut seen.spans[what as usize] {
            until.get_or_insert(now);
        }
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

    /// Reserves the death of a client, or its partition from the metadata server. False while all clients must stay;
    /// else the caller must call `is_undisturbed` when the client is back.
    #[must_use]
    pub fn disturbs(&self) -> bool {
        let mut seen = self.seen.lock();
        if seen.clients_stay {
            return false;
        }
        seen.disturbed += 1;
        true
    }

    pub fn is_undisturbed(&self) {
        self.seen.lock().disturbed -= 1;
    }

    /// Whether all clients live and reach the metadata server: then they do until `may_be_disturbed`.
    #[must_use]
    pub fn all_stay(&self) -> bool {
        let mut seen = self.seen.lock();
        seen.clients_stay = seen.disturbed == 0;
        seen.clients_stay
    }

    pub fn may_be_disturbed(&self) {
        self.seen.lock().clients_stay = false;
    }

    /// Whether a fault explains that this client's session was found at `when` to have ended.
    pub fn may_have_ended(&self, client: usize, when: u64) -> bool {
        if !matches!(self.plan, Plan::Mixed { .. } | Plan::Only(Kind::LongCuts)) {
            return false;
        }
        let seen = self.seen.lock();
        let mut undoing = seen.undoing.iter();
        let after_cut = undoing.any(|at| (*at..at + TOLD_LATE).contains(&when));
        let cut_off = seen.cut_off.get(client).into_iter().flatten();
        let silent: u64 = cut_off
            .filter(|(from, until)| {
                *from <= when && until.is_none_or(|until| until + TOLD_LATE >= when)
            })
            .map(|(from, until)| until.unwrap_or(when).min(when) - from)
            .sum();
        after_cut || silent >= CUT_ENDS
    }

    /// Whether a fault excuses that a call failed.
    pub fn excuse(&self, failure: &Failure, asked: Asked) -> bool {
        let refusal = match failure {
            Failure::Killed => return true,
            Failure::Refused(refusal) => refusal,
        };
        let was = |what: Trouble, heard: u64| {
            let seen = self.seen.lock();
            let (since, now) = (asked.since.saturating_sub(heard), asked.now);
            let mut spans = seen.spans[what as usize].iter();
            spans.any(|(from, until)| *from <= now && until.is_none_or(|until| until >= since))
        };
        match refusal {
            // All three are ESTALE.
            FsError::SessionEnded
            | FsError::Stale
            | FsError::Capability(CapabilityFault::Fenced) => {
                let ended = asked.ended.filter(|when| *when <= asked.now);
                ended.is_some_and(|when| self.may_have_ended(asked.client, when))
            }
            FsError::TimedOut(_) => {
                let waits = matches!(self.plan, Plan::Mixed { .. } | Plan::Only(Kind::LongCuts));
                waits && (asked.now - asked.since >= PATIENCE || asked.late)
            }
            FsError::StoreFailed(_) => {
                let late = if asked.late { HEARD_LATE } else { 0 };
                was(Trouble::MetadataDisk, late) || was(Trouble::ObjectDisk, late)
            }
            FsError::TargetDown { .. } => was(Trouble::ObjectDisk, HEARD_LATE),
            FsError::NoSpace => was(Trouble::Full, HEARD_LATE),
            _ => asked.late && self.cuts().objects > 0 && is_loss(failure),
        }
    }
}

/// Whether the failure reports that an object server lost power before something was synced.
pub fn is_loss(failure: &Failure) -> bool {
    let Failure::Refused(FsError::ObjectDamaged { damage: what, .. }) = failure else {
        return false;
    };
    *what == ObjectDamage::Unsynced
}
