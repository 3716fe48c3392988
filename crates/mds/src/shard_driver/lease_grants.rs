//! Leases with a reply: which of other sessions an operation breaks, and which the requester gets. All under the shard's lock under which
//! the operation was applied.

use super::{AppliedOp, ReplyLeases, Requester, ScanCache, ShardDriver, StoreView};
use crate::shard::Shard;
use gupfs_namespace::{
    Effects, Inode, Interest, LeasableKey, Operation, Record, RecordKey, changed_attributes,
    leasable_keys, leases::changes_of,
};
use gupfs_proto::lease::{LeaseGrant, LeaseKey};
use gupfs_proto::limits::GRANTS_MAX;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Attr, FsError, Seq, SessionId};

impl ShardDriver {
    /// The keys of leases that the batch breaks. None while no session takes leases.
    pub(super) fn lease_changes(
        &self,
        shard: &Shard,
        view: &StoreView<'_>,
        effects: &Effects,
    ) -> Vec<LeaseKey> {
        match effects.batch.is_empty() || shard.leases.is_unused() {
            true => Vec::new(),
            false => changes_of(&effects.batch, view),
        }
    }

    /// The session that gets leases with the reply, if one does: not with a stored reply or with the reply to a replay, because what they
    /// say may have changed since.
    pub(super) fn leasing_session(
        &self,
        shard: &Shard,
        requester: &Requester<'_>,
        effects: &Effects,
    ) -> Option<SessionId> {
        let session = requester.origin.session;
        let is_first_reply = requester.replay.is_none() && effects.original_seq.is_none();
        let may = !requester.is_server && is_first_reply && !effects.unfinished;
        (may && shard.leases.takes_leases(session)).then_some(session)
    }

    /// The attributes of inodes that the batch changes, that the reply does not contain and on which the session has a lease.
    pub(super) fn changed_for(
        &self,
        shard: &Shard,
        session: SessionId,
        effects: &Effects,
    ) -> Vec<Attr> {
        let is_held = |ino| shard.leases.holds(session, LeaseKey::Attributes(ino));
        changed_attributes(&effects.batch, &effects.reply, is_held)
    }

    /// Grants the session what the reply says; to be called when the batch is staged.
    pub(super) fn grant_leases(
        &self,
        shard: &mut Shard,
        session: SessionId,
        (op, scanned): (Operation<'_>, &ScanCache<'_>),
        applied: &mut AppliedOp,
        changed: Vec<Attr>,
    ) {
        let Operation::Client(op) = op else { return };
        let view = StoreView::new(&self.store, &self.kv, scanned, &shard.recent);
        let mut keys = leasable_keys(op, &applied.result, session, &view);
        keys.extend(changed.iter().map(LeasableKey::attributes));
        keys.truncate(GRANTS_MAX);
        match self.grant_keys(shard, session, &keys) {
            Ok((grants, seq)) => {
                applied.leases = ReplyLeases { grants, changed };
                applied.seq = applied.seq.max(seq);
            }
            Err(error) => applied.result = Err(error),
        }
        if let Some((session, revocation)) = shard.leases.excess(session) {
            self.lease_service.revoke_later(session, revocation);
        }
    }

    /// Completes the reply to a request whose truncate is done now: with the attributes after it, and a lease on them. Returns the newest
    /// batch that they depend on; None if the session takes no leases, and the reply stays as it is.
    pub fn lease_truncated(&self, session: SessionId, applied: &mut AppliedOp) -> Option<Seq> {
        let Ok(MetaReplyBody::Opened(opened)) = &mut applied.result else {
            return None;
        };
        let ino = opened.attr.ino;
        let scanned = self.begin_scans();
        let mut guard = self.shard.lock();
        let shard = &mut *guard;
        if !shard.leases.takes_leases(session) {
            return None;
        }
        let value = self.store.get_in_place(&RecordKey::inode(ino)).ok()??;
        let mut inode = Inode::decode(&value).ok()?;
        inode.ino = ino;
        opened.attr = inode.attr();
        let view = StoreView::new(&self.store, &self.kv, &scanned, &shard.recent);
        let attributes = Ok(MetaReplyBody::Attr(opened.attr));
        let keys = leasable_keys(&MetaOp::GetAttr { ino }, &attributes, session, &view);
        match self.grant_keys(shard, session, &keys) {
            Ok((grants, _)) => applied.leases.grants.extend(grants),
            Err(error) => applied.result = Err(error),
        }
        Some(self.kv.last_seq())
    }

    /// Grants what is possible, and records it where another server may go on; returns the batch on which the reply depends, too.
    ///
    /// # Errors
    /// When the log refuses the record: the session must not learn of these leases.
    fn grant_keys(
        &self,
        shard: &mut Shard,
        session: SessionId,
        keys: &[LeasableKey],
    ) -> Result<(Vec<LeaseGrant>, Seq), FsError> {
        let now = shard.boot();
        let records = shard.interests.is_some();
        let mut interests = Vec::new();
        let mut grants = Vec::new();
        for leasable in keys {
            if let Some(grant) = shard.leases.grant(session, leasable.key, now) {
                if records {
                    interests.push(Interest::of_lease(leasable.key, leasable.is_directory));
                }
                grants.push(grant);
            }
        }
        let seq = self.record_interests(shard, session, interests)?;
        Ok((grants, seq))
    }
}
