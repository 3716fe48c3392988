//! Learning what objects there are, and their blocks.

use super::ObjectIo;
use super::members::has_ended;
use crate::inodes::{ActiveInode, MemberObject};
use crate::join;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, ObjectId};
use std::collections::BTreeSet;

impl ObjectIo {
    /// Sends a stat for each object whose blocks or existence are not known.
    pub async fn stat_unknown(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let (lease, unknown) = {
            let state = inode.state();
            (state.any_lease_number(), state.objects.unknown(inode.ino))
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let (mirrored, plain): (Vec<_>, Vec<_>) = {
            let state = inode.state();
            let is_mirrored = |member: &MemberObject| state.objects.is_mirrored(member.component);
            unknown.into_iter().partition(is_mirrored)
        };
        let asked = plain.into_iter().map(|member| async move {
            let stat = self.osts.stat(member.ost, member.object).await?;
            Ok((member.object, stat))
        });
        for found in join::all(asked.collect()).await {
            let (object, stat) = found?;
            inode.state().learned(lease, object, stat);
        }
        let mut asked = BTreeSet::new();
        for member in mirrored {
            if asked.contains(&member.object) {
                continue;
            }
            let like = inode.state().objects.members_like(&member.object);
            asked.extend(like.into_iter().flatten().map(|member| member.object));
            for (object, stat) in self.stat_members(inode, member).await? {
                inode.state().learned(lease, object, stat);
            }
        }
        Ok(())
    }

    /// All full members of a stripe under the write lease, and those that do not answer are stale; else one.
    async fn stat_members(
        &self,
        inode: &ActiveInode,
        member: MemberObject,
    ) -> Result<Vec<(ObjectId, Option<ObjectStat>)>, FsError> {
        let may_mark_stale = || inode.state().has_exclusive_write_lease();
        if may_mark_stale() {
            let lease = inode.state().any_lease_number();
            let ask = |member: MemberObject, _| self.osts.stat(member.ost, member.object);
            match self.change_members(inode, member.object, ask).await {
                Ok(found) => {
                    let found = found.into_iter();
                    return Ok(found.map(|(member, stat)| (member.object, stat)).collect());
                }
                Err(error) if !has_ended(inode, lease).await => return Err(error),
                Err(_) => {}
            }
        }
        let ask = |member: MemberObject| async move {
            let stat = self.osts.stat(member.ost, member.object).await?;
            Ok((member.object, stat))
        };
        Ok(vec![self.read_members(inode, member, ask).await?])
    }
}
