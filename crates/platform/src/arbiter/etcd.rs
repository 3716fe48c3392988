//! A register in etcd: one key for the value, and one with the holder's lease, which etcd removes when the lease ends.

use super::limits::{CALL_TIMEOUT, HEDGE_DELAY, KEEP_ALIVE};
use super::{ArbiterError, ArbiterLease, ChangeResult, RegisterState, Revision};
use crate::clock::{BootTime, Clock};
use bytes::Bytes;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Error, PutOptions, Txn, TxnOp, TxnOpResponse,
    TxnResponse, WatchOptions,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Mutex;
use tonic::Code;

/// Which etcd, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdOptions {
    /// URLs of the members.
    pub endpoints: Vec<String>,
    /// The keys are `PREFIX/register` and `PREFIX/holder`.
    pub prefix: String,
    /// Name and password.
    pub user: Option<(String, String)>,
}

pub struct EtcdArbiter {
    options: EtcdOptions,
    clock: Clock,
    /// One client for each member: a client of all of them would send each call to a random one, a silent one included.
    clients: Vec<Mutex<Option<Client>>>,
    /// The member that answered last. Changes are sent to it alone.
    preferred: AtomicUsize,
}

/// What a call without a reply means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Look,
    Change,
}

impl EtcdArbiter {
    pub fn new(options: EtcdOptions, clock: Clock) -> EtcdArbiter {
        let clients = options.endpoints.iter().map(|_| Mutex::new(None));
        EtcdArbiter {
            clients: clients.collect(),
            preferred: AtomicUsize::new(0),
            options,
            clock,
        }
    }

    fn register_key(&self) -> String {
        format!("{}/register", self.options.prefix)
    }

    fn holder_key(&self) -> String {
        format!("{}/holder", self.options.prefix)
    }

    pub async fn read(&self) -> Result<RegisterState, ArbiterError> {
        let read = Txn::new().and_then(self.reads());
        let read = self.look(|mut client| {
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
        let member = self.preferred.load(Relaxed);
        let done = self.call(member, CallKind::Change, |mut client| async move {
            client.txn(txn).await
        });
        let done = done.await?;
        if done.succeeded() {
            return Ok((ChangeResult::Done(Revision(revision(&done))), None));
        }
        let (state, holder) = found(&done);
        Ok((ChangeResult::Conflict(state), holder))
    }

    pub async fn new_lease(&self, term: Duration) -> Result<ArbiterLease, ArbiterError> {
        let wanted = term.as_secs() as i64;
        let grant = self.look(|mut client| async move { client.lease_grant(wanted, None).await });
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
        let renew = self.look(|mut client| async move { client.lease_keep_alive(id).await });
        renew.await?;
        Ok(super::alive_until(sent, lease.term))
    }

    pub async fn end_lease(&self, lease: &ArbiterLease) -> Result<(), ArbiterError> {
        let id = lease.id as i64;
        let revoke = self.look(|mut client| async move { client.lease_revoke(id).await });
        match revoke.await {
            Ok(_) | Err(ArbiterError::LeaseEnded) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All members are asked: one that is silent tells nothing.
    pub async fn changed(&self, known: &RegisterState) -> Result<(), ArbiterError> {
        let members = 0..self.clients.len();
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
        let prefix = format!("{}/", self.options.prefix);
        let watch = self.call(member, CallKind::Look, |mut client| async move {
            client.watch(prefix, Some(since)).await
        });
        let mut watch = watch.await?;
        loop {
            let told = watch
                .message()
                .await
                .map_err(|error| meaning(error, CallKind::Look))?;
            match told {
                // Cancelled: the revisions from there on were compacted, and may have had changes.
                Some(told) if told.canceled() || !told.events().is_empty() => return Ok(()),
                Some(_) => {}
                None => return Err(ArbiterError::Unavailable("etcd closed the stream".into())),
            }
        }
    }

    /// Asks the member that answered last, and one more whenever one fails or has not answered for `HEDGE_DELAY`: the first answer counts. Only for
    /// calls that may be done several times.
    async fn look<T, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl Fn(Client) -> F,
    ) -> Result<T, ArbiterError> {
        let (first, count) = (self.preferred.load(Relaxed), self.clients.len());
        let (mut asked, mut turn) = (FuturesUnordered::new(), 0);
        let mut failed = ArbiterError::Unavailable("etcd has no members".into());
        loop {
            if turn < count {
                asked.push(self.call((first + turn) % count, CallKind::Look, &call));
                turn += 1;
            }
            tokio::select! {
                biased;
                answered = asked.next() => match answered {
                    Some(Err(error @ ArbiterError::Unavailable(_))) => failed = error,
                    Some(answer) => return answer,
                    None => return Err(failed),
                },
                () = tokio::time::sleep(HEDGE_DELAY), if turn < count => {}
            }
        }
    }

    /// Asks one member.
    async fn call<T, F: Future<Output = Result<T, Error>>>(
        &self,
        member: usize,
        kind: CallKind,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, ArbiterError> {
        let answered = async {
            let client = self.client(member).await?;
            call(client).await.map_err(|error| meaning(error, kind))
        };
        let answer = tokio::time::timeout(CALL_TIMEOUT, answered).await;
        let answer = answer.unwrap_or_else(|_| {
            let why = format!("no reply within {CALL_TIMEOUT:?}");
            Err(without_reply(why, kind))
        });
        match &answer {
            Err(ArbiterError::Unavailable(_) | ArbiterError::Unknown(_)) => {
                self.leave(member);
            }
            _ => self.preferred.store(member, Relaxed),
        }
        answer
    }

    /// The next call to this member connects anew, and changes go to another member.
    fn leave(&self, member: usize) {
        // While another call holds it, that one connects anew.
        if let Ok(mut client) = self.clients[member].try_lock() {
            *client = None;
        }
        let next = (member + 1) % self.clients.len();
        let _ = (self.preferred).compare_exchange(member, next, Relaxed, Relaxed);
    }

    async fn client(&self, member: usize) -> Result<Client, ArbiterError> {
        let mut client = self.clients[member].lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_connect_timeout(CALL_TIMEOUT)
            .with_keep_alive(KEEP_ALIVE, CALL_TIMEOUT)
            .with_keep_alive_while_idle(false);
        if let Some((name, password)) = &self.options.user {
            options = options
                .with_user(name, password)
                .with_auto_token_refresh(true);
        }
        let endpoint = &self.options.endpoints[member];
        let connected = Client::connect([endpoint], Some(options)).await;
        // Nothing was sent yet, whatever the call is.
        let connected = connected.map_err(|error| meaning(error, CallKind::Look))?;
        Ok(client.insert(connected).clone())
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

fn without_reply(why: String, kind: CallKind) -> ArbiterError {
    match kind {
        CallKind::Look => ArbiterError::Unavailable(why),
        CallKind::Change => ArbiterError::Unknown(why),
    }
}

/// What an error of etcd says about the call.
fn meaning(error: Error, kind: CallKind) -> ArbiterError {
    let status = match &error {
        Error::GRpcStatus(status) => status,
        Error::LeaseKeepAliveError(why) if why == "lease not found" => {
            return ArbiterError::LeaseEnded;
        }
        _ => return without_reply(error.to_string(), kind),
    };
    let said = status.message().to_owned();
    match status.code() {
        Code::NotFound if said.contains("lease") => ArbiterError::LeaseEnded,
        // Not applied: the alarm of a full database, or too many requests at once.
        Code::ResourceExhausted if said.contains("space") => ArbiterError::Refused(said),
        Code::ResourceExhausted => ArbiterError::Unavailable(said),
        Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated => {
            ArbiterError::Refused(said)
        }
        _ => without_reply(said, kind),
    }
}
