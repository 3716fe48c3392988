//! statfs(2).

use crate::answer;
use crate::join;
use crate::limits::SPACE_WAIT;
use crate::service::Client;
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{Caller, OstId, Refusal, data};
use std::collections::BTreeSet;

/// The room of all targets, in bytes, that of a file system with several of them counted once, and the inodes in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Space {
    pub total: u64,
    pub free: u64,
    /// What writers may still take.
    pub available: u64,
    pub inodes: u64,
    /// Removed files whose space is not given back yet.
    pub purging: u64,
    /// Targets that did not answer, and why: their room is not in the numbers.
    pub missing: Vec<(OstId, Refusal)>,
}

/// One target's room.
pub struct Room {
    pub ost: OstId,
    pub space: Result<data::Space, Refusal>,
}

impl Client {
    /// # Errors
    /// When the metadata server or every target fails; a file system with one target down still has a size.
    pub async fn statfs(&self, caller: &Caller) -> Result<Space, Refusal> {
        let Answer::StatFs(names) = self.ask(caller, Op::StatFs).await? else {
            return answer::unexpected("statfs");
        };
        let mut space = Space {
            inodes: names.inodes,
            purging: names.purging,
            ..Space::default()
        };
        let rooms = self.rooms().await?;
        let targets = rooms.len();
        let mut seen = BTreeSet::new();
        for Room { ost, space: answer } in rooms {
            match answer {
                // Targets on one file system share its room.
                Ok(room) if seen.insert(room.volume) => {
                    space.total += room.total;
                    space.free += room.free;
                    space.available += room.available;
                }
                Ok(_) => {}
                Err(refusal) => space.missing.push((ost, refusal)),
            }
        }
        match space.missing.first() {
            Some((_, refusal)) if space.missing.len() == targets => Err(refusal.clone()),
            _ => Ok(space),
        }
    }

    /// What each target says of its room.
    pub async fn rooms(&self) -> Result<Vec<Room>, Refusal> {
        let osts = self.route.all(self.view.map_epoch()).await?;
        let asked = osts.into_iter().map(|ost| async move {
            let space = self.room_of(ost).await;
            Room { ost, space }
        });
        Ok(join::all(asked.collect()).await)
    }

    /// A target that is silent does not hold up the others: df(1) is what one asks when something is wrong.
    async fn room_of(&self, ost: OstId) -> Result<data::Space, Refusal> {
        let answer = tokio::select! {
            biased;
            answer = self.ask_ost(ost, data::Op::Space) => answer?,
            () = self.platform.clock.sleep(SPACE_WAIT) => {
                return Err(Refusal::TimedOut(format!("the space of ost{ost}")));
            }
        };
        match answer {
            data::Answer::Space(space) => Ok(space),
            _ => answer::unexpected("space"),
        }
    }
}
