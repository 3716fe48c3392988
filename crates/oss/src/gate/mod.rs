//! # gate: by what right somebody asks
//!
//! Owns   the keys that the metadata server told, which capabilities and passes were verified, which sessions were ended.
//! Never  asks anybody, reads an object; computes an HMAC for what was verified before.
//! Enter  at `Gate::admit` for each request of another process; `Gate::hear` and `Gate::fence` for the metadata server's word.
//!
//! Nothing of this survives a restart: no request is served before the metadata server was heard again, and its word holds
//! the keys and all sessions that ended and could be believed still.

mod counts;
mod keys;
mod need;
mod session;

pub use counts::GateStatus;

use counts::Counts;
use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::capability::{Fault, Grant, Pass, Statement, Tag, Warrant};
use gupfs_proto::cluster::Seals;
use gupfs_proto::data::Request;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::{InodeId, OstId, OwnerEpoch, SessionId};
use gupfs_rpc::ClusterKey;
use keys::Keys;
use need::Need;
use parking_lot::RwLock;
use session::Session;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// How long a session is remembered that is not heard of, or was ended: its last pass is over long before.
const REMEMBERED: Duration = SERVER_TERM.saturating_mul(2);

#[derive(Default)]
pub struct Gate {
    keys: RwLock<Keys>,
    /// When the metadata server was heard last: fine enough to forget by.
    heard: AtomicU64,
    /// Grants of epochs before this one are not believed, verified or not.
    oldest: AtomicU64,
    /// The metadata server's warrant for each target, as it was verified.
    servers: RwLock<Map<OstId, (OwnerEpoch, Tag)>>,
    sessions: RwLock<Map<SessionId, Arc<Session>>>,
    counts: Counts,
}

/// A request that may be carried out; it counts as under way until this is dropped.
pub struct Admitted(Option<Arc<Session>>);

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.leave();
        }
    }
}

impl Gate {
    /// The cluster's key, of which the keys of capabilities are one half. Called before anything is heard.
    pub fn belongs_to(&self, cluster: Option<ClusterKey>) {
        self.keys.write().belongs_to(cluster);
    }

    /// The metadata server's word, in answer to what we asked at `asked` or later.
    pub fn hear(&self, seals: &Seals, asked: BootTime) {
        let (oldest, newest) = {
            let mut keys = self.keys.write();
            (keys.hear(seals, asked), keys.newest())
        };
        self.oldest.store(oldest.0, Release);
        self.heard.store(asked.0, Release);
        if seals.epoch < newest {
            tracing::warn!(
                told = seals.epoch.0,
                known = newest.0,
                "a former metadata server speaks, and is not believed"
            );
            return;
        }
        for ended in &seals.ended {
            self.session_or_new(*ended).fence(asked);
        }
        let since = BootTime(asked.0.saturating_sub(REMEMBERED.as_nanos() as u64));
        self.sessions
            .write()
            .retain(|_, session| Arc::strong_count(session) > 1 || !session.is_over(since));
    }

    /// Whether this may be done now. What was admitted before is admitted again by comparisons alone.
    ///
    /// # Errors
    /// What is wrong with what was shown. It is counted.
    pub fn admit(&self, request: &Request, now: BootTime) -> Result<Admitted, Fault> {
        let admitted = self.judge(request, now);
        if let Err(fault) = &admitted {
            self.counts.refused(*fault);
        }
        admitted
    }

    fn judge(&self, request: &Request, now: BootTime) -> Result<Admitted, Fault> {
        let need = Need::of(&request.op);
        match (request.warrant, need) {
            (Warrant::None, _) => Err(Fault::Missing),
            (Warrant::Server { epoch, tag }, _) => {
                self.check_server(request.ost, epoch, tag)?;
                Ok(Admitted(None))
            }
            (Warrant::Client { .. }, Need::Server) => Err(Fault::Rights),
            (Warrant::Client { pass, grant }, _) => {
                let session = self.check_pass(request.session, &pass, now)?;
                session.enter();
                let admitted = Admitted(Some(session.clone()));
                if session.is_fenced() {
                    return Err(Fault::Fenced);
                }
                if let Need::File(ino, rights) = need {
                    let grant = grant.ok_or(Fault::Missing)?;
                    self.check_grant(request, &session, ino, grant)?;
                    if !grant.rights.contains(rights) {
                        return Err(Fault::Rights);
                    }
                }
                Ok(admitted)
            }
        }
    }

    fn check_server(&self, ost: OstId, epoch: OwnerEpoch, tag: Tag) -> Result<(), Fault> {
        if self.servers.read().get(&ost) == Some(&(epoch, tag)) {
            return Ok(());
        }
        let keys = self.keys.read();
        let what = Statement::Server { epoch, ost };
        let verified = keys.verify_at(ost, epoch, &what, &tag);
        self.counts.verified();
        match verified {
            Some(true) if epoch < keys.newest() => Err(Fault::Fenced),
            Some(true) => {
                self.servers.write().insert(ost, (epoch, tag));
                Ok(())
            }
            Some(false) => Err(Fault::Forged),
            None => Err(Fault::Expired),
        }
    }

    /// The session, if it lives. One is remembered only when a pass of it was verified.
    fn check_pass(
        &self,
        number: SessionId,
        pass: &Pass,
        now: BootTime,
    ) -> Result<Arc<Session>, Fault> {
        let known = self.sessions.read().get(&number).cloned();
        let counts = known.as_ref().and_then(|session| session.pass(pass));
        if let (Some(session), Some(until)) = (&known, counts) {
            return match now < until {
                true => Ok(session.clone()),
                false => Err(Fault::Expired),
            };
        }
        let (verified, until) = {
            let keys = self.keys.read();
            let what = Statement::Pass {
                epoch: pass.epoch,
                session: number,
                until: pass.until,
            };
            let verified = keys.verify_pass(pass.epoch, &what, &pass.tag);
            (verified, keys.counts_until(pass.epoch, pass.until))
        };
        self.counts.verified();
        match (verified, until) {
            (Some(false), _) => Err(Fault::Forged),
            (Some(true), Some(until)) if now < until => {
                let session = self.session_or_new(number);
                session.verified_pass(*pass, until);
                Ok(session)
            }
            _ => Err(Fault::Expired),
        }
    }

    fn check_grant(
        &self,
        request: &Request,
        session: &Session,
        ino: InodeId,
        grant: Grant,
    ) -> Result<(), Fault> {
        if grant.epoch.0 < self.oldest.load(Acquire) {
            return Err(Fault::Expired);
        }
        if session.has_grant(request.ost, ino, &grant) {
            return Ok(());
        }
        let what = Statement::File {
            epoch: grant.epoch,
            ost: request.ost,
            session: request.session,
            ino,
            rights: grant.rights,
        };
        let verified = (self.keys.read()).verify_at(request.ost, grant.epoch, &what, &grant.tag);
        self.counts.verified();
        match verified {
            Some(true) => {
                session.verified_grant(request.ost, ino, grant);
                Ok(())
            }
            Some(false) => Err(Fault::Forged),
            None => Err(Fault::Expired),
        }
    }

    fn session_or_new(&self, number: SessionId) -> Arc<Session> {
        if let Some(session) = self.sessions.read().get(&number) {
            return session.clone();
        }
        self.sessions.write().entry(number).or_default().clone()
    }

    /// Nothing of this session is done any more when this returns: what comes is refused, what is under way is over.
    pub async fn fence(&self, number: SessionId) {
        let session = self.session_or_new(number);
        session.fence(BootTime(self.heard.load(Acquire)));
        self.counts.fences.fetch_add(1, Relaxed);
        session.idle().await;
    }

    /// Who was refused, for people.
    pub fn note_refused(&self, who: String) {
        self.counts.note(who);
    }

    pub fn status(&self) -> GateStatus {
        let epoch = self.keys.read().newest();
        self.counts.status(epoch, self.sessions.read().len())
    }
}

#[cfg(test)]
mod tests;
