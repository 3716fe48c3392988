//! A register in etcd: one key for the value, and one with the holder's lease, which etcd removes when the lease ends.

use super::etcd_client::CallKind;
use super::etcd_members::EtcdMembers;
use super::etcd_options::EtcdOptions;
use super::{ArbiterError, ArbiterLease, ChangeResult, RegisterState, Revision};
use crate::clock::{BootTime, Clock};
use bytes::Bytes;
use etcd_client::{
    Compare, CompareOp, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse, WatchOptions,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;

pub struct EtcdArbiter {
    members: EtcdMembers,
    clock: Clock,
}

impl EtcdArbiter {
    pub fn new(options: EtcdOptions, clock: Clock) -> EtcdArbiter {
        EtcdArbiter {
            members: EtcdMembers::new(options),
            clock,
        }
    }

    fn register_key(&self) -> String {
        format!("{}/register", self.members.prefix())
    }

    fn holder_key(&self) -> String {
        format!("{}/holder", self.members.prefix())
    }

    pub async fn read(&self) -> Result<RegisterState, ArbiterError> {
        let read = Txn::new().and_then(self.reads());
        let read = self.members.look(|mut client| {
            let read = read.clone();
            async move { client.txn(read).await }
        });
        Ok(found(&read.await?).0)
    }

    fn reads(&self) -> [TxnOp; 2] {
        [self.register_key(), self.holder_key()].map(|key| TxnOp::get(key, None))
    }

    pub async fn change(
        &self,
        expected: Revision,
        value: Bytes,
        lease: Option<&ArbiterLease>,
    ) -> Result<ChangeResult, ArbiterError> {
        let (register, holder) = (self.register_key(), self.holder_key());
        let is_newest =
            Compare::mod_revision(register.clone(), CompareOp::Equal, expected.0 as i64);
        let put = TxnOp::put(register, value.to_vec(), None);
        let Some(lease) = lease else {
            return Ok(self.commit(vec![is_newest], vec![put]).await?.0);
        };
        let id = lease.id as i64;
        let hold = TxnOp::put(holder.clone(), "", Some(PutOptions::new().with_lease(id)));
        let ops = vec![put, hold];
        let is_free = Compare::create_revision(holder.clone(), CompareOp::Equal, 0);
        let (result, held_by) = self
            .commit(vec![is_newest.clone(), is_free], ops.clone())
            .await?;
        match &result {
            ChangeResult::Conflict(state) if state.revision == expected && held_by == Some(id) => {
                let is_ours = Compare::lease(holder, CompareOp::Equal, id);
                Ok(self.commit(vec![is_newest, is_ours], ops).await?.0)
            }
            ChangeResult::Done(_) | ChangeResult::Conflict(_) => Ok(result),
        }
    }

    /// Does these operations if the comparisons hold; returns in a conflict whose lease holds the register.
    async fn commit(
        &self,
        when: Vec<Compare>,
        ops: Vec<TxnOp>,
    ) -> Result<(ChangeResult, Option<i64>), ArbiterError> {
        let txn = Txn::new().when(when).and_then(ops).or_else(self.reads());
        let done = self
            .members
            .change(|mut client| async move { client.txn(txn).await });
        let done = done.await?;
        if done.succeeded() {
            return Ok((ChangeResult::Done(Revision(revision(&done))), None));
        }
        let (state, holder) = found(&done);
        Ok((ChangeResult::Conflict(state), holder))
    }

    pub async fn new_lease(&self, term: Duration) -> Result<ArbiterLease, ArbiterError> {
        let wanted = term.as_secs() as i64;
        let grant = self
            .members
            .look(|mut client| async move { client.lease_grant(wanted, None).await });
        let granted = grant.await?;
        if granted.ttl() != wanted {
            return Err(ArbiterError::Refused(format!(
                "etcd grants leases of {} s instead of {wanted} s: its election timeout is too long for them",
                granted.ttl()
            )));
        }
        let id = granted.id() as u64;
        Ok(ArbiterLease { id, term })
    }

    pub async fn renew(&self, lease: &ArbiterLease) -> Result<BootTime, ArbiterError> {
        let (sent, id) = (self.clock.boot(), lease.id as i64);
        // Returns when etcd has renewed it once; the stream for more ends here.
        let renew = self
            .members
            .look(|mut client| async move { client.lease_keep_alive(id).await });
        renew.await?;
        Ok(super::alive_until(sent, lease.term))
    }

    pub async fn end_lease(&self, lease: &ArbiterLease) -> Result<(), ArbiterError> {
        let id = lease.id as i64;
        let revoke = self
            .members
            .look(|mut client| async move { client.lease_revoke(id).await });
        match revoke.await {
            Ok(_) | Err(ArbiterError::LeaseEnded) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All members are asked: one that is silent tells nothing.
    pub async fn changed(&self, known: &RegisterState) -> Result<(), ArbiterError> {
        let members = self.members.numbers();
        let mut watches: FuturesUnordered<_> = members
            .map(|member| self.changed_at(member, known))
            .collect();
        let mut told = Err(ArbiterError::Unavailable("etcd has no members".into()));
        while told.is_err()
            && let Some(next) = watches.next().await
        {
            told = next;
        }
        told
    }

    async fn changed_at(&self, member: usize, known: &RegisterState) -> Result<(), ArbiterError> {
        let since = WatchOptions::new()
            .with_prefix()
            .with_start_revision(known.version as i64 + 1);
        let prefix = format!("{}/", self.members.prefix());
        let watch = self
            .members
            .ask(member, CallKind::Look, |mut client| async move {
                client.watch(prefix, Some(since)).await
            });
        let mut watch = watch.await?;
        loop {
            let told = watch
                .message()
                .await
                .map_err(|error| self.members.meaning(member, error))?;
            match told {
                // Cancelled: the revisions from there on were compacted, and may have had changes.
                Some(told) if told.canceled() || !told.events().is_empty() => return Ok(()),
                Some(_) => {}
                None => return Err(ArbiterError::Unavailable("etcd closed the stream".into())),
            }
        }
    }
}

/// The register that a transaction has read, and whose lease holds it.
fn found(read: &TxnResponse) -> (RegisterState, Option<i64>) {
    let mut kvs = read
        .op_responses()
        .into_iter()
        .map(|response| match response {
            TxnOpResponse::Get(mut get) => get.take_kvs().pop(),
            TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
        });
    let register = kvs.next().flatten();
    let holder = kvs.next().flatten().map(|holder| holder.lease());
    let state = RegisterState {
        revision: Revision(register.as_ref().map_or(0, |it| it.mod_revision() as u64)),
        value: register.map(|it| Bytes::copy_from_slice(it.value())),
        is_held: holder.is_some(),
        version: revision(read),
    };
    (state, holder)
}

/// etcd's own revision at the transaction.
fn revision(response: &TxnResponse) -> u64 {
    response
        .header()
        .map_or(0, |header| header.revision() as u64)
}
