//! What an administrator changes about the copies.

use super::{OwnerShared, Ownership};
use crate::error::CopiesError;
use crate::limits::ASK_TIMEOUT;
use crate::register::Standing;
use futures_util::future::join_all;
use gupfs_proto::CopyId;
use gupfs_proto::copy::CopiesChange;
use std::sync::atomic::Ordering::SeqCst;

impl Ownership {
    /// Makes the change; a move is recorded, and `move_wanted` returns. The owner may have no time to reply then: a move to itself is done.
    ///
    /// # Errors
    /// `NotPossible` if there is no such copy, it does not count, or it is the owner and to be removed; `Deposed`.
    pub async fn administer(&self, change: &CopiesChange) -> Result<(), CopiesError> {
        match change {
            CopiesChange::Move { to } => self.shared.begin_move(*to).await,
            CopiesChange::Remove { copy } => self.shared.remove(*copy).await,
        }
    }

    /// Has a copy own the metadata that counts and whose disk has room; false if there is none, or the register cannot be changed now.
    pub async fn move_to_room(&self) -> bool {
        let shared = &self.shared;
        if shared.is_moving.load(SeqCst) {
            return true;
        }
        let asked = shared.counting().into_iter().map(|copy| async move {
            let has_room = copy.has_room(ASK_TIMEOUT).await;
            has_room.then_some(copy.id)
        });
        let Some(to) = join_all(asked).await.into_iter().flatten().next() else {
            return false;
        };
        tokio::select! {
            biased;
            moved = shared.begin_move(to) => moved.is_ok(),
            () = shared.platform.clock.sleep(ASK_TIMEOUT) => false,
        }
    }

    /// Returns when the owner is to stop in order, because another copy is to own the metadata.
    pub async fn move_wanted(&self) {
        loop {
            let mut wanted = std::pin::pin!(self.shared.move_notify.notified());
            wanted.as_mut().enable();
            if self.shared.is_moving.load(SeqCst) {
                return;
            }
            wanted.await;
        }
    }
}

impl OwnerShared {
    fn standing_of(&self, copy: CopyId) -> Result<(Standing, bool), CopiesError> {
        let known = self.register.known();
        let register = known.as_ref().and_then(|known| known.register.as_ref());
        let found = register.and_then(|register| {
            let member = register.member(copy)?;
            Some((member.standing, register.owner == copy))
        });
        found.ok_or_else(|| CopiesError::NotPossible(format!("there is no copy {copy}")))
    }

    async fn begin_move(&self, to: CopyId) -> Result<(), CopiesError> {
        match self.standing_of(to)? {
            // The request may be a repetition: the former owner had no time to reply.
            (_, true) => return Ok(()),
            (Standing::Counting, false) => {}
            (Standing::LeftOut, false) => {
                let why = "this copy was too slow and is left out: start its process again";
                return Err(CopiesError::NotPossible(why.into()));
            }
            (Standing::Joining | Standing::Struck, false) => {
                let why = "this copy is not up to date yet: wait until it counts";
                return Err(CopiesError::NotPossible(why.into()));
            }
        }
        let edited = self.edit(|register| {
            register.preferred = Some(to);
            Some(())
        });
        edited.await.map_err(CopiesError::Deposed)?;
        self.is_moving.store(true, SeqCst);
        self.move_notify.notify_waiters();
        Ok(())
    }

    async fn remove(&self, copy: CopyId) -> Result<(), CopiesError> {
        if let (_, true) = self.standing_of(copy)? {
            return Err(CopiesError::NotPossible(
                "this copy owns the metadata: move the metadata to another one first".into(),
            ));
        }
        let edited = self.edit(|register| {
            let is_there = register.member(copy).is_some() && register.owner != copy;
            is_there.then(|| register.remove(copy))
        });
        edited.await.map_err(CopiesError::Deposed)?;
        self.counting.lock().remove(&copy);
        self.lag.lock().remove(&copy);
        Ok(())
    }
}
