//! The members of mirrored stripes: a change goes to all full ones, and those that it does not reach are stale from then on.

use super::ChangedObject;
use super::ObjectIo;
use super::relayed::ChangeAttempt;
use crate::inodes::{ActiveInode, MemberObject, ObjectSpan};
use crate::join;
use crate::lease_number::LeaseNumber;
use crate::limits::{MEMBER_PATIENCE, READ_PATIENCE, SILENT_PATIENCE};
use crate::metrics::Counters;
use crate::reply;
use gupfs_proto::data::DataOp;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, ObjectId, OstId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use tokio::sync::Notify;

/// The targets at which one of several calls has succeeded. The others need not wait for silent targets if these have the same bytes.
#[derive(Default)]
pub(super) struct TargetsDone {
    done: Mutex<BTreeSet<OstId>>,
    changed: Notify,
}

impl TargetsDone {
    pub(super) fn note(&self, ost: OstId) {
        self.done.lock().insert(ost);
        self.changed.notify_waiters();
    }

    /// Returns when the targets that are done are enough.
    pub(super) async fn wait_until(&self, are_enough: impl Fn(&BTreeSet<OstId>) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if are_enough(&self.done.lock()) {
                return;
            }
            changed.await;
        }
    }
}

impl ObjectIo {
    /// Executes a change of one stripe at all its full members; returns the replies. Members that it did not reach are stale when this
    /// returns.
    ///
    /// # Errors
    /// The first member's error if the change reached no full member; the metadata server's.
    pub(super) async fn change_members<T, F>(
        &self,
        inode: &ActiveInode,
        object: ObjectId,
        change: impl Fn(MemberObject, Arc<ChangeAttempt>) -> F,
    ) -> Result<Vec<(MemberObject, T)>, FsError>
    where
        T: Unpin,
        F: Future<Output = Result<T, FsError>>,
    {
        loop {
            self.learn_stale_members(inode).await?;
            let members = inode.state().objects.members_like(&object);
            let members = members.ok_or(FsError::Stale)?;
            let attempt = Arc::new(ChangeAttempt::new(members));
            if let [only] = attempt.members()[..] {
                return Ok(vec![(only, change(only, attempt).await?)]);
            }
            let (done, missed) = self.change_all(inode, &attempt, &change).await?;
            if missed.is_empty() {
                return Ok(done);
            }
            let missed = self.with_others_on_silent_targets(inode, missed);
            match self.mark_stale(inode, &missed).await {
                Ok(()) => return Ok(done),
                // Those that it reached are stale by now, which this client did not know.
                Err(FsError::Invalid) => self.mark_stale(inode, &[]).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// These members, and the others of the file on their targets if these are silent: a change of another stripe would miss them, too.
    fn with_others_on_silent_targets(
        &self,
        inode: &ActiveInode,
        mut missed: Vec<MemberObject>,
    ) -> Vec<MemberObject> {
        let is_silent = |ost: OstId| self.silent_targets.is_silent(ost);
        let targets: BTreeSet<OstId> = missed.iter().map(|member| member.ost).collect();
        for ost in targets.into_iter().filter(|ost| is_silent(*ost)) {
            let state = inode.state();
            let others = state.objects.dispensable_members(inode.ino, ost, is_silent);
            let is_new = |other: &MemberObject| missed.iter().all(|it| it.object != other.object);
            let others: Vec<MemberObject> = others.into_iter().filter(is_new).collect();
            missed.extend(others);
        }
        missed
    }

    /// Executes a change at these members; returns the replies, and the members that it did not reach.
    ///
    /// # Errors
    /// The first member's if it reached none.
    async fn change_all<T, F>(
        &self,
        inode: &ActiveInode,
        attempt: &Arc<ChangeAttempt>,
        change: &impl Fn(MemberObject, Arc<ChangeAttempt>) -> F,
    ) -> Result<(Vec<(MemberObject, T)>, Vec<MemberObject>), FsError>
    where
        T: Unpin,
        F: Future<Output = Result<T, FsError>>,
    {
        let targets_done = &TargetsDone::default();
        let members = attempt.members();
        let running = members.iter().map(|member| {
            let call = change(*member, attempt.clone());
            async move {
                let any_done = targets_done.wait_until(|done| !done.is_empty());
                let result = self.call_until_silent(member.ost, any_done, call).await;
                if result.is_ok() {
                    targets_done.note(member.ost);
                }
                result
            }
        });
        let results = join::all(running.collect()).await;
        let (mut done, mut missed, mut first_error) = (Vec::new(), Vec::new(), None);
        for (member, result) in members.iter().zip(results) {
            match result {
                Ok(reply) => done.push((*member, reply)),
                Err(error) => {
                    tracing::warn!(ino = %inode.ino, ost = %member.ost, object = %member.object, %error, "a change does not reach a member of a mirrored stripe");
                    missed.push(*member);
                    first_error = first_error.or(Some(error));
                }
            }
        }
        match first_error {
            Some(error) if done.is_empty() => {
                // Any of them may have executed it: one counts from now on.
                let _ = self.mark_stale(inode, &missed[1..]).await;
                Err(error)
            }
            _ => Ok((done, missed)),
        }
    }

    /// Changes a span of the object, and of the other full members of its stripe; returns the object indices and their new states.
    pub(super) async fn change_span(
        &self,
        inode: &ActiveInode,
        span: &ObjectSpan,
        name: &'static str,
        op: impl Fn(ObjectId) -> DataOp,
    ) -> Result<Vec<(usize, ChangedObject)>, FsError> {
        let change = |member: MemberObject, _| {
            let op = op(member.object);
            async move { reply::written(name, self.call_for_space(member.ost, op).await?) }
        };
        let changed = self.change_members(inode, span.object, change).await?;
        let changed = (changed.into_iter()).map(|(member, object)| (member.index, object));
        Ok(changed.collect())
    }

    /// Waits for the reply of a target while the target is alive, or while the others are not done that make it dispensable.
    pub(super) async fn call_until_silent<T>(
        &self,
        ost: OstId,
        others_done: impl Future<Output = ()>,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, FsError> {
        let mut call = pin!(call);
        tokio::select! {
            biased;
            result = call.as_mut() => result,
            () = self.wait_until_silent(ost) => tokio::select! {
                biased;
                result = call.as_mut() => result,
                () = others_done => {
                    Err(FsError::TimedOut(format!("ost{ost}, which does not answer")))
                }
            },
        }
    }

    /// Returns when a target does not answer a question about its space either, a while after this is called.
    pub(super) async fn wait_until_silent(&self, ost: OstId) {
        let silent_targets = &self.silent_targets;
        loop {
            let is_silent = tokio::select! {
                biased;
                () = silent_targets.wait_until_silent(ost) => {
                    self.clock.sleep(SILENT_PATIENCE).await;
                    silent_targets.is_silent(ost)
                }
                () = self.clock.sleep(MEMBER_PATIENCE) => !silent_targets.answers(ost).await,
            };
            if is_silent {
                return;
            }
        }
    }

    /// These targets are about to be stopped.
    pub fn expect_stop(&self, osts: &[OstId]) {
        self.silent_targets.expect_stop(osts);
    }

    /// Asks which members are stale if there may be more than are known here. Without the write lease reads ask anyway.
    pub(super) async fn learn_stale_members(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let must_ask = || {
            let state = inode.state();
            state.objects.may_have_unknown_stale() && state.has_exclusive_write_lease()
        };
        while must_ask() {
            let lease = inode.state().any_lease_number();
            let asked = self.mark_stale(inode, &[]).await;
            if asked.is_err() && !has_ended(inode, lease).await {
                return asked;
            }
        }
        Ok(())
    }

    /// Has the metadata server record that members are stale. When this returns, this client uses neither them nor others that are
    /// recorded as stale.
    pub(super) async fn mark_stale(
        &self,
        inode: &ActiveInode,
        missed: &[MemberObject],
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "mark_stale");
        let position = |member: &MemberObject| (member.component as u32, member.index as u32);
        let op = MetaOp::MarkStale {
            ino: inode.ino,
            objects: missed.iter().map(position).collect(),
        };
        let changes = inode.member_changes();
        let reply = self.mds.call(&Caller::root(), op).await?;
        let opened = reply::opened("mark_stale", reply)?;
        let mut state = inode.state();
        state.objects.note_stale_members(&opened.layout);
        if inode.member_changes() == changes {
            state.objects.all_stale_known();
        }
        drop(state);
        Counters::add(&self.counters.members_left_out, missed.len() as u64);
        Ok(())
    }

    /// Asks the members of this object's stripe for its bytes, the next one when the former ones have failed or are slow. All have every answered write.
    ///
    /// # Errors
    /// The first member's.
    pub(super) async fn read_members<T, F>(
        &self,
        inode: &ActiveInode,
        own: MemberObject,
        read: impl Fn(MemberObject) -> F,
    ) -> Result<T, FsError>
    where
        F: Future<Output = Result<T, FsError>>,
    {
        loop {
            self.learn_stale_members(inode).await?;
            let changes = inode.member_changes();
            let members = inode.state().objects.members_like(&own.object);
            let mut members = members.unwrap_or_else(|| vec![own]);
            members.sort_by_key(|member| self.silent_targets.is_doubtful(member.ost));
            let bytes = self.read_one_of(&members, &read).await?;
            // A member that has become stale meanwhile may have returned older bytes than were answered before.
            if inode.member_changes() == changes {
                return Ok(bytes);
            }
        }
    }

    async fn read_one_of<T, F>(
        &self,
        members: &[MemberObject],
        read: &impl Fn(MemberObject) -> F,
    ) -> Result<T, FsError>
    where
        F: Future<Output = Result<T, FsError>>,
    {
        let mut running: Vec<Pin<Box<F>>> = Vec::new();
        let mut first_error = None;
        let mut others = members.iter();
        loop {
            let next = others.next();
            running.extend(next.map(|member| Box::pin(read(*member))));
            if running.is_empty() {
                let nothing = || FsError::Malformed("a stripe without members".into());
                return Err(first_error.unwrap_or_else(nothing));
            }
            let is_last = next.is_none();
            let first = first_of(&mut running);
            let result = tokio::select! {
                biased;
                result = first => result,
                () = self.wait_until_slow(next), if !is_last => {
                    if let Some(slow) = next {
                        self.silent_targets.check(slow.ost);
                    }
                    continue;
                }
            };
            match result {
                (_, Ok(bytes)) => return Ok(bytes),
                (at, Err(error)) => {
                    drop(running.swap_remove(at));
                    first_error = first_error.or(Some(error));
                }
            }
        }
    }

    /// Returns when a read waits for this member no longer before it asks the next one, too.
    async fn wait_until_slow(&self, asked: Option<&MemberObject>) {
        let silent = async {
            match asked {
                Some(member) => self.silent_targets.wait_until_silent(member.ost).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = silent => {}
            () = self.clock.sleep(READ_PATIENCE) => {}
        }
    }
}

/// Whether the write lease with this number has ended, or is just ending: then the metadata server refuses what only its holder may do.
pub(super) async fn has_ended(inode: &ActiveInode, lease: Option<LeaseNumber>) -> bool {
    inode.wait_for_lease_end().await;
    let state = inode.state();
    !state.has_exclusive_write_lease() || state.any_lease_number() != lease
}

/// The first future that is ready, with its position.
async fn first_of<F: Future>(running: &mut [Pin<Box<F>>]) -> (usize, F::Output) {
    std::future::poll_fn(|cx| {
        for (at, future) in running.iter_mut().enumerate() {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(cx) {
                return std::task::Poll::Ready((at, output));
            }
        }
        std::task::Poll::Pending
    })
    .await
}
