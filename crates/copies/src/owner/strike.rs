//! A copy that fails does not count any more: the register says so before anything is committed without it.

use super::OwnerShared;
use crate::peers::{CopyCallError, CopyPeer};
use crate::register::Standing;
use crate::register_access::{Edit, KnownRegister};
use gupfs_proto::copy::CopyRefusal;
use std::sync::Arc;

/// What a copy failed to do, for people.
pub fn failure_of(what: &str, error: &CopyCallError) -> String {
    format!("it did not {what}: {error}")
}

impl OwnerShared {
    /// Removes the copy from those that count. Returns when the register says so.
    ///
    /// # Errors
    /// The reason if this host does not own the metadata any more.
    pub async fn strike(&self, copy: &CopyPeer, why: &str) -> Result<(), String> {
        let Some(run) = copy.run else {
            return Ok(());
        };
        if !self.counts(copy) {
            return Ok(());
        }
        tracing::warn!(copy = %copy.id, why, "a copy of the metadata is struck from those that count");
        let edited = self.edit(|register| {
            let is_known = register
                .member(copy.id)
                .is_some_and(|member| member.run == run && member.standing != Standing::Struck);
            is_known.then(|| {
                register.set_standing(copy.id, run, Standing::Struck);
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
        }
        Ok(())
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
