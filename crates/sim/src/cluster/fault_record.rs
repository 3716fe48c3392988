//! The faults that hit the cluster, and which failures of a program each of them excuses.
//!
//! An error without an excuse is a broken promise: servers and connections may fail and return, and no program notices. A fault
//! excuses what SEMANTICS says of it, and during its time alone; where a seed has one kind of fault, only that kind excuses.

use super::client_host::Failure;
use super::fault_plan::{FaultKind, FaultPlan};
use gupfs_proto::FsError;
use gupfs_proto::capability::CapabilityFault;
use gupfs_proto::error::ObjectDamage;
use parking_lot::Mutex;

/// The server ends a client's session after 22 seconds without a message; the client sends one every 5, and needs some
/// to reconnect.
const SILENCE_ENDS_SESSION: u64 = 8_000;

/// A client learns that its session has ended when it reaches the metadata server again; that server may be starting
/// just then, waiting for clients that do not reconnect.
const SESSION_END_KNOWN_AFTER: u64 = 60_000;

/// A waiting request fails after 60 seconds.
const REQUEST_TIMEOUT: u64 = 55_000;

/// When a disk has free space again, or is replaced, the metadata server learns it within some seconds, or when it
/// reaches the object server again.
const DISK_STATE_KNOWN_AFTER: u64 = 65_000;

/// Changes answered so long before a power loss of the metadata server are on its disk: it syncs every 20 ms, and
/// loses power at the latest two seconds after its disk has died or failed.
pub const SYNCED_AFTER: u64 = 4_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    MetadataDisk = 0,
    ObjectDisk = 1,
    Full = 2,
}

pub struct FaultRecord {
    plan: FaultPlan,
    state: Mutex<FaultState>,
}

/// Begin and end of a fault; without an end it still lasts.
type Span = (u64, Option<u64>);

struct FaultState {
    power_losses: PowerLosses,
    spans: [Vec<Span>; 3],
    /// Power losses of the metadata server, and those of them that may undo something.
    metadata_power_losses: Vec<u64>,
    undoing: Vec<u64>,
    /// For each client, the times when a fault kept it from the metadata server.
    isolated: Vec<Vec<Span>>,
    /// How many clients are dead or partitioned from the metadata server, and whether none may become so now.
    disturbed: u64,
    clients_stay: bool,
}

/// Number of power losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PowerLosses {
    pub metadata: u64,
    /// Those of the metadata server at which not all clients lived and reached it.
    pub undoing: u64,
    pub objects: u64,
}

impl PowerLosses {
    /// Whether no power loss since `before` can have undone an answered change.
    pub fn undo_nothing_since(self, before: PowerLosses) -> bool {
        (self.undoing, self.objects) == (before.undoing, before.objects)
    }
}

/// A program's call: its client, the session in which it began, and when; `late` if it may report an earlier failure
/// (fsync).
#[derive(Clone, Copy)]
pub struct FailedCall {
    pub client: usize,
    /// When its session was found to have ended, if it was.
    pub ended: Option<u64>,
    pub since: u64,
    pub now: u64,
    pub late: bool,
}

impl FaultRecord {
    pub fn new(clients: usize, plan: FaultPlan) -> FaultRecord {
        FaultRecord {
            plan,
            state: Mutex::new(FaultState {
                power_losses: PowerLosses::default(),
                spans: Default::default(),
                metadata_power_losses: Vec::new(),
                undoing: Vec::new(),
                isolated: vec![Vec::new(); clients],
                disturbed: 0,
                clients_stay: false,
            }),
        }
    }

    pub fn plan(&self) -> FaultPlan {
        self.plan
    }

    pub fn power_losses(&self) -> PowerLosses {
        self.state.lock().power_losses
    }

    /// `undoes`: not all clients live and reach the server, or may not until it has started.
    pub fn metadata_power_loss(&self, now: u64, undoes: bool) {
        let mut state = self.state.lock();
        state.power_losses.metadata += 1;
        state.metadata_power_losses.push(now);
        if undoes {
            state.power_losses.undoing += 1;
            state.undoing.push(now);
        }
    }

    pub fn object_power_loss(&self) {
        self.state.lock().power_losses.objects += 1;
    }

    /// When the first power loss of the metadata server after the first `count` of them was.
    pub fn metadata_power_loss_after(&self, count: u64) -> Option<u64> {
        self.state
            .lock()
            .metadata_power_losses
            .get(count as usize)
            .copied()
    }

    pub fn begin_disk_fault(&self, fault: DiskFault, now: u64) {
        self.state.lock().spans[fault as usize].push((now, None));
    }

    pub fn end_disk_fault(&self, fault: DiskFault, now: u64) {
        let mut state = self.state.lock();
        for (_, until) in &mut state.spans[fault as usize] {
            until.get_or_insert(now);
        }
    }

    pub fn isolated(&self, client: usize, now: u64) {
        self.state.lock().isolated[client].push((now, None));
    }

    pub fn reconnected(&self, client: usize, now: u64) {
        let mut state = self.state.lock();
        for (_, until) in &mut state.isolated[client] {
            until.get_or_insert(now);
        }
    }

    /// Reserves the death of a client, or its partition from the metadata server. False while all clients must stay;
    /// else the caller must call `end_client_fault` when the client is back.
    #[must_use]
    pub fn reserve_client_fault(&self) -> bool {
        let mut state = self.state.lock();
        if state.clients_stay {
            return false;
        }
        state.disturbed += 1;
        true
    }

    pub fn end_client_fault(&self) {
        self.state.lock().disturbed -= 1;
    }

    /// Whether all clients live and reach the metadata server: then they do until `release_clients`.
    #[must_use]
    pub fn hold_clients(&self) -> bool {
        let mut state = self.state.lock();
        state.clients_stay = state.disturbed == 0;
        state.clients_stay
    }

    pub fn release_clients(&self) {
        self.state.lock().clients_stay = false;
    }

    /// Whether a fault explains that this client's session was found at `when` to have ended.
    pub fn may_have_ended(&self, client: usize, when: u64) -> bool {
        if !matches!(
            self.plan,
            FaultPlan::Mixed { .. } | FaultPlan::Only(FaultKind::LongPartitions)
        ) {
            return false;
        }
        let state = self.state.lock();
        let mut undoing = state.undoing.iter();
        let after_cut = undoing.any(|at| (*at..at + SESSION_END_KNOWN_AFTER).contains(&when));
        let isolated = state.isolated.get(client).into_iter().flatten();
        let silent_time: u64 = isolated
            .filter(|(from, until)| {
                *from <= when && until.is_none_or(|until| until + SESSION_END_KNOWN_AFTER >= when)
            })
            .map(|(from, until)| until.unwrap_or(when).min(when) - from)
            .sum();
        after_cut || silent_time >= SILENCE_ENDS_SESSION
    }

    /// Whether a fault excuses that a call failed.
    pub fn is_excused(&self, failure: &Failure, call: FailedCall) -> bool {
        let refusal = match failure {
            Failure::Killed => return true,
            Failure::Refused(refusal) => refusal,
        };
        let was = |fault: DiskFault, known_after: u64| {
            let state = self.state.lock();
            let (since, now) = (call.since.saturating_sub(known_after), call.now);
            let mut spans = state.spans[fault as usize].iter();
            spans.any(|(from, until)| *from <= now && until.is_none_or(|until| until >= since))
        };
        match refusal {
            // All three are ESTALE.
            FsError::SessionEnded
            | FsError::Stale
            | FsError::Capability(CapabilityFault::Fenced) => {
                let ended = call.ended.filter(|when| *when <= call.now);
                ended.is_some_and(|when| self.may_have_ended(call.client, when))
            }
            FsError::TimedOut(_) => {
                let waits = matches!(
                    self.plan,
                    FaultPlan::Mixed { .. } | FaultPlan::Only(FaultKind::LongPartitions)
                );
                waits && (call.now - call.since >= REQUEST_TIMEOUT || call.late)
            }
            FsError::StoreFailed(_) => {
                let late = if call.late { DISK_STATE_KNOWN_AFTER } else { 0 };
                was(DiskFault::MetadataDisk, late) || was(DiskFault::ObjectDisk, late)
            }
            FsError::TargetDown { .. } => was(DiskFault::ObjectDisk, DISK_STATE_KNOWN_AFTER),
            FsError::NoSpace => was(DiskFault::Full, DISK_STATE_KNOWN_AFTER),
            _ => call.late && self.power_losses().objects > 0 && is_loss(failure),
        }
    }
}

/// Whether the failure reports that an object server lost power before something was synced.
pub fn is_loss(failure: &Failure) -> bool {
    let Failure::Refused(FsError::ObjectDamaged { damage, .. }) = failure else {
        return false;
    };
    *damage == ObjectDamage::Unsynced
}
