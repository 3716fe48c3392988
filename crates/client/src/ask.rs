//! One call to a server: lane, session and what was seen on the way there; what is new on the way back.

use crate::calls::{Call, Whom};
use crate::service::Client;
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{Caller, InodeId, MapEpoch, OstId, Refusal, Seq, data, meta};
use std::sync::atomic::{AtomicU64, Ordering};

/// The newest this client has seen, over all replies.
#[derive(Default)]
pub struct View {
    seq: AtomicU64,
    durable: AtomicU64,
    map_epoch: AtomicU64,
}

impl View {
    pub fn see(&self, reply: &meta::Reply) {
        self.seq.fetch_max(reply.seq.0, Ordering::AcqRel);
        self.durable.fetch_max(reply.durable.0, Ordering::AcqRel);
        self.map_epoch
            .fetch_max(reply.map_epoch.0, Ordering::AcqRel);
    }

    pub fn seq(&self) -> Seq {
        Seq(self.seq.load(Ordering::Acquire))
    }

    pub fn durable(&self) -> Seq {
        Seq(self.durable.load(Ordering::Acquire))
    }

    pub fn map_epoch(&self) -> MapEpoch {
        MapEpoch(self.map_epoch.load(Ordering::Acquire))
    }

    /// What was seen may be lost.
    pub fn forget(&self) {
        self.seq.store(0, Ordering::Release);
        self.durable.store(0, Ordering::Release);
    }

    /// The newest change seen, unless it is known to survive a power cut.
    pub fn not_durable(&self) -> Option<Seq> {
        let seq = self.seq();
        (self.durable() < seq).then_some(seq)
    }
}

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
        let call = self.call(Whom::Mds, op.name(), subject(&op));
        let session = self.session();
        let request = meta::Request {
            session,
            lane: lane.as_ref().map(|taken| taken.lane()),
            caller: caller.clone(),
            job: self.options.job,
            seen: self.view.seq(),
            op,
        };
        let underway = self.calls.begin(call);
        let reply = self.route.mds.call(request).await;
        drop(underway);
        drop(lane);
        if reply.result == Err(Refusal::SessionEnded) {
            self.session_has_ended(session);
        } else {
            let known = self.view.map_epoch();
            self.view.see(&reply);
            if reply.map_epoch > known {
                self.route.newer_map();
            }
        }
        self.observe(&call, reply.result.is_ok());
        reply.result
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
        let request = data::Request {
            session: self.session(),
            map_epoch: self.view.map_epoch(),
            job: self.options.job,
            ost,
            op,
        };
        let reply = self.ask_where_it_is(request).await;
        drop(underway);
        self.observe(&call, reply.is_ok());
        reply
    }

    /// Also when the target is served elsewhere meanwhile.
    async fn ask_where_it_is(&self, request: data::Request) -> data::Reply {
        let (ost, newest) = (request.ost, || self.view.map_epoch());
        loop {
            let peer = self.route.ost(ost, newest()).await?;
            if !self.route.is_found() {
                return peer.call(request).await;
            }
            tokio::select! {
                biased;
                reply = peer.call(request.clone()) => return reply,
                () = self.route.moved(ost, newest) => {}
            }
        }
    }

    fn call(&self, whom: Whom, what: &'static str, ino: Option<InodeId>) -> Call {
        Call {
            whom,
            what,
            ino,
            since: self.world.clock.boot(),
        }
    }

    fn observe(&self, call: &Call, succeeded: bool) {
        if let Some(observer) = &self.options.observer {
            let took = self.world.clock.boot().since(call.since);
            observer.called(call, took, succeeded);
        }
    }
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
        | Op::KillPrivileges { ino } => Some(*ino),
        Op::StatFs
        | Op::OpenSession { .. }
        | Op::CloseSession
        | Op::Forgotten { .. }
        | Op::Sync { .. }
        | Op::Renew => None,
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
        | Op::Remove { object } => Some(object.ino),
        Op::Sync { objects } | Op::Confirm { objects } => objects.first().map(|object| object.ino),
        Op::List { .. } | Op::Space => None,
    }
}
