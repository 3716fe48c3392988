//! # etcd_members: calls to whichever member of etcd answers
//!
//! Owns   one client for each member, and which of them is asked first.
//! Never  knows a key, or what a call does.
//! Enter  at `EtcdMembers::look` for calls that may be done several times, at `EtcdMembers::change` for others.
//!
//! One client of all members would send each call to a random one, also to one on a host that is dark.

use super::ArbiterError;
use super::etcd_client::{CallKind, EtcdClient, WithoutLeader};
use super::etcd_options::EtcdOptions;
use super::limits::HEDGE_DELAY;
use etcd_client::{Client, Error};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub(super) struct EtcdMembers {
    clients: Vec<EtcdClient>,
    /// The member that answered last.
    preferred: AtomicUsize,
    prefix: String,
}

impl EtcdMembers {
    pub(super) fn new(options: EtcdOptions) -> EtcdMembers {
        let of_member = |endpoint: &String| EtcdOptions {
            endpoints: vec![endpoint.clone()],
            ..options.clone()
        };
        let clients = options.endpoints.iter().map(of_member);
        EtcdMembers {
            clients: clients
                .map(|options| EtcdClient::new(options, WithoutLeader::Refuses))
                .collect(),
            preferred: AtomicUsize::new(0),
            prefix: options.prefix.clone(),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The numbers of the members.
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.clients.len()
    }

    /// Asks the member that answered last, and one more whenever one fails or has not answered for `HEDGE_DELAY`: the first answer counts.
    pub(super) async fn look<T, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl Fn(Client) -> F,
    ) -> Result<T, ArbiterError> {
        let (first, count) = (self.preferred.load(Relaxed), self.clients.len());
        let (mut asked, mut turn) = (FuturesUnordered::new(), 0);
        let mut failed = no_members();
        loop {
            if turn < count {
                asked.push(self.ask((first + turn) % count, CallKind::Look, &call));
                turn += 1;
            }
            tokio::select! {
                biased;
                answered = asked.next() => match answered {
                    // Another member may have a valid certificate, or room.
                    Some(Err(error @ ArbiterError::Refused(_))) => failed = error,
                    Some(Err(error @ ArbiterError::Unavailable(_))) => {
                        // A refusal says more.
                        if !matches!(failed, ArbiterError::Refused(_)) {
                            failed = error;
                        }
                    }
                    Some(answer) => return answer,
                    None => return Err(failed),
                },
                () = tokio::time::sleep(HEDGE_DELAY), if turn < count => {}
            }
        }
    }

    /// Asks the member that answered last, and no other: it may do it although it does not answer.
    pub(super) async fn change<T, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, ArbiterError> {
        let member = self.preferred.load(Relaxed);
        self.ask(member, CallKind::Change, call).await
    }

    /// Asks this member.
    pub(super) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        member: usize,
        kind: CallKind,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, ArbiterError> {
        let Some(client) = self.clients.get(member) else {
            return Err(no_members());
        };
        let answer = client.call(kind, call).await;
        match &answer {
            Err(
                ArbiterError::Unavailable(_) | ArbiterError::Unknown(_) | ArbiterError::Refused(_),
            ) => {
                client.forget_connection();
                let next = (member + 1) % self.clients.len();
                let _ = (self.preferred).compare_exchange(member, next, Relaxed, Relaxed);
            }
            _ => self.preferred.store(member, Relaxed),
        }
        answer
    }

    /// What an error of a call to a member's stream says.
    pub(super) fn meaning(&self, member: usize, error: Error) -> ArbiterError {
        match self.clients.get(member) {
            Some(client) => client.meaning(error, CallKind::Look),
            None => no_members(),
        }
    }
}

fn no_members() -> ArbiterError {
    ArbiterError::Unavailable("etcd has no members".into())
}
