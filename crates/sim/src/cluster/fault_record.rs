//! # fault_record: the injected faults, and the failures of calls that they excuse
//!
//! Owns   the times of disk faults, power losses and partitions; the reservation of client faults.
//! Never  excuses a failure that SEMANTICS does not name for a fault, or that happens outside the time of the fault. Servers
//!        and connections may fail and return without an error at any program.
//! Enter  at `FaultRecord::is_excused` for a failed call; `faults` reports what it injects.

use super::client_host::Failure;
use super::fault_plan::{FaultKind, FaultPlan};
use gupfs_proto::capability::CapabilityFault;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, OstId};
use parking_lot::Mutex;

/// Silence of a client after which its session may end, in milliseconds. The server ends a session after 22 seconds without a
/// message; the client sends one every 5 seconds and needs some to reconnect.
const SILENCE_ENDS_SESSION: u64 = 8_000;

/// A client learns that its session has ended when it reaches the metadata server again. That server may be starting then, and
/// wait for clients that do not reconnect.
const SESSION_END_KNOWN_AFTER: u64 = 60_000;

/// A waiting request fails after 60 seconds.
const REQUEST_TIMEOUT: u64 = 55_000;

/// The metadata server learns within some seconds that a disk has free space again or was replaced, or when it reaches the
/// object server again.
const DISK_STATE_KNOWN_AFTER: u64 = 65_000;

/// A change that was answered this long before a power loss of the metadata server is on its disk: the server syncs every 20
/// ms, and loses power at the latest two seconds after its disk failed.
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

/// Begin and end of a fault; a fault without an end still lasts.
type Span = (u64, Option<u64>);

struct FaultState {
    power_losses: PowerLosses,
    spans: [Vec<Span>; 3],
    /// Times of the metadata server's power losses, and of those that may undo answered changes.
    metadata_power_losses: Vec<u64>,
    undoing_power_losses: Vec<u64>,
    /// The times in which a fault separated each client from the metadata server, or froze the client.
    isolated: Vec<Vec<Span>>,
    /// Number of clients that are dead or partitioned from the metadata server, and whether no further client may become so.
    absent_clients: u64,
    clients_stay: bool,
    /// Number of failures of object servers, each while no other one failed, and of those among them that lost bytes or failed to sync them.
    object_failures: u64,
    single_losses: u64,
    /// Object servers have lost bytes that clients may keep.
    has_lost_cached_bytes: bool,
}

/// Numbers of power losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PowerLosses {
    pub metadata: u64,
    /// Power losses of the metadata server while a client was dead or did not reach it.
    pub undoing: u64,
    pub objects: u64,
}

impl PowerLosses {
    /// Whether no power loss since `before` can have undone an answered change.
    pub fn undo_nothing_since(self, before: PowerLosses) -> bool {
        (self.undoing, self.objects) == (before.undoing, before.objects)
    }
}

/// A failed call of a program.
#[derive(Clone, Copy)]
pub struct FailedCall {
    pub client: usize,
    /// The time at which a reply said that the client's session had ended.
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
                undoing_power_losses: Vec::new(),
                isolated: vec![Vec::new(); clients],
                absent_clients: 0,
                clients_stay: false,
                object_failures: 0,
                single_losses: 0,
                has_lost_cached_bytes: false,
            }),
        }
    }

    pub fn plan(&self) -> FaultPlan {
        self.plan
    }

    pub fn power_losses(&self) -> PowerLosses {
        self.state.lock().power_losses
    }

    /// `undoes`: a client is dead or does not reach the server, or may become so before the server has started again.
    pub fn metadata_power_loss(&self, now: u64, undoes: bool) {
        let mut state = self.state.lock();
        state.power_losses.metadata += 1;
        state.metadata_power_losses.push(now);
        if undoes {
            state.power_losses.undoing += 1;
            state.undoing_power_losses.push(now);
        }
    }

    pub fn object_power_loss(&self) {
        let mut state = self.state.lock();
        state.power_losses.objects += 1;
        state.has_lost_cached_bytes = true;
    }

    /// An object server fails while all others serve. `loses`: it loses unsynced bytes, or fails to sync them.
    pub fn single_object_failure(&self, loses: bool) {
        let state = &mut *self.state.lock();
        state.object_failures += 1;
        state.single_losses += u64::from(loses);
    }

    /// A client may have lost bytes that no object server had, and no other client knows.
    pub fn loss_of_unsent_bytes(&self) {
        self.state.lock().power_losses.objects += 1;
    }

    /// Whether a client may keep bytes that an object server has lost: until it reads them again it shows what is lost.
    pub fn has_lost_cached_bytes(&self) -> bool {
        self.state.lock().has_lost_cached_bytes
    }

    /// The time of the first power loss of the metadata server after the first `count` ones.
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

    /// A fault separates a client from the metadata server, or freezes it, from now on. Returns the number of the isolation, for
    /// `isolation_ended`.
    pub fn client_isolated(&self, client: usize, now: u64) -> usize {
        let isolated = &mut self.state.lock().isolated[client];
        isolated.push((now, None));
        isolated.len() - 1
    }

    pub fn isolation_ended(&self, client: usize, number: usize, now: u64) {
        self.state.lock().isolated[client][number].1 = Some(now);
    }

    /// Reserves the end or the freeze of a client, or its partition from the metadata server. Returns false while all clients must stay;
    /// otherwise the caller must call `end_client_fault` when the client is back.
    #[must_use]
    pub fn reserve_client_fault(&self) -> bool {
        let mut state = self.state.lock();
        if state.clients_stay {
            return false;
        }
        state.absent_clients += 1;
        true
    }

    pub fn end_client_fault(&self) {
        self.state.lock().absent_clients -= 1;
    }

    /// Returns whether all clients live and reach the metadata server. If so, no client fault begins until `release_clients`.
    #[must_use]
    pub fn hold_clients(&self) -> bool {
        let mut state = self.state.lock();
        state.clients_stay = state.absent_clients == 0;
        state.clients_stay
    }

    /// Whether no client can be absent now: they are held, or the seed has no fault of a client or of its links.
    pub fn all_clients_stay(&self) -> bool {
        let has_no_absence = self.plan == FaultPlan::Only(FaultKind::MetadataCopies);
        has_no_absence || self.state.lock().clients_stay
    }

    pub fn release_clients(&self) {
        self.state.lock().clients_stay = false;
    }

    /// Whether a fault explains a reply at `when` which said that this client's session had ended.
    pub fn may_have_ended(&self, client: usize, when: u64) -> bool {
        if !matches!(
            self.plan,
            FaultPlan::Mixed { .. }
                | FaultPlan::Only(FaultKind::LongPartitions | FaultKind::Freezes)
        ) {
            return false;
        }
        let state = self.state.lock();
        let mut undoing_power_losses = state.undoing_power_losses.iter();
        let after_power_loss =
            undoing_power_losses.any(|at| (*at..at + SESSION_END_KNOWN_AFTER).contains(&when));
        let isolated = state.isolated.get(client).into_iter().flatten();
        let silent_time: u64 = isolated
            .filter(|(from, until)| {
                *from <= when && until.is_none_or(|until| until + SESSION_END_KNOWN_AFTER >= when)
            })
            .map(|(from, until)| until.unwrap_or(when).min(when) - from)
            .sum();
        after_power_loss || silent_time >= SILENCE_ENDS_SESSION
    }

    /// Whether a fault excuses the failure.
    pub fn is_excused(&self, failure: &Failure, call: FailedCall) -> bool {
        let refusal = match failure {
            Failure::Killed => return true,
            Failure::ShortWrite => {
                let mut reasons = reasons_of_short_writes().map(Failure::Refused).into_iter();
                return reasons.any(|reason| self.is_excused(&reason, call));
            }
            Failure::Refused(refusal) => refusal,
        };
        let lasted = |fault: DiskFault, known_after: u64| {
            let state = self.state.lock();
            let (since, now) = (call.since.saturating_sub(known_after), call.now);
            let mut spans = state.spans[fault as usize].iter();
            spans.any(|(from, until)| *from <= now && until.is_none_or(|until| until >= since))
        };
        if self.plan == FaultPlan::OneAtATime {
            let counts = matches!(
                refusal,
                FsError::TargetDown { .. } | FsError::StoreFailed(_)
            );
            // A client does not learn that a member was made equal after it had lost what the client has not synced yet
            // (docs/decisions, mirrors). It reports a loss if the other member's server has failed, too.
            let state = self.state.lock();
            let in_turn = state.object_failures >= 2 && state.single_losses >= 1;
            return call.late && (counts || is_loss(failure)) && in_turn;
        }
        match refusal {
            // All three become ESTALE.
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
                lasted(DiskFault::MetadataDisk, late) || lasted(DiskFault::ObjectDisk, late)
            }
            FsError::TargetDown { .. } => lasted(DiskFault::ObjectDisk, DISK_STATE_KNOWN_AFTER),
            FsError::NoSpace => lasted(DiskFault::Full, DISK_STATE_KNOWN_AFTER),
            _ => call.late && self.power_losses().objects > 0 && is_loss(failure),
        }
    }
}

/// Any of them may end a write whose first bytes are written.
fn reasons_of_short_writes() -> [FsError; 5] {
    let (ost, reason) = (OstId(0), String::new());
    [
        FsError::NoSpace,
        FsError::TargetDown { ost, reason },
        FsError::StoreFailed(String::new()),
        FsError::TimedOut(String::new()),
        FsError::SessionEnded,
    ]
}

/// Whether the failure reports that an object server lost unsynced bytes.
pub fn is_loss(failure: &Failure) -> bool {
    let Failure::Refused(FsError::ObjectDamaged { damage, .. }) = failure else {
        return false;
    };
    *damage == ObjectDamage::Unsynced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_write_is_excused_while_a_disk_is_full_or_fails() {
        let record = FaultRecord::new(1, FaultPlan::Only(FaultKind::MetadataKills));
        let excuses = |since, now| {
            let (client, ended, late) = (0, None, false);
            let call = FailedCall {
                client,
                ended,
                since,
                now,
                late,
            };
            record.is_excused(&Failure::ShortWrite, call)
        };
        assert!(!excuses(0, 10));
        record.begin_disk_fault(DiskFault::Full, 20);
        record.end_disk_fault(DiskFault::Full, 30);
        assert!(excuses(15, 25) && !excuses(10, 19));
        let (later, end) = (100_000, 100_100);
        assert!(!excuses(later, end));
        record.begin_disk_fault(DiskFault::ObjectDisk, later);
        assert!(excuses(later, end));
    }
}
