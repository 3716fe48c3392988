//! One session at this server: its verified capabilities, its running requests, and whether it is fenced.

use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::capability::{ObjectCapability, SessionCapability};
use gupfs_proto::{InodeId, OstId};
use parking_lot::{Mutex, RwLock};
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::Notify;

/// Number of verified object capabilities kept per session, which need only a comparison. Others are verified again.
const VERIFIED_OBJECTS_MAX: usize = 16 << 10;

#[derive(Default)]
pub struct SessionState {
    verified: RwLock<Option<VerifiedSession>>,
    verified_objects: RwLock<Map<(OstId, InodeId), ObjectCapability>>,
    in_flight: AtomicUsize,
    idle: Notify,
    /// When the session was fenced.
    fenced_at: Mutex<Option<BootTime>>,
}

/// A verified session capability, and its expiry by this server's clock.
#[derive(Clone, Copy)]
struct VerifiedSession {
    capability: SessionCapability,
    until: BootTime,
}

impl SessionState {
    /// The expiry of this session capability, if it is the one that was verified last.
    pub fn verified_expiry(&self, capability: &SessionCapability) -> Option<BootTime> {
        let verified_session = self.verified.read();
        let verified_session = verified_session
            .as_ref()
            .filter(|verified_session| verified_session.capability == *capability);
        verified_session.map(|verified_session| verified_session.until)
    }

    pub fn remember_session(&self, capability: SessionCapability, until: BootTime) {
        *self.verified.write() = Some(VerifiedSession { capability, until });
    }

    /// Whether this object capability was verified.
    pub fn is_verified(
        &self,
        ost: OstId,
        ino: InodeId,
        object_capability: &ObjectCapability,
    ) -> bool {
        self.verified_objects.read().get(&(ost, ino)) == Some(object_capability)
    }

    pub fn remember_object(&self, ost: OstId, ino: InodeId, object_capability: ObjectCapability) {
        let mut verified_objects = self.verified_objects.write();
        if verified_objects.len() >= VERIFIED_OBJECTS_MAX {
            verified_objects.clear();
        }
        verified_objects.insert((ost, ino), object_capability);
    }

    /// Counts a running request. The caller checks `is_fenced` only afterwards: a task that fences the session and then finds no
    /// running request knows that none will take effect.
    pub fn begin_request(&self) {
        self.in_flight.fetch_add(1, SeqCst);
    }

    pub fn end_request(&self) {
        if self.in_flight.fetch_sub(1, SeqCst) == 1 && self.is_fenced() {
            self.idle.notify_waiters();
        }
    }

    pub fn is_fenced(&self) -> bool {
        self.fenced_at.lock().is_some()
    }

    pub fn fence(&self, now: BootTime) {
        self.fenced_at.lock().get_or_insert(now);
    }

    /// Returns when no request of the session is running.
    pub async fn wait_idle(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.in_flight.load(SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Whether this state can be dropped: no running request, no session capability valid after `since`, not fenced after
    /// `since`.
    pub fn can_be_forgotten(&self, since: BootTime) -> bool {
        let is_valid = self
            .verified
            .read()
            .is_some_and(|verified_session| verified_session.until >= since);
        let is_recently_fenced = self.fenced_at.lock().is_some_and(|when| when >= since);
        !is_valid && !is_recently_fenced && self.in_flight.load(SeqCst) == 0
    }
}
