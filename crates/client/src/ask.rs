//! One call to a server: lane, session and what was seen on the way there; what is new on the way back.

use crate::calls::{Call, Whom};
use crate::file::table::File;
use crate::limits::{DEADLINE, KEPT_MOST, PERMIT_PAUSE};
use crate::service::Client;
use crate::view::Sight;
use crate::warrants::needed;
use gupfs_namespace::rights::{Rule, rule};
use gupfs_proto::capability::{Fault, OpenProof, Rights, Warrant};
use gupfs_proto::limits::CLIENT_TERM;
use gupfs_proto::lock::Ask;
use gupfs_proto::meta::{Answer, Kept, Lane, Op};
use gupfs_proto::{Caller, InodeId, OstId, Refusal, data, meta, wire};
use std::sync::Arc;

impl Client {
    /// Asks the metadata server.
    pub(crate) async fn ask(&self, caller: &Caller, op: Op) -> Result<Answer, Refusal> {
        if begins_anew(&op) {
            self.in_a_session().await?;
        } else if self.session.is_lost() {
            return Err(Refusal::Stale);
        }
        let lane = match op.changes() {
            true if self.may_wait_for_others(&op) => Some(self.lanes.take_patiently().await),
            true => Some(self.lanes.take().await),
            false => None,
        };
        if self.options.shared && op.changes() && self.view.kept() > KEPT_MOST {
            self.make_durable().await?;
        }
        let call = self.call(Whom::Mds, op.name(), subject(&op));
        let underway = self.calls.begin(call);
        let lane = lane.as_ref().map(|taken| taken.lane());
        let session = self.session();
        let proofs = self.proofs_for(&op);
        let mut result = self.ask_in_any_life(caller, op, proofs, lane).await;
        drop(underway);
        self.observe(&call, result.is_ok());
        if let Ok(Answer::Opened(opened)) = &mut result {
            match self.session() == session {
                // Whoever opened takes the proof of that from it.
                true => (self.warrants).may(opened.attr.ino, opened.capability.clone()),
                false => opened.capability = None,
            }
        }
        result
    }

    /// What shows that we have open what the operation is about, if that gives the right to it.
    fn proofs_for(&self, op: &Op) -> Vec<OpenProof> {
        if !self.options.shared {
            // Nobody else can be mistaken for us: the server gives none.
            return Vec::new();
        }
        let ino = match rule(op) {
            Rule::Open(ino, _) | Rule::WriteOrOwn(ino) => ino,
            Rule::Session | Rule::Credentials | Rule::Holder(_) | Rule::Parts => return Vec::new(),
        };
        self.open_proof(ino).into_iter().collect()
    }

    /// Of this session.
    pub(crate) fn open_proof(&self, ino: InodeId) -> Option<OpenProof> {
        let session = self.session();
        let of_file = |file: Arc<File>| file.state().open_proof(session);
        let file = self.table.get(ino).and_then(of_file);
        file.or_else(|| self.open_dirs.proof(session, ino))
    }

    /// Also when the server is started again meanwhile: the same lane makes it the same request.
    async fn ask_in_any_life(
        &self,
        caller: &Caller,
        mut op: Op,
        proofs: Vec<OpenProof>,
        lane: Option<Lane>,
    ) -> Result<Answer, Refusal> {
        // As it travels, and as it is said again; the operation itself otherwise.
        let proven = (!proofs.is_empty()).then(|| Op::Proven {
            proofs,
            op: wire::op_bytes(&op),
        });
        loop {
            let (session, (life, seen)) = (self.session(), self.view.now());
            // Alone, nobody outlives the server.
            let shared = self.options.shared;
            let again = shared.then(|| op.clone());
            let request = meta::Request {
                session,
                lane,
                caller: caller.clone(),
                job: self.options.job,
                life,
                seen,
                op: proven.clone().unwrap_or(op),
            };
            let reply = self.route.mds.call(request).await;
            if reply.result == Err(Refusal::SessionEnded) {
                self.session_has_ended(session);
                return reply.result;
            }
            let Some(same) = again else {
                self.view.see(life, &reply, None);
                return reply.result;
            };
            let another = match reply.result {
                Err(Refusal::AnotherLife(life)) => Some(life),
                _ if !self.locks.hear(session, life, &same, &reply.result) => None,
                _ => match self.view.see(
                    life,
                    &reply,
                    to_keep(&same, proven.as_ref(), caller, lane, &reply),
                ) {
                    Sight::Seen { newer_map } => {
                        if newer_map {
                            self.route.newer_map();
                        }
                        return reply.result;
                    }
                    // What was looked at was so; what was changed must be so in the life that is.
                    Sight::OfAnotherLife if reply.change.is_none() => return reply.result,
                    Sight::OfAnotherLife => None,
                },
            };
            match another {
                Some(life) => self.come_back(life).await?,
                // Somebody else found out, and is coming back.
                None => drop(self.coming_back.lock().await),
            }
            if let Op::Sync { .. } = same {
                // Coming back made it so.
                return Ok(Answer::Synced);
            }
            if self.session() != session {
                return Err(Refusal::Stale);
            }
            op = same;
        }
    }

    async fn make_durable(&self) -> Result<(), Refusal> {
        let (us, upto) = (Caller::root(), self.view.seq());
        let synced = self
            .ask_in_any_life(&us, Op::Sync { upto }, Vec::new(), None)
            .await;
        synced.map(|_| ())
    }

    /// Whether the server may have another client tell or give back before it answers. Never about a file that is held
    /// here, nor when we tell.
    fn may_wait_for_others(&self, op: &Op) -> bool {
        if !self.options.shared || is_a_word(op) {
            return false;
        }
        let file = subject(op).and_then(|ino| self.table.get(ino));
        !file.is_some_and(|file| file.state().marked)
    }

    /// Asks a target.
    pub(crate) async fn ask_ost(&self, ost: OstId, op: data::Op) -> data::Reply {
        let call = self.call(Whom::Ost(ost), op.name(), data_subject(&op));
        let underway = self.calls.begin(call);
        let reply = self.ask_by_right(ost, op).await;
        drop(underway);
        self.observe(&call, reply.is_ok());
        reply
    }

    /// With what shows that we may. What the target does not believe any more is got anew, and the target asked again.
    async fn ask_by_right(&self, ost: OstId, op: data::Op) -> data::Reply {
        let mut request = data::Request {
            session: self.session(),
            map_epoch: self.view.map_epoch(),
            job: self.options.job,
            ost,
            warrant: Warrant::None,
            op,
        };
        if !self.route.is_found() {
            let peer = self.route.ost(ost, request.map_epoch).await?;
            return peer.call(request).await;
        }
        let clock = &self.platform.clock;
        let mut given_up = clock.boot() + DEADLINE;
        loop {
            request.warrant = self.warrant(ost, &request.op).await?;
            let shown = clock.boot();
            let reply = self.ask_where_it_is(&request).await;
            if reply != Err(Refusal::Capability(Fault::Expired)) {
                return reply;
            }
            if clock.boot().since(shown) >= CLIENT_TERM {
                // The target was away, and what was shown has aged on its way: that it is not believed is no wonder.
                given_up = clock.boot() + DEADLINE;
            }
            if clock.boot() >= given_up {
                return reply;
            }
            tracing::debug!(%ost, op = request.op.name(), "what was shown has expired; it is got anew");
            match needed(&request.op) {
                Some((ino, rights)) => self.get_permit(ino, rights).await?,
                None => self.get_pass().await?,
            }
            if self.session() != request.session {
                return Err(Refusal::Stale);
            }
            // The target may learn of a new metadata server later than we do: within a second or two.
            clock.sleep(PERMIT_PAUSE).await;
        }
    }

    async fn warrant(&self, ost: OstId, op: &data::Op) -> Result<Warrant, Refusal> {
        if let Some(warrant) = self.warrants.show(ost, op) {
            return Ok(warrant);
        }
        if let Some((ino, rights)) = needed(op) {
            self.get_permit(ino, rights).await?;
        }
        // Else the file does not lie there any more.
        self.warrants.show(ost, op).ok_or(Refusal::Stale)
    }

    async fn get_permit(&self, ino: InodeId, rights: Rights) -> Result<(), Refusal> {
        match self
            .ask(&Caller::root(), Op::Permit { ino, rights })
            .await?
        {
            Answer::Permitted { pass, capability } => {
                self.warrants.passed(pass);
                self.warrants.may(ino, capability);
                Ok(())
            }
            _ => crate::answer::unexpected("permit"),
        }
    }

    async fn get_pass(&self) -> Result<(), Refusal> {
        match self.ask(&Caller::root(), Op::Renew).await? {
            Answer::Renewed { pass } => {
                self.warrants.passed(pass);
                Ok(())
            }
            _ => crate::answer::unexpected("renew"),
        }
    }

    /// Also when the target is served elsewhere meanwhile.
    async fn ask_where_it_is(&self, request: &data::Request) -> data::Reply {
        let (ost, newest) = (request.ost, || self.view.map_epoch());
        loop {
            let peer = self.route.ost(ost, newest()).await?;
            let was = self.route.address(ost);
            let reply = tokio::select! {
                biased;
                reply = peer.call(request.clone()) => reply,
                () = self.route.moved(ost, newest) => continue,
            };
            let is_down = matches!(reply, Err(Refusal::TargetDown { .. }));
            // Its server may have left it to another before this client heard of that.
            if !is_down || !self.route.has_moved(ost, was.as_deref()).await {
                return reply;
            }
        }
    }

    pub(crate) fn call(&self, whom: Whom, what: &'static str, ino: Option<InodeId>) -> Call {
        Call {
            whom,
            what,
            ino,
            since: self.platform.clock.boot(),
        }
    }

    fn observe(&self, call: &Call, succeeded: bool) {
        if let Some(observer) = &self.options.observer {
            let took = self.platform.clock.boot().since(call.since);
            observer.called(call, took, succeeded);
        }
    }
}

/// What to say again of this request if a power cut makes the server forget it.
fn to_keep(
    op: &Op,
    proven: Option<&Op>,
    caller: &Caller,
    lane: Option<Lane>,
    reply: &meta::Reply,
) -> Option<Kept> {
    let (change, lane) = (reply.change?, lane?);
    let made = match &reply.result {
        Ok(Answer::Entry(attr)) => Some(attr.ino),
        Ok(Answer::Opened(opened)) if opened.created => Some(opened.attr.ino),
        _ => None,
    };
    let layout = match (op, &reply.result) {
        (Op::BeginWrite { .. }, Ok(Answer::Opened(opened))) => Some(opened.layout.clone()),
        _ => None,
    };
    Some(Kept {
        change,
        lane,
        caller: caller.clone(),
        op: wire::op_bytes(proven.unwrap_or(op)),
        made,
        layout,
    })
}

/// What may as well be asked in a new session: it counts on nothing that was held or open, and whoever asks has no lock on a file.
fn begins_anew(op: &Op) -> bool {
    match op {
        Op::Lookup { .. }
        | Op::LookupParent { .. }
        | Op::GetAttr { .. }
        | Op::Access { .. }
        | Op::Readlink { .. }
        | Op::Readdir { .. }
        | Op::GetXattr { .. }
        | Op::ListXattr { .. }
        | Op::StatFs
        | Op::GetLayoutRule { .. }
        | Op::Create { .. }
        | Op::Mkdir { .. }
        | Op::Mknod { .. }
        | Op::Symlink { .. }
        | Op::TmpFile { .. }
        | Op::OpenTmpFile { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. } => true,
        // Without rights and with truncation a file's lock is held.
        Op::Open { open, .. } => !open.access.is_empty() && !open.truncate,
        _ => false,
    }
}

/// What is said to the server about what is held here, or was.
fn is_a_word(op: &Op) -> bool {
    matches!(
        op,
        Op::EndWrite { .. } | Op::Spilled { .. } | Op::Forgotten { .. } | Op::CloseSession
    )
}

/// The inode a question is about; a directory for those about names.
fn subject(op: &Op) -> Option<InodeId> {
    match op {
        Op::Lookup { dir, .. }
        | Op::LookupParent { dir }
        | Op::Readdir { dir, .. }
        | Op::Create { dir, .. }
        | Op::Mkdir { dir, .. }
        | Op::Mknod { dir, .. }
        | Op::Symlink { dir, .. }
        | Op::TmpFile { dir, .. }
        | Op::OpenTmpFile { dir, .. }
        | Op::Link { dir, .. }
        | Op::Unlink { dir, .. }
        | Op::Rmdir { dir, .. }
        | Op::Rename { from: dir, .. } => Some(*dir),
        Op::GetAttr { ino }
        | Op::Access { ino, .. }
        | Op::Readlink { ino }
        | Op::GetXattr { ino, .. }
        | Op::ListXattr { ino }
        | Op::GetLayoutRule { ino }
        | Op::SetAttr { ino, .. }
        | Op::SetXattr { ino, .. }
        | Op::RemoveXattr { ino, .. }
        | Op::SetLayoutRule { ino, .. }
        | Op::Open { ino, .. }
        | Op::Truncate { ino, .. }
        | Op::WriteInline { ino, .. }
        | Op::BeginWrite { ino, .. }
        | Op::Spilled { ino, .. }
        | Op::EndWrite { ino, .. }
        | Op::KillPrivileges { ino }
        | Op::SetFlags { ino, .. }
        | Op::Permit { ino, .. } => Some(*ino),
        Op::Lock(Ask::Take { lock, .. } | Ask::Test { lock }) => Some(lock.holder.ino),
        Op::Lock(Ask::Free { holder, .. }) => Some(holder.ino),
        Op::StatFs
        | Op::OpenSession { .. }
        | Op::CloseSession
        | Op::Forgotten { .. }
        | Op::Sync { .. }
        | Op::Renew
        | Op::Return { .. }
        | Op::Proven { .. }
        | Op::Lock(Ask::Cancel { .. }) => None,
    }
}

fn data_subject(op: &data::Op) -> Option<InodeId> {
    use data::Op;
    match op {
        Op::Write { object, .. }
        | Op::Read { object, .. }
        | Op::Cut { object, .. }
        | Op::Allocate { object, .. }
        | Op::Zero { object, .. }
        | Op::Seek { object, .. }
        | Op::Stat { object }
        | Op::Remove { object }
        | Op::SetAside { object } => Some(object.ino),
        Op::Sync { objects } | Op::Confirm { objects } => objects.first().map(|object| object.ino),
        Op::List { .. } | Op::Space | Op::Fence { .. } => None,
    }
}
