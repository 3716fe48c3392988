//! Gives a file's members other OSTs.

use super::writers::WriterHolds;
use crate::osts::Targets;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::{BackgroundOp, Inode, Record, RecordKey, choose_replacement_of};
use gupfs_proto::{FsError, InodeId, OstId, Presence, Seq};

pub struct MemberReplacer<'a> {
    pub store: &'a MetadataStore,
    pub driver: &'a ShardDriver,
    pub targets: &'a Targets,
    pub holds: &'a WriterHolds<'a>,
}

impl MemberReplacer<'_> {
    /// Gives the file's members on these OSTs other OSTs, where they are stale, as far as there are OSTs for them; `only_stale`: only those that
    /// are stale now. Sessions that write the file give back their leases first, if there is anything to do. Returns the newest change.
    ///
    /// # Errors
    /// Of the store.
    pub async fn replace(
        &self,
        ino: InodeId,
        osts: impl IntoIterator<Item = OstId>,
        only_stale: bool,
    ) -> Result<Seq, FsError> {
        let mut newest = Seq(0);
        for ost in osts {
            let must_hold = self.is_kept_by_writers(ino, ost, only_stale).await?;
            let _held = match must_hold {
                true => self.holds.hold(ino).await?,
                false => None,
            };
            let op = BackgroundOp::ReplaceMembers {
                ino,
                ost,
                only_stale,
            };
            newest = newest.max(self.driver.background_op(&op).await?);
        }
        Ok(newest)
    }

    /// Whether there is an OST for a member on this one, and a session writes the file.
    async fn is_kept_by_writers(
        &self,
        ino: InodeId,
        ost: OstId,
        only_stale: bool,
    ) -> Result<bool, FsError> {
        let key = RecordKey::inode(ino);
        let Some(value) = self.store.get_now(&key).await? else {
            return Ok(false);
        };
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        let file = inode.file()?;
        if file.write_leases == 0 {
            return Ok(false);
        }
        let placement = self.targets.placement();
        let components = file.layout.components.iter();
        let mut mirrored = components.filter(|component| component.is_mirrored());
        Ok(mirrored.any(|component| {
            let mut members = 0..component.targets.len();
            members.any(|index| {
                let is_stale = component.presence.get(index) == Presence::Stale;
                component.targets[index] == ost
                    && (is_stale || !only_stale)
                    && choose_replacement_of(component, index, &placement, ino).is_some()
            })
        }))
    }
}
