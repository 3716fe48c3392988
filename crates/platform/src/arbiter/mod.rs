//! # arbiter: a register that several hosts change one at a time, and the lease of the one that holds it
//!
//! Owns   who may change the register: only who names its newest revision. Who may take it: only who finds no lease alive.
//! Never  knows what the register says, or does what its holder may do.
//! Enter  at `Arbiter::directory`, `Arbiter::etcd`; simulations at `fake::FakeArbiter::new`; `gupfs doctor` at `etcd_check`.
//!
//! A holder takes the register with its lease, renews the lease, and does what only a holder may do until the time that the last renewal
//! returned. Another host takes the register when the lease has ended or was not renewed for its term. A call that fails with `Unknown`
//! may have changed the register, or may do so until another change is seen: `read`, and name the revision found.

mod directory;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
pub mod etcd_check;
#[cfg(feature = "etcd")]
mod etcd_client;
#[cfg(feature = "etcd")]
mod etcd_members;
mod etcd_options;
#[cfg(feature = "fake")]
pub(crate) mod fake;
pub mod limits;

pub use error::ArbiterError;
pub use etcd_options::{EtcdOptions, EtcdTls, PemText};

use crate::clock::{BootTime, Clock};
use crate::disk::Disk;
use bytes::Bytes;
use directory::DirectoryArbiter;
use std::sync::Arc;
use std::time::Duration;

/// Numbers the values of a register; 0 is the empty one. It rises with each change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Revision(pub u64);

/// A register as it was at a moment of the call that returned this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterState {
    /// None: nothing was written yet.
    pub value: Option<Bytes>,
    pub revision: Revision,
    /// The lease that took the register is alive.
    pub is_held: bool,
    /// Differs after each change of the value and of its holder.
    version: u64,
}

/// The result of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeResult {
    Done(Revision),
    /// Nothing was changed: the register has another revision, or is held.
    Conflict(RegisterState),
}

/// The lease of a host that may hold the register. It ends by `end_lease`, or when it was not renewed for its term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArbiterLease {
    id: u64,
    term: Duration,
}

/// The register of one cluster.
#[derive(Clone)]
pub struct Arbiter(Source);

#[derive(Clone)]
enum Source {
    Directory(Arc<DirectoryArbiter>),
    #[cfg(feature = "etcd")]
    Etcd(Arc<etcd::EtcdArbiter>),
    #[cfg(feature = "fake")]
    Fake(fake::FakeArbiter),
}

macro_rules! dispatch {
    ($self:ident, $it:ident => $call:expr) => {
        match &$self.0 {
            Source::Directory($it) => $call,
            #[cfg(feature = "etcd")]
            Source::Etcd($it) => $call,
            #[cfg(feature = "fake")]
            Source::Fake($it) => $call,
        }
    };
}

impl Arbiter {
    /// A register in a directory of this machine. A lease is the directory's lock: it lives as long as the process that took the register.
    pub fn directory(disk: Disk, clock: Clock) -> Arbiter {
        Arbiter(Source::Directory(Arc::new(DirectoryArbiter::new(
            disk, clock,
        ))))
    }

    /// A register in etcd. It connects with the first call, and the library connects again.
    #[cfg(feature = "etcd")]
    pub fn etcd(options: EtcdOptions, clock: Clock) -> Arbiter {
        Arbiter(Source::Etcd(Arc::new(etcd::EtcdArbiter::new(
            options, clock,
        ))))
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: fake::FakeArbiter) -> Arbiter {
        Arbiter(Source::Fake(fake))
    }

    /// The register, with all changes that were done before the call.
    ///
    /// # Errors
    /// `Unavailable` if the arbiter cannot be reached, or has no majority.
    pub async fn read(&self) -> Result<RegisterState, ArbiterError> {
        dispatch!(self, it => it.read().await)
    }

    /// Replaces the value if the register has this revision.
    ///
    /// # Errors
    /// `Unknown` if the change may have been done; `Refused` if the arbiter does not store it.
    pub async fn change(
        &self,
        expected: Revision,
        value: Bytes,
    ) -> Result<ChangeResult, ArbiterError> {
        check_size(&value)?;
        dispatch!(self, it => it.change(expected, value, None).await)
    }

    /// Replaces the value if the register has this revision and no lease that took it is alive but this one, which holds it from then on.
    ///
    /// # Errors
    /// As of `change`; `LeaseEnded` if this lease is not alive.
    pub async fn take(
        &self,
        expected: Revision,
        value: Bytes,
        lease: &ArbiterLease,
    ) -> Result<ChangeResult, ArbiterError> {
        check_size(&value)?;
        dispatch!(self, it => it.change(expected, value, Some(lease)).await)
    }

    /// A lease with this term, in whole seconds, which begins now.
    ///
    /// # Errors
    /// `Unavailable`; `Refused` if the arbiter grants another term.
    pub async fn new_lease(&self, term: Duration) -> Result<ArbiterLease, ArbiterError> {
        if term.is_zero() || term.subsec_nanos() != 0 {
            return Err(ArbiterError::Refused(format!(
                "a lease lives for whole seconds, and not for {term:?}"
            )));
        }
        dispatch!(self, it => it.new_lease(term).await)
    }

    /// Renews the lease; returns until when it is surely alive, by this host's clock.
    ///
    /// # Errors
    /// `LeaseEnded` if it has ended; `Unavailable` if it may live as long as was known before.
    pub async fn renew(&self, lease: &ArbiterLease) -> Result<BootTime, ArbiterError> {
        dispatch!(self, it => it.renew(lease).await)
    }

    /// Ends the lease, so that another host may take the register at once.
    ///
    /// # Errors
    /// `Unavailable` if it may live on for its term.
    pub async fn end_lease(&self, lease: &ArbiterLease) -> Result<(), ArbiterError> {
        dispatch!(self, it => it.end_lease(lease).await)
    }

    /// Returns when the register, or whether it is held, may differ from this state: at once if it does already. It may return early, and late
    /// by what the arbiter needs to tell it.
    ///
    /// # Errors
    /// `Unavailable` if the arbiter cannot tell.
    pub async fn changed(&self, known: &RegisterState) -> Result<(), ArbiterError> {
        dispatch!(self, it => it.changed(known).await)
    }
}

/// Until when a lease is alive that was renewed by a request sent at this time: clocks may differ by one per cent.
fn alive_until(sent: BootTime, term: Duration) -> BootTime {
    sent + term * (100 - limits::CLOCK_PERCENT) / 100
}

fn check_size(value: &Bytes) -> Result<(), ArbiterError> {
    match value.len() {
        len if len <= limits::VALUE_MAX => Ok(()),
        len => Err(ArbiterError::Refused(format!(
            "a register holds at most {} bytes, and not {len}",
            limits::VALUE_MAX
        ))),
    }
}
