//! The owner's right to answer: its lease at the arbiter is alive, or every copy that counts has promised not to take over.
//!
//! A take-over needs both to be over: the arbiter's lease, and the promise of the copy that takes over, which counts.

use super::OwnerShared;
use crate::limits::{ASK_TIMEOUT, PROMISE_TIMEOUT, RENEW_INTERVAL, RETRY_PAUSE, TERM};
use futures_util::future::join_all;
use gupfs_platform::BootTime;
use gupfs_platform::arbiter::ArbiterError;
use gupfs_platform::arbiter::limits::CLOCK_PERCENT;
use gupfs_proto::copy::CopyOp;
use serde::Serialize;
use std::sync::Arc;

/// Until when this process may answer, by the one and by the other.
#[derive(Clone, Default)]
pub struct Right {
    lease: BootTime,
    promises: BootTime,
    /// What the arbiter said last, if it did not renew the lease.
    arbiter_error: Option<String>,
}

/// The right as `gupfs status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RightStatus {
    /// For how long this process may answer, if nothing is renewed.
    pub millis_left: u64,
    /// Why the lease was not renewed: the owner serves by the copies' promises, and changes no membership.
    pub arbiter_error: Option<String>,
}

impl Right {
    pub fn by_lease(until: BootTime) -> Right {
        Right {
            lease: until,
            ..Right::default()
        }
    }
}

impl OwnerShared {
    /// Renews the lease and the promises, until this host is deposed.
    pub(super) async fn keep_right(self: Arc<Self>) {
        let until = self.right.lock().lease;
        self.send_deadline.extend(until);
        while !self.is_deposed() {
            let next = self.platform.clock.boot() + RENEW_INTERVAL;
            futures_util::future::join(self.renew_lease(), self.renew_promises()).await;
            self.send_key_list().await;
            self.platform.clock.sleep_until(next).await;
        }
    }

    async fn renew_lease(&self) {
        let lease = *self.lease.lock();
        let renewed = match &lease {
            Some(lease) => self.register.arbiter.renew(lease).await,
            None => Err(ArbiterError::LeaseEnded),
        };
        match renewed {
            Ok(until) => {
                let mut right = self.right.lock();
                right.lease = right.lease.max(until);
                right.arbiter_error = None;
                self.send_deadline.extend(until);
            }
            Err(ArbiterError::LeaseEnded) => self.take_again().await,
            Err(error) => self.right.lock().arbiter_error = Some(error.to_string()),
        }
    }

    /// The lease has ended. While no other host has taken the register, this one takes it again.
    async fn take_again(&self) {
        *self.lease.lock() = None;
        let known = match self.register.arbiter.read().await {
            Ok(_) => self.register.read().await,
            Err(error) => {
                self.right.lock().arbiter_error = Some(error.to_string());
                return;
            }
        };
        let known = match known {
            Ok(known) => known,
            Err(error) => return self.depose(error.to_string()),
        };
        let ours = known.register.as_ref();
        let Some(ours) = ours.filter(|register| register.epoch == self.epoch) else {
            return self.depose("another host has taken the register".into());
        };
        let sent = self.platform.clock.boot();
        let Ok(lease) = self.register.arbiter.new_lease(TERM).await else {
            return;
        };
        match self.register.take(&known, ours, &lease).await {
            Ok(true) => {
                tracing::warn!("the owner's lease had ended; no other host has taken over");
                *self.lease.lock() = Some(lease);
                let until = sent + TERM * (100 - CLOCK_PERCENT) / 100;
                self.right.lock().lease = until;
                self.send_deadline.extend(until);
            }
            Ok(false) => {
                let _ = self.register.arbiter.end_lease(&lease).await; // it ends by itself
            }
            Err(error) => self.depose(error.to_string()),
        }
    }

    /// Asks every copy that counts whether it still obeys this owner.
    async fn renew_promises(&self) {
        let sent = self.platform.clock.boot();
        let asked = self.counting().into_iter().map(|copy| async move {
            let promise = CopyOp::Promise { owner: self.epoch };
            let promised = copy.call(promise, PROMISE_TIMEOUT).await;
            if let Err(error) = &promised {
                self.note_refusal(error);
            }
            (copy.id, promised.is_ok())
        });
        let promised = join_all(asked).await;
        // One that was counted meanwhile was not asked.
        let counting = self.counting.lock();
        let is_promised = |id| promised.iter().any(|(asked, done)| asked == id && *done);
        if counting.keys().all(is_promised) {
            let until = sent + TERM * (100 - CLOCK_PERCENT) / 100;
            self.right.lock().promises = until;
            self.send_deadline.extend(until);
        }
    }

    pub(super) fn right_status(&self) -> RightStatus {
        let now = self.platform.clock.boot();
        let right = self.right.lock();
        RightStatus {
            millis_left: right.lease.max(right.promises).since(now).as_millis() as u64,
            arbiter_error: right.arbiter_error.clone(),
        }
    }

    /// Gives the ownership up: nothing stands in the way of a take-over.
    pub(super) async fn release(&self) {
        let released = self.counting().into_iter().map(|copy| async move {
            let release = CopyOp::Release { owner: self.epoch };
            let _ = copy.call(release, ASK_TIMEOUT).await; // its promise ends by itself
        });
        join_all(released).await;
        let lease = self.lease.lock().take();
        let Some(lease) = lease else {
            return;
        };
        for _ in 0..2 {
            if self.register.arbiter.end_lease(&lease).await.is_ok() {
                return;
            }
            self.platform.clock.sleep(RETRY_PAUSE).await;
        }
    }
}
