//! One session at this server: what it showed that was right, what it has under way, and that it was ended.

use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::capability::{Grant, Pass};
use gupfs_proto::{InodeId, OstId};
use parking_lot::{Mutex, RwLock};
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::Notify;

/// Grants of one session that are remembered, and so verified by a comparison. What is more is verified anew.
const GRANTS_MAX: usize = 16 << 10;

#[derive(Default)]
pub struct Session {
    pass: RwLock<Option<Known>>,
    grants: RwLock<Map<(OstId, InodeId), Grant>>,
    under_way: AtomicUsize,
    idle: Notify,
    /// Since when nothing of it is believed any more.
    fenced: Mutex<Option<BootTime>>,
}

/// A pass that was verified, and until when it counts by our clock.
#[derive(Clone, Copy)]
struct Known {
    pass: Pass,
    until: BootTime,
}

impl Session {
    /// Until when this pass counts, if it is the one that was verified last.
    pub fn pass(&self, pass: &Pass) -> Option<BootTime> {
        let known = self.pass.read();
        let known = known.as_ref().filter(|known| known.pass == *pass);
        known.map(|known| known.until)
    }

    pub fn verified_pass(&self, pass: Pass, until: BootTime) {
        *self.pass.write() = Some(Known { pass, until });
    }

    /// Whether this very grant was verified.
    pub fn has_grant(&self, ost: OstId, ino: InodeId, grant: &Grant) -> bool {
        self.grants.read().get(&(ost, ino)) == Some(grant)
    }

    pub fn verified_grant(&self, ost: OstId, ino: InodeId, grant: Grant) {
        let mut grants = self.grants.write();
        if grants.len() >= GRANTS_MAX {
            grants.clear();
        }
        grants.insert((ost, ino), grant);
    }

    /// Counts a request. Only afterwards may it be asked whether the session is fenced: whoever fences it and finds nothing
    /// counted knows that nothing will be done.
    pub fn enter(&self) {
        self.under_way.fetch_add(1, SeqCst);
    }

    pub fn leave(&self) {
        if self.under_way.fetch_sub(1, SeqCst) == 1 && self.is_fenced() {
            self.idle.notify_waiters();
        }
    }

    pub fn is_fenced(&self) -> bool {
        self.fenced.lock().is_some()
    }

    pub fn fence(&self, now: BootTime) {
        self.fenced.lock().get_or_insert(now);
    }

    /// Returns when nothing of it is under way.
    pub async fn idle(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.under_way.load(SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Whether nothing needs to be remembered of it: it showed no pass that counts, nor was it fenced, since.
    pub fn is_over(&self, since: BootTime) -> bool {
        let counts = self.pass.read().is_some_and(|known| known.until >= since);
        let fenced = self.fenced.lock().is_some_and(|when| when >= since);
        !counts && !fenced && self.under_way.load(SeqCst) == 0
    }
}
