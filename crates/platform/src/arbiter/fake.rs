//! A register in memory, for the hosts of a simulation, with everything that etcd does and may do: replies that come late or never, changes that
//! happen although their caller was told nothing, a time without a majority, leases that live longer than their term, watches that lag.

use super::{ArbiterError, ArbiterLease, ChangeResult, RegisterState, Revision};
use crate::clock::{BootTime, Clock};
use crate::random::fake::FakeRandom;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What the simulated arbiter does to its callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArbiterFaults {
    /// The longest time before a call arrives, and before its reply does.
    pub delay: Duration,
    /// One call in so many gets no reply: a change is done then, or not, or done later. 0: none.
    pub no_reply: u64,
    /// How late `changed` learns of a change, at most.
    pub watch_lag: Duration,
    /// There is no majority: no call gets a reply, and no change is done.
    pub is_down: bool,
}

/// One host's access to the register. Clones of `FakeArbiter::new` are the same register.
#[derive(Clone)]
pub struct FakeArbiter {
    shared: Arc<FakeRegister>,
    /// The host's clock.
    clock: Clock,
    /// The host does not reach the arbiter.
    is_cut_off: Arc<AtomicBool>,
}

struct FakeRegister {
    state: Mutex<FakeRegisterState>,
    changed: Notify,
    random: FakeRandom,
}

#[derive(Default)]
struct FakeRegisterState {
    faults: ArbiterFaults,
    value: Option<Bytes>,
    revision: u64,
    version: u64,
    holder: Option<u64>,
    given: u64,
    leases: BTreeMap<u64, FakeLease>,
    late: Vec<LateChange>,
    counts: ArbiterCounts,
}

/// A lease, and when it ends unless it is renewed.
struct FakeLease {
    term: Duration,
    until: Instant,
}

/// A change that its caller was told nothing about.
struct LateChange {
    at: Instant,
    expected: Revision,
    value: Bytes,
    lease: Option<u64>,
}

/// Counts of what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArbiterCounts {
    pub changes: u64,
    /// Without a reply: done at once, done later, not done.
    pub done_unanswered: u64,
    pub done_late: u64,
    pub not_done: u64,
    pub leases_ended: u64,
}

impl FakeArbiter {
    pub fn new(seed: u64, clock: Clock) -> FakeArbiter {
        FakeArbiter {
            shared: Arc::new(FakeRegister {
                state: Mutex::default(),
                changed: Notify::new(),
                random: FakeRandom::new(seed),
            }),
            clock,
            is_cut_off: Arc::default(),
        }
    }

    /// The same register for a host with this clock.
    pub fn of_host(&self, clock: Clock) -> FakeArbiter {
        FakeArbiter {
            shared: self.shared.clone(),
            clock,
            is_cut_off: Arc::default(),
        }
    }

    /// From now on this host does not reach the arbiter, or reaches it again. The others do.
    pub fn set_cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, SeqCst);
    }

    pub fn set_faults(&self, faults: ArbiterFaults) {
        self.shared.state.lock().faults = faults;
    }

    pub fn counts(&self) -> ArbiterCounts {
        self.shared.state.lock().counts
    }

    /// Another member leads now: it counts the terms of all leases from the beginning.
    pub fn change_leader(&self) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        state.end_leases(now);
        for lease in state.leases.values_mut() {
            lease.until = now + lease.term;
        }
    }

    pub(super) async fn read(&self) -> Result<RegisterState, ArbiterError> {
        self.request().await?;
        let read = self.at_once(|state| state.register());
        self.reply().await?;
        Ok(read)
    }

    pub(super) async fn change(
        &self,
        expected: Revision,
        value: Bytes,
        lease: Option<&ArbiterLease>,
    ) -> Result<ChangeResult, ArbiterError> {
        self.request().await?;
        let lease = lease.map(|lease| lease.id);
        if self.is_unanswered() {
            self.change_unanswered(expected, value, lease);
            return Err(ArbiterError::Unknown("no reply".to_owned()));
        }
        let result = self.at_once(|state| state.change(expected, value, lease))?;
        self.shared.changed.notify_waiters();
        match self.reply().await {
            Ok(()) => Ok(result),
            Err(error) => Err(ArbiterError::Unknown(error.to_string())),
        }
    }

    fn change_unanswered(&self, expected: Revision, value: Bytes, lease: Option<u64>) {
        let random = &self.shared.random;
        match random.below(3) {
            0 => {
                let done = self.at_once(|state| state.change(expected, value, lease));
                let is_done = matches!(done, Ok(ChangeResult::Done(_)));
                self.shared.state.lock().counts.done_unanswered += u64::from(is_done);
                self.shared.changed.notify_waiters();
            }
            1 => {
                let late = LateChange {
                    at: Instant::now() + Duration::from_millis(random.below(3_000)),
                    expected,
                    value,
                    lease,
                };
                self.shared.state.lock().late.push(late);
                // Those that wait for a change look when it is due.
                self.shared.changed.notify_waiters();
            }
            _ => self.shared.state.lock().counts.not_done += 1,
        }
    }

    pub(super) async fn new_lease(&self, term: Duration) -> Result<ArbiterLease, ArbiterError> {
        self.request().await?;
        let id = self.at_once(|state| {
            state.given += 1;
            let id = state.given;
            let until = Instant::now() + term;
            state.leases.insert(id, FakeLease { term, until });
            id
        });
        self.reply().await?;
        Ok(ArbiterLease { id, term })
    }

    pub(super) async fn renew(&self, lease: &ArbiterLease) -> Result<BootTime, ArbiterError> {
        let sent = self.clock.boot();
        self.request().await?;
        self.at_once(|state| match state.leases.get_mut(&lease.id) {
            Some(alive) => {
                alive.until = alive.until.max(Instant::now() + alive.term);
                Ok(())
            }
            None => Err(ArbiterError::LeaseEnded),
        })?;
        self.reply().await?;
        Ok(super::alive_until(sent, lease.term))
    }

    pub(super) async fn end_lease(&self, lease: &ArbiterLease) -> Result<(), ArbiterError> {
        self.request().await?;
        self.at_once(|state| {
            if state.leases.remove(&lease.id).is_some() {
                state.note_ended(lease.id);
            }
        });
        self.shared.changed.notify_waiters();
        self.reply().await
    }

    pub(super) async fn changed(&self, known: &RegisterState) -> Result<(), ArbiterError> {
        loop {
            let changed = self.shared.changed.notified();
            let (version, next) = self.at_once(|state| (state.version, state.next_event()));
            if version != known.version {
                break;
            }
            let at = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = at => {}
            }
        }
        let lag = self.shared.state.lock().faults.watch_lag;
        self.pause(lag).await;
        Ok(())
    }

    /// Does all that is due before, then this.
    fn at_once<T>(&self, act: impl FnOnce(&mut FakeRegisterState) -> T) -> T {
        let mut state = self.shared.state.lock();
        state.catch_up(Instant::now());
        act(&mut state)
    }

    async fn request(&self) -> Result<(), ArbiterError> {
        let faults = self.shared.state.lock().faults;
        self.pause(faults.delay).await;
        if faults.is_down || self.is_cut_off.load(SeqCst) {
            self.clock.sleep(super::limits::CALL_TIMEOUT).await;
            return Err(ArbiterError::Unavailable("no majority".to_owned()));
        }
        Ok(())
    }

    async fn reply(&self) -> Result<(), ArbiterError> {
        let delay = self.shared.state.lock().faults.delay;
        self.pause(delay).await;
        if self.is_cut_off.load(SeqCst) {
            self.clock.sleep(super::limits::CALL_TIMEOUT).await;
            return Err(ArbiterError::Unavailable("no reply".to_owned()));
        }
        match self.is_unanswered() {
            true => Err(ArbiterError::Unavailable("no reply".to_owned())),
            false => Ok(()),
        }
    }

    fn is_unanswered(&self) -> bool {
        let one_in = self.shared.state.lock().faults.no_reply;
        one_in > 0 && self.shared.random.one_in(one_in)
    }

    async fn pause(&self, most: Duration) {
        let micros = self.shared.random.below(most.as_micros() as u64 + 1);
        if micros > 0 {
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
    }
}

impl FakeRegisterState {
    fn register(&self) -> RegisterState {
        RegisterState {
            value: self.value.clone(),
            revision: Revision(self.revision),
            is_held: self.holder.is_some(),
            version: self.version,
        }
    }

    fn change(
        &mut self,
        expected: Revision,
        value: Bytes,
        lease: Option<u64>,
    ) -> Result<ChangeResult, ArbiterError> {
        if lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Err(ArbiterError::LeaseEnded);
        }
        let is_held = lease.is_some() && self.holder.is_some() && self.holder != lease;
        if self.revision != expected.0 || is_held {
            return Ok(ChangeResult::Conflict(self.register()));
        }
        self.value = Some(value);
        self.revision += 1;
        self.version += 1;
        self.counts.changes += 1;
        self.holder = lease.or(self.holder);
        Ok(ChangeResult::Done(Revision(self.revision)))
    }

    /// Ends leases and does late changes, in the order of their times.
    fn catch_up(&mut self, now: Instant) {
        self.late.sort_by_key(|late| late.at);
        while self.late.first().is_some_and(|late| late.at <= now) {
            let late = self.late.remove(0);
            self.end_leases(late.at);
            let done = self.change(late.expected, late.value, late.lease);
            self.counts.done_late += u64::from(matches!(done, Ok(ChangeResult::Done(_))));
        }
        self.end_leases(now);
    }

    fn end_leases(&mut self, now: Instant) {
        let ended: Vec<u64> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.until <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            self.leases.remove(&id);
            self.counts.leases_ended += 1;
            self.note_ended(id);
        }
    }

    fn note_ended(&mut self, lease: u64) {
        if self.holder.take_if(|holder| *holder == lease).is_some() {
            self.version += 1;
        }
    }

    /// When something changes by itself.
    fn next_event(&self) -> Option<Instant> {
        let ends = self.leases.values().map(|lease| lease.until);
        ends.chain(self.late.iter().map(|late| late.at)).min()
    }
}
