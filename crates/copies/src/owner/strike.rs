//! A copy that fails does not count any more: the register says so before anything is committed without it.

use super::OwnerShared;
use crate::limits::{SLOW_STRIKES_MAX, SLOW_WITHIN};
use crate::peers::{CopyCallError, CopyPeer};
use crate::register::Standing;
use crate::register_access::{Edit, KnownRegister};
use gupfs_platform::BootTime;
use gupfs_proto::copy::CopyRefusal;
use gupfs_proto::{CopyId, CopyRun};
use std::sync::Arc;

/// What a copy failed to do.
pub struct CopyFailure {
    /// For people.
    pub text: String,
    /// It did not answer in time.
    pub is_slow: bool,
}

pub fn failure_of(what: &str, error: &CopyCallError) -> CopyFailure {
    CopyFailure {
        text: format!("it did not {what}: {error}"),
        is_slow: matches!(error, CopyCallError::TimedOut),
    }
}

impl OwnerShared {
    /// Removes the copy from those that count. Returns when the register says so.
    ///
    /// # Errors
    /// The reason if this host does not own the metadata any more.
    pub async fn strike(&self, copy: &CopyPeer, failure: &CopyFailure) -> Result<(), String> {
        let Some(run) = copy.run else {
            return Ok(());
        };
        if !self.counts(copy) {
            return Ok(());
        }
        let why = failure.text.as_str();
        let standing = match failure.is_slow && self.was_slow_before(copy.id, run) {
            true => Standing::LeftOut,
            false => Standing::Struck,
        };
        tracing::warn!(copy = %copy.id, why, "a copy of the metadata is struck from those that count");
        if standing == Standing::LeftOut {
            tracing::warn!(copy = %copy.id, "this copy was too slow {SLOW_STRIKES_MAX} times: it is left out until its process is started again");
        }
        let edited = self.edit(|register| {
            let counts_or_joins = register.member(copy.id).is_some_and(|member| {
                member.run == run
                    && matches!(member.standing, Standing::Counting | Standing::Joining)
            });
            counts_or_joins.then(|| {
                register.set_standing(copy.id, run, standing);
            })
        });
        edited.await?;
        // Another strike of the same copy may have been faster, and the copy may count again since: the register says so, and nothing may be
        // committed without it.
        let mut counting = self.counting.lock();
        if counting.get(&copy.id).is_some_and(|known| known.is(copy)) {
            counting.remove(&copy.id);
            drop(counting);
            self.note_struck(copy.id, why);
            if failure.is_slow {
                self.note_slow(copy.id, run);
            }
        }
        Ok(())
    }

    /// Whether this owner has struck this process as often as it may be slow, but for once, a short while ago.
    fn was_slow_before(&self, copy: CopyId, run: CopyRun) -> bool {
        let now = self.platform.clock.boot();
        let slow = self.slow.lock();
        let times = slow.get(&(copy, run));
        let recent = |times: &Vec<BootTime>| {
            let lately = times.iter().filter(|at| now.since(**at) <= SLOW_WITHIN);
            lately.count()
        };
        times.map_or(0, recent) + 1 >= SLOW_STRIKES_MAX
    }

    fn note_slow(&self, copy: CopyId, run: CopyRun) {
        let now = self.platform.clock.boot();
        let mut slow = self.slow.lock();
        // Of other processes of this copy nothing is needed any more.
        slow.retain(|(id, of), _| *id != copy || *of == run);
        let times = slow.entry((copy, run)).or_default();
        times.retain(|at| now.since(*at) <= SLOW_WITHIN);
        times.push(now);
    }

    fn counts(&self, copy: &CopyPeer) -> bool {
        let counting = self.counting.lock();
        counting.get(&copy.id).is_some_and(|known| known.is(copy))
    }

    /// Changes the register on behalf of this epoch, and returns it. `edit` returns None if there is nothing to change.
    ///
    /// # Errors
    /// The reason if this host does not own the metadata any more.
    pub async fn edit(
        &self,
        edit: impl Fn(&mut crate::register::Register) -> Option<()>,
    ) -> Result<Arc<KnownRegister>, String> {
        let changed = self.register.change(|register| {
            let ours = register.filter(|register| register.epoch == self.epoch);
            let Some(ours) = ours else {
                let epoch = register.map_or(0, |register| register.epoch.0);
                return Edit::Refuse(format!("owner {epoch} follows owner {}", self.epoch));
            };
            let mut wanted = ours.clone();
            match edit(&mut wanted) {
                Some(()) => Edit::Write(wanted),
                None => Edit::Keep,
            }
        });
        let changing = async {
            match changed.await {
                Ok(known) => Ok(known),
                Err(error) => {
                    let why = error.to_string();
                    self.depose(why.clone());
                    Err(why)
                }
            }
        };
        tokio::select! {
            biased;
            done = changing => done,
            // It may wait for an arbiter that is away for long.
            why = self.wait_deposed() => Err(why),
        }
    }

    /// A copy's refusal may say that there is a later owner.
    pub fn note_refusal(&self, error: &CopyCallError) {
        if let CopyCallError::Refused(CopyRefusal::FormerOwner { known }) = error {
            self.depose(format!("a copy obeys owner {known}"));
        }
    }
}
