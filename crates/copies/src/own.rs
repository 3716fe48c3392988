//! A host that has a copy of the metadata, until it owns it.

use crate::election::{self, Election, Vote};
use crate::error::CopiesError;
use crate::host::{CopyHost, text_of};
use crate::limits::{
    ASK_TIMEOUT, ELECTION_WAIT, MEMBERS_MAX, PREFERRED_WAIT, RETRY_PAUSE, TERM, WATCH_TIMEOUT,
};
use crate::options::CopyOptions;
use crate::owner::{Ownership, OwnershipInput};
use crate::peers::CopyPeers;
use crate::register::{Member, Register, Standing};
use crate::register_access::{Edit, KnownRegister, RegisterAccess};
use crate::report;
use crate::step::{OwnView, Step, next_step};
use crate::take_over;
use futures_util::future::join_all;
use gupfs_platform::BootTime;
use gupfs_platform::arbiter::ArbiterError;
use gupfs_platform::arbiter::limits::CLOCK_PERCENT;
use gupfs_proto::copy::{CopiesReport, CopyLogState, CopyOp, CopyState};
use gupfs_proto::{CopyRun, OwnerEpoch};
use gupfs_store::kv::{Kv, KvError, KvRecovery};
use gupfs_store::log::LogError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// This host's copy of the metadata, and its place among the others.
pub struct MetadataCopy {
    options: CopyOptions,
    host: Arc<CopyHost>,
    register: Arc<RegisterAccess>,
    /// The owner that this host becomes uses them, too: a server keeps one connection of a process, and closes an older one.
    peers: Arc<CopyPeers>,
    /// Since when this process has found that no copy has kept its memory.
    election_since: Mutex<Option<BootTime>>,
    /// This process has taken, or tried to take, the register without the memory of the process that counted. (A change that got no reply may be done later: then the
    /// register says that this process counts.)
    has_lost_memory: AtomicBool,
}

/// The store of a host that owns the metadata now.
pub struct OwnedStore {
    pub kv: Arc<Kv>,
    pub found: KvRecovery,
    pub ownership: Ownership,
    /// This process counted: it has everything that was answered. Otherwise clients may have to say again what was answered and not durable.
    pub kept_memory: bool,
}

impl MetadataCopy {
    pub fn new(options: CopyOptions) -> Arc<MetadataCopy> {
        let clock = options.platform.clock.clone();
        Arc::new(MetadataCopy {
            host: Arc::new(CopyHost::new(&options)),
            register: Arc::new(RegisterAccess::new(options.arbiter.clone(), clock)),
            peers: Arc::new(CopyPeers::new(&options.identity, &options.local)),
            election_since: Mutex::new(None),
            has_lost_memory: AtomicBool::new(false),
            options,
        })
    }

    /// Answers the requests of other copies.
    pub fn host(&self) -> &Arc<CopyHost> {
        &self.host
    }

    /// The register as this process has found it last.
    pub fn register(&self) -> Option<Register> {
        self.register
            .known()
            .and_then(|known| known.register.clone())
    }

    /// The copies as this process knows them; `ownership` if it is the owner. None before it has read the register.
    pub fn report(&self, ownership: Option<&Ownership>) -> Option<CopiesReport> {
        let known = self.register.known()?;
        let register = known.register.as_ref()?;
        let is_held = known.state.is_held;
        Some(report::of(self.options.id, register, is_held, ownership))
    }

    /// Why the arbiter cannot be used now, if this process has asked it.
    pub fn arbiter_error(&self) -> Option<ArbiterError> {
        self.register.error()
    }

    /// Opens the copy, and keeps it until this host owns the metadata.
    ///
    /// # Errors
    /// As `CopiesError` says; the process must end.
    pub async fn own(&self) -> Result<OwnedStore, CopiesError> {
        self.host.open(self.options.may_begin).await?;
        let owned = tokio::select! {
            biased;
            error = self.host.failed() => Err(KvError::from(error).into()),
            owned = self.wait_to_own() => owned,
        };
        owned.map_err(|error| match error {
            // Another host has taken the register before this one served: the disk is well.
            CopiesError::Store(KvError::Log(LogError::Copies(why))) => CopiesError::Deposed(why),
            CopiesError::Store(error) => CopiesError::Failed(error),
            error => error,
        })
    }

    async fn wait_to_own(&self) -> Result<OwnedStore, CopiesError> {
        let mut was_member = false;
        loop {
            // Before the register is read: a host that takes it meanwhile may have this one obey already.
            let epoch = self.host.epoch();
            let known = self.register.read().await?;
            if let Some(register) = &known.register {
                self.check(register)?;
                let own = register.member(self.options.id);
                let is_member = own.is_some_and(|own| own.run == self.options.run);
                if was_member && own.is_none() {
                    return Err(CopiesError::Removed);
                }
                was_member |= is_member;
            }
            let until = self.options.platform.clock.boot() + WATCH_TIMEOUT;
            match next_step(
                known.register.as_ref(),
                known.state.is_held,
                &self.view(epoch),
            ) {
                Step::Wait => self.register.wait_changed(&known, until).await,
                Step::Join => {
                    if !self.join(&known).await? {
                        self.register.wait_changed(&known, until).await;
                    }
                }
                Step::Begin | Step::TakeOver => {
                    if let Some(owned) = self.try_take(&known).await? {
                        return Ok(owned);
                    }
                }
                Step::Yield => {
                    let until = self.options.platform.clock.boot() + PREFERRED_WAIT;
                    self.register.wait_changed(&known, until).await;
                    let later = self.register.read().await?;
                    let is_same = later.state == known.state;
                    if is_same && let Some(owned) = self.try_take(&later).await? {
                        return Ok(owned);
                    }
                }
                Step::Elect => {
                    if let Some(owned) = self.elect(&known).await? {
                        return Ok(owned);
                    }
                }
                Step::NoCluster => return Err(CopiesError::NoCluster),
                Step::RegisterOlder => {
                    return Err(CopiesError::ArbiterOlder {
                        register: known.register.as_ref().map_or(OwnerEpoch(0), |it| it.epoch),
                        seen: epoch,
                    });
                }
            }
        }
    }

    /// Makes this host's copy the only one that counts, because the others are lost: the next start of this host owns the metadata. Returns what the register
    /// was before.
    ///
    /// # Errors
    /// `NotPossible` if an owner is alive, or this copy cannot be used; `Register`, `Store` as of `own`.
    pub async fn force(&self) -> Result<Option<Register>, CopiesError> {
        self.host.open(false).await?;
        let state = self.host.state();
        let CopyLogState::Open { newest, .. } = state.log else {
            return Err(CopiesError::NotPossible(
                "this copy has nothing that can be used".into(),
            ));
        };
        let known = self.register.read().await?;
        if known.state.is_held {
            return Err(CopiesError::NotPossible(
                "a metadata server owns the metadata: stop it first".into(),
            ));
        }
        if let Some(register) = &known.register {
            self.check(register)?;
        }
        let before = known.register.clone();
        let epoch = before.as_ref().map_or(newest, |before| before.epoch);
        let mut own = self.member(Standing::Counting);
        // No process has this run: the next one finds that it counted, and that it lost its memory.
        own.run = CopyRun(0);
        let store = self.options.kv.log.store;
        let wanted = Register {
            cluster: store.cluster,
            incarnation: store.incarnation,
            shards: self.options.shards,
            epoch: epoch.max(newest).after(1),
            owner: own.id,
            preferred: None,
            members: vec![own],
        };
        let written = self.register.change(|found| match found {
            Some(found) if *found == wanted => Edit::Keep,
            found if found == before.as_ref() => Edit::Write(wanted.clone()),
            _ => Edit::Refuse("the register was changed meanwhile".into()),
        });
        written.await?;
        self.stop().await;
        Ok(before)
    }

    /// Closes the copy in order. It counts until the owner strikes it.
    pub async fn stop(&self) {
        if let Err(error) = self.host.close("this process stops").await {
            tracing::info!(error = %text_of(&error), "the copy of the metadata was not closed in order");
        }
    }

    /// `epoch`: the newest owner that this host had heard of before the register was read.
    fn view(&self, epoch: OwnerEpoch) -> OwnView {
        OwnView {
            id: self.options.id,
            run: self.options.run,
            may_begin: self.options.may_begin,
            is_open: self.host.copy().is_some(),
            epoch,
        }
    }

    fn check(&self, register: &Register) -> Result<(), CopiesError> {
        let store = self.options.kv.log.store;
        if register.cluster != store.cluster {
            return Err(CopiesError::OtherCluster {
                found: register.cluster,
                wanted: store.cluster,
            });
        }
        match register.incarnation == store.incarnation {
            true => Ok(()),
            false => Err(CopiesError::OtherStore),
        }
    }

    fn member(&self, standing: Standing) -> Member {
        Member {
            id: self.options.id,
            run: self.options.run,
            address: self.options.address.clone(),
            standing,
        }
    }

    /// Asks the owner, by way of the register, to bring this process up to date. False if the owner does not answer: while it may be dead, the register must
    /// go on to say which processes counted.
    async fn join(&self, known: &KnownRegister) -> Result<bool, CopiesError> {
        let Some(register) = &known.register else {
            return Ok(false);
        };
        if let Some(same) = register.member(self.options.id)
            && same.run != self.options.run
            && same.address != self.options.address
            && self.state_of(same).await.is_some()
        {
            return Err(CopiesError::SameIdentity {
                address: same.address.clone(),
            });
        }
        let owner = register.member(register.owner);
        let answers = match owner {
            Some(owner) => self.state_of(owner).await.is_some(),
            None => false,
        };
        if !answers {
            return Ok(false);
        }
        let member = self.member(Standing::Joining);
        let joined = self.register.change(|register| {
            let Some(register) = register else {
                return Edit::Refuse("the register is empty".into());
            };
            match register.member(member.id) {
                Some(known) if known.run == member.run && known.standing != Standing::Struck => {
                    return Edit::Keep;
                }
                None if register.members.len() >= MEMBERS_MAX => {
                    return Edit::Refuse(CopiesError::TooManyCopies(MEMBERS_MAX).to_string());
                }
                _ => {}
            }
            let mut wanted = register.clone();
            wanted.put(member.clone());
            Edit::Write(wanted)
        });
        joined.await?;
        // It counts again when it has everything.
        self.has_lost_memory.store(false, SeqCst);
        Ok(true)
    }

    /// What the process that the register names says; None if it does not answer, or another process does.
    async fn state_of(&self, member: &Member) -> Option<CopyState> {
        let peer = (self.peers).copy_at(&member.address, member.id, Some(member.run));
        peer.state(CopyOp::State, ASK_TIMEOUT).await.ok()
    }

    /// Takes the register, and opens the store; None if another host was first.
    async fn try_take(&self, known: &KnownRegister) -> Result<Option<OwnedStore>, CopiesError> {
        let clock = &self.options.platform.clock;
        let attempt = match self.host.begin_take_over() {
            Ok(attempt) => attempt,
            Err(promised) => {
                clock.sleep_until(promised).await;
                return Ok(None);
            }
        };
        let sent = clock.boot();
        let lease = match self.options.arbiter.new_lease(TERM).await {
            Ok(lease) => lease,
            Err(error) => {
                tracing::warn!(%error, "no lease from the arbiter; trying again");
                clock.sleep(RETRY_PAUSE).await;
                return Ok(None);
            }
        };
        let wanted = self.next_register(known.register.as_ref());
        let kept_memory = !self.has_lost_memory.load(SeqCst);
        if !self.register.take(known, &wanted, &lease).await? {
            let _ = self.options.arbiter.end_lease(&lease).await; // it ends by itself
            return Ok(None);
        }
        tracing::warn!(
            epoch = wanted.epoch.0,
            kept_memory,
            "this host owns the metadata now"
        );
        let ownership = Ownership::begin(OwnershipInput {
            platform: self.options.platform.clone(),
            id: self.options.id,
            files: self.options.files.clone(),
            store: self.options.kv.log.store,
            register: self.register.clone(),
            peers: self.peers.clone(),
            send_deadline: self.options.send_deadline.clone(),
            taken: wanted,
            lease,
            alive_until: sent + TERM * (100 - CLOCK_PERCENT) / 100,
        });
        let opened = take_over::take_over(&self.options, &self.host, &ownership).await;
        drop(attempt);
        match opened {
            Ok((kv, found)) => Ok(Some(OwnedStore {
                kv,
                found,
                ownership,
                kept_memory,
            })),
            Err(error) => {
                ownership.release().await;
                Err(error)
            }
        }
    }

    /// The register with this host as the next owner. The former one does not count: its process ends.
    fn next_register(&self, found: Option<&Register>) -> Register {
        let own = self.member(Standing::Counting);
        let Some(found) = found else {
            let store = self.options.kv.log.store;
            return Register {
                cluster: store.cluster,
                incarnation: store.incarnation,
                shards: self.options.shards,
                epoch: self.host.epoch().after(1),
                owner: own.id,
                preferred: None,
                members: vec![own],
            };
        };
        let mut next = found.clone();
        next.epoch = found.epoch.max(self.host.epoch()).after(1);
        if let Some(former) = (next.members.iter_mut()).find(|member| member.id == found.owner) {
            former.standing = Standing::Struck;
        }
        next.owner = own.id;
        next.preferred = None;
        next.put(own);
        next
    }

    /// Asks all that counted what they have; takes the register if this host's log is the most advanced.
    async fn elect(&self, known: &KnownRegister) -> Result<Option<OwnedStore>, CopiesError> {
        let clock = &self.options.platform.clock;
        let Some(register) = &known.register else {
            return Ok(None);
        };
        let CopyLogState::Open { end, newest, .. } = self.host.state().log else {
            return Ok(None);
        };
        let others = register
            .counting()
            .filter(|member| member.id != self.options.id);
        let asked = others.map(|member| async move {
            let peer = self.peers.copy_at(&member.address, member.id, None);
            let state = peer.state(CopyOp::State, ASK_TIMEOUT).await;
            (member.id, state.ok())
        });
        let votes: Vec<Vote> = join_all(asked).await;
        let now = clock.boot();
        let since = *self.election_since.lock().get_or_insert(now);
        let is_late = now.since(since) >= ELECTION_WAIT;
        let own = (self.options.id, end, newest);
        match election::decide(register, own, &votes, is_late) {
            Election::Won => {
                self.has_lost_memory.store(true, SeqCst);
                self.try_take(known).await
            }
            Election::Lost | Election::Undecided => {
                clock.sleep(RETRY_PAUSE * 2).await;
                Ok(None)
            }
        }
    }
}
