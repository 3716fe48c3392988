//! Learning what objects there are, and their blocks.

use super::ObjectIo;
use crate::inodes::{ActiveInode, MemberObject};
use crate::join;
use gupfs_proto::FsError;
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
        let stripes: BTreeSet<(usize, usize)> = {
            let state = inode.state();
            let stripe = |member: &MemberObject| {
                state
                    .objects
                    .component(member.component)
                    .stripe_of(member.index)
            };
            mirrored
                .iter()
                .map(|member| (member.component, stripe(member)))
                .collect()
        };
        let may_mark_stale = inode.state().has_exclusive_write_lease();
        for (component, stripe) in stripes {
            if !may_mark_stale {
                let ask = |member: MemberObject| async move {
                    let stat = self.osts.stat(member.ost, member.object).await?;
                    Ok((member.object, stat))
                };
                let (object, stat) = self.read_members(inode, (component, stripe), ask).await?;
                inode.state().learned(lease, object, stat);
                continue;
            }
            let ask = |member: MemberObject| self.osts.stat(member.ost, member.object);
            let found = (self.change_members(inode, (component, stripe), ask)).await?;
            for (member, stat) in found {
                inode.state().learned(lease, member.object, stat);
            }
        }
        Ok(())
    }
}
