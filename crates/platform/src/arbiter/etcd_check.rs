//! # etcd_check: how an etcd is, and how fast
//!
//! Owns   questions to each member, and measurements with keys of their own, which etcd removes.
//! Never  reads or changes a register, judges what it finds.
//! Enter  at `EtcdCheck::member`, `EtcdCheck::measure`.

use super::etcd_client::{CallKind, EtcdClient, WithoutLeader};
use super::{ArbiterError, EtcdOptions};
use crate::clock::Clock;
use crate::random::Random;
use etcd_client::{AlarmAction, AlarmType, Compare, CompareOp, PutOptions, Txn, TxnOp};
use std::time::Duration;

/// The value of each write: about as long as that of a register.
const VALUE: [u8; 300] = [b'x'; 300];

/// How long etcd keeps the keys of a measurement whose process died.
const KEYS_TERM: Duration = Duration::from_secs(60);

/// Examines one etcd. Each member is asked by itself; `EtcdOptions::prefix` is where measurements write.
pub struct EtcdCheck {
    options: EtcdOptions,
    clock: Clock,
    random: Random,
}

/// A member, as it says itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdMemberStatus {
    pub id: u64,
    pub cluster: u64,
    pub version: String,
    /// None: it knows no leader.
    pub leader: Option<u64>,
    pub is_learner: bool,
    /// Bytes of its database.
    pub database: u64,
    /// At how many bytes it stops to take changes; None if this version of etcd does not say.
    pub quota: Option<u64>,
}

/// A member, as the others know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdMemberEntry {
    pub id: u64,
    /// Empty if it was never started.
    pub name: String,
    pub urls: Vec<String>,
}

/// Why etcd takes no changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EtcdAlarm {
    /// A member's database has reached its quota.
    NoSpace,
    /// A member's data differ from the others'.
    Corrupt,
}

/// How long changes took, each one after the other; the shortest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdTimes {
    pub puts: Vec<Duration>,
    /// Compare-and-set, as a change of a register is.
    pub changes: Vec<Duration>,
}

impl EtcdCheck {
    pub fn new(options: EtcdOptions, clock: Clock, random: Random) -> EtcdCheck {
        EtcdCheck {
            options,
            clock,
            random,
        }
    }

    /// URLs of the members that the configuration names.
    pub fn endpoints(&self) -> &[String] {
        &self.options.endpoints
    }

    fn client(&self, endpoint: &str, without_leader: WithoutLeader) -> EtcdClient {
        let options = EtcdOptions {
            endpoints: vec![endpoint.to_owned()],
            ..self.options.clone()
        };
        EtcdClient::new(options, without_leader)
    }

    /// What the member at this URL says of itself.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be reached; `Refused` if it does not accept this process, or this process its certificate.
    pub async fn member(&self, endpoint: &str) -> Result<EtcdMemberStatus, ArbiterError> {
        let client = self.client(endpoint, WithoutLeader::Answers);
        let status = client.call(
            CallKind::Look,
            |mut client| async move { client.status().await },
        );
        let status = status.await?;
        let (id, cluster) = status
            .header()
            .map_or((0, 0), |header| (header.member_id(), header.cluster_id()));
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        Ok(EtcdMemberStatus {
            id,
            cluster,
            version: status.version().to_owned(),
            leader: Some(status.leader()).filter(|leader| *leader != 0),
            is_learner: status.is_learner(),
            database: positive(status.db_size()).unwrap_or(0),
            quota: positive(status.db_size_quota()),
        })
    }

    /// All members, as the one at this URL knows them.
    ///
    /// # Errors
    /// As of `member`.
    pub async fn membership(&self, endpoint: &str) -> Result<Vec<EtcdMemberEntry>, ArbiterError> {
        let client = self.client(endpoint, WithoutLeader::Refuses);
        let list = client.call(CallKind::Look, |mut client| async move {
            client.member_list().await
        });
        let list = list.await?;
        let entries = list.members().iter().map(|member| EtcdMemberEntry {
            id: member.id(),
            name: member.name().to_owned(),
            urls: member.client_urls().to_vec(),
        });
        Ok(entries.collect())
    }

    /// The alarms, each with the number of its member.
    ///
    /// # Errors
    /// As of `member`.
    pub async fn alarms(&self, endpoint: &str) -> Result<Vec<(u64, EtcdAlarm)>, ArbiterError> {
        let client = self.client(endpoint, WithoutLeader::Refuses);
        let alarms = client.call(CallKind::Look, |mut client| async move {
            let all = client.alarm(AlarmAction::Get, AlarmType::None, None);
            all.await
        });
        let alarms = alarms.await?;
        let alarms = alarms.alarms().iter().filter_map(|alarm| {
            let kind = match alarm.alarm() {
                AlarmType::Nospace => EtcdAlarm::NoSpace,
                AlarmType::Corrupt => EtcdAlarm::Corrupt,
                AlarmType::None => return None,
            };
            Some((alarm.member_id(), kind))
        });
        Ok(alarms.collect())
    }

    /// Writes so many times through the member at this URL, and removes what it wrote.
    ///
    /// # Errors
    /// As of `Arbiter::change`.
    pub async fn measure(&self, endpoint: &str, writes: usize) -> Result<EtcdTimes, ArbiterError> {
        let client = self.client(endpoint, WithoutLeader::Refuses);
        // etcd removes the keys with their lease, also if this process dies.
        let lease = grant(&client, KEYS_TERM).await?.0;
        let times = self.write(&client, lease, writes).await;
        end(&client, lease).await?;
        times
    }

    async fn write(
        &self,
        client: &EtcdClient,
        lease: i64,
        writes: usize,
    ) -> Result<EtcdTimes, ArbiterError> {
        let directory = format!("{}/doctor/{:016x}", client.prefix(), self.random.u64());
        let options = PutOptions::new().with_lease(lease);
        let mut puts = Vec::with_capacity(writes);
        for _ in 0..writes {
            let (key, options) = (format!("{directory}/put"), options.clone());
            let sent = self.clock.boot();
            let put = client.call(CallKind::Change, |mut client| async move {
                client.put(key, VALUE, Some(options)).await
            });
            put.await?;
            puts.push(self.clock.boot().since(sent));
        }
        let key = format!("{directory}/register");
        let mut changes = Vec::with_capacity(writes);
        let mut revision = 0;
        for _ in 0..writes {
            let change = Txn::new()
                .when([Compare::mod_revision(
                    key.clone(),
                    CompareOp::Equal,
                    revision,
                )])
                .and_then([TxnOp::put(key.clone(), VALUE, Some(options.clone()))]);
            let sent = self.clock.boot();
            let done = client.call(CallKind::Change, |mut client| async move {
                client.txn(change).await
            });
            let done = done.await?;
            changes.push(self.clock.boot().since(sent));
            revision = done.header().map_or(0, |header| header.revision());
        }
        puts.sort();
        changes.sort();
        Ok(EtcdTimes { puts, changes })
    }

    /// The term of a lease that was asked for with this one.
    ///
    /// # Errors
    /// As of `Arbiter::new_lease`.
    pub async fn granted_term(
        &self,
        endpoint: &str,
        term: Duration,
    ) -> Result<Duration, ArbiterError> {
        let client = self.client(endpoint, WithoutLeader::Refuses);
        let (lease, granted) = grant(&client, term).await?;
        end(&client, lease).await?;
        Ok(granted)
    }
}

async fn grant(client: &EtcdClient, term: Duration) -> Result<(i64, Duration), ArbiterError> {
    let wanted = term.as_secs() as i64;
    let granted = client.call(CallKind::Look, |mut client| async move {
        client.lease_grant(wanted, None).await
    });
    let granted = granted.await?;
    let term = Duration::from_secs(granted.ttl().unsigned_abs());
    Ok((granted.id(), term))
}

async fn end(client: &EtcdClient, lease: i64) -> Result<(), ArbiterError> {
    let ended = client.call(CallKind::Look, |mut client| async move {
        client.lease_revoke(lease).await
    });
    ended.await.map(|_| ())
}
