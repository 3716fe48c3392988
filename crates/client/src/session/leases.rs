//! Leases on metadata: asking for them, answering by them, and what comes with a reply.

use super::MdsSession;
use crate::kernel_attributes::KernelInodes;
use crate::lease_number::LeaseNumber;
use crate::limits::{NEW_FILE_ATTRIBUTES_LIFETIME, PAGES_RESTART_MAX, SESSION_RETRY_PAUSE};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::lease::{LeaseKey, LeaseReply, LeaseRevocation};
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody};
use gupfs_proto::operations::AccessRule;
use gupfs_proto::{Attr, Caller, FsError, InodeId, JobId, Name, wire};
use std::sync::Arc;
use std::time::Duration;

impl MdsSession {
    /// Asks the server for leases if it has not answered yet: once for each session, instance of the server and connection, and again after
    /// a refusal for now. Without leases the client sends every operation to the server.
    pub(super) async fn accept_leases(&self) {
        let Some(asked) = self.lease_cache.ask() else {
            return;
        };
        let (instance, last_seen) = self.replay_log.position();
        let request = meta::MetaRequest {
            session: self.id(),
            slot_seq: None,
            caller: Caller::root(),
            job: JobId::UNKNOWN,
            instance,
            last_seen,
            op: MetaOp::AcceptLeases,
        };
        match self.route.mds.call(request).await.result {
            Ok(MetaReplyBody::LeasesAccepted { root_squashed }) => {
                self.lease_cache.accepted(asked, root_squashed);
            }
            Ok(_) => {
                tracing::info!(
                    "the metadata server's reply to 'accept_leases' has an unexpected type: this client caches no metadata"
                );
            }
            Err(FsError::NotSupported) => {
                tracing::info!(
                    "the metadata server grants no leases: this client caches no metadata"
                );
            }
            Err(error) => {
                tracing::info!(%error, "the metadata server grants no leases now: this client asks again with the next renewal");
                self.lease_cache.refused(asked);
            }
        }
    }

    /// The reply that leases tell, without a request to the server.
    pub(super) fn answer_by_leases(
        &self,
        caller: &Caller,
        op: &MetaOp,
    ) -> Option<Result<MetaReplyBody, FsError>> {
        if !self.is_shared() {
            return None;
        }
        if !self.current.is_valid() {
            self.lease_cache.clear();
            return None;
        }
        let answer = self
            .lease_cache
            .answer(caller, op, || self.is_open_for(op))?;
        if let Ok(MetaReplyBody::Opened(opened)) = &answer {
            self.capabilities
                .put_missing_file(opened.attr.ino, opened.capability.as_ref());
        }
        Some(answer)
    }

    /// Whether an open capability of this session allows the operation.
    fn is_open_for(&self, op: &MetaOp) -> bool {
        let AccessRule::Open(ino, access) = op.operation().rule else {
            return false;
        };
        let open_capability = self.state.open_capability(self.id(), ino);
        open_capability.is_some_and(|given| given.rights.allows(access))
    }

    /// The server revokes leases of this session. When this returns, neither this client nor its kernel answers anything by them any more.
    pub async fn revoke_leases(&self, revocation: &LeaseRevocation) {
        let inodes = self.lease_cache.revoke(revocation);
        self.kernel_attributes.invalidate_affected(inodes).await;
        let data = revocation.keys.iter().filter_map(|key| match key {
            LeaseKey::Data(ino) => Some(*ino),
            _ => None,
        });
        let files: Vec<InodeId> = data.collect();
        files
            .iter()
            .for_each(|ino| self.data_cache.forget_file(*ino));
        self.kernel_pages.drop_pages(&files).await;
    }

    /// Whether the server may grant leases to this session.
    pub fn takes_leases(&self) -> bool {
        self.lease_cache.status().accepted
    }

    /// Whether no other client changes the file's bytes before this one has given up its lease on them.
    pub fn has_data_lease(&self, ino: InodeId) -> bool {
        self.data_lease(ino).is_some()
    }

    /// The same lease's number.
    pub fn data_lease(&self, ino: InodeId) -> Option<LeaseNumber> {
        match self.current.is_valid() {
            true => self.lease_cache.data_lease(ino),
            false => None,
        }
    }

    /// The inode of a name, if a lease tells it.
    pub fn leased_target(&self, dir: InodeId, name: &Name) -> Option<InodeId> {
        match self.current.is_valid() {
            true => self.lease_cache.target(dir, name),
            false => None,
        }
    }

    /// The kernel above this client, which from now on gets attributes with lifetimes, and drops pages before their lease ends.
    pub fn set_kernel(&self, kernel: Arc<dyn KernelInodes>) {
        self.kernel_attributes.set_kernel(kernel.clone());
        if self.is_shared() {
            self.kernel_pages.set_kernel(kernel);
            self.watch_term();
        }
    }

    /// No bytes of files, here or in the kernel, are covered by a lease from now on.
    pub(super) async fn drop_all_pages(&self) {
        self.data_cache.clear();
        let is_writable = |ino| self.state.has_exclusive_write_lease(ino);
        (self.kernel_pages)
            .drop_all(PAGES_RESTART_MAX, is_writable)
            .await;
    }

    /// Has the kernel drop its pages whenever the session's term is over: the server may have given the leases to others.
    fn watch_term(&self) {
        let (clock, this) = (self.platform.clock.clone(), self.this.clone());
        self.platform
            .tasks
            .spawn("watch the session's term", async move {
                let mut was_valid = true;
                while let Some(session) = this.upgrade() {
                    if session.current.is_closing() {
                        return;
                    }
                    let (now, is_valid) = (clock.boot(), session.current.is_valid());
                    if was_valid && !is_valid {
                        session.drop_all_pages().await;
                    }
                    was_valid = is_valid;
                    let until = session.current.term_end(now);
                    drop(session);
                    match until {
                        Some(until) => clock.sleep_until(until).await,
                        None => clock.sleep(SESSION_RETRY_PAUSE).await,
                    }
                }
            });
    }

    /// How long the kernel may use these attributes, which a reply to it contains: what is left of the session's term if a lease covers
    /// them, otherwise zero. The caller has counted the lookup.
    ///
    /// An inode with an ACL gets none: Linux keeps ACLs without a lifetime, and drops them only when it asks for attributes.
    pub fn attributes_lifetime(&self, attr: &Attr) -> Duration {
        // First, so that no change of a file that this client is writing has to tell the kernel.
        if self.state.has_write_lease(attr.ino) {
            return Duration::ZERO;
        }
        let lifetime = self.given_lifetime(attr, Duration::MAX);
        // A write lease that comes after this check finds the inode in the ledger.
        if self.state.has_write_lease(attr.ino) {
            return Duration::ZERO;
        }
        lifetime
    }

    /// The same for the reply that tells the kernel of a new file, which its creator usually has the write lease of. Attributes without
    /// a lifetime would make open(2) ask for them at once, to check permissions. No program has the file open before the kernel has this
    /// reply, and the kernel itself forgets size and times whenever it writes.
    pub fn new_file_attributes_lifetime(&self, attr: &Attr) -> Duration {
        self.given_lifetime(attr, NEW_FILE_ATTRIBUTES_LIFETIME)
    }

    /// What is left of the term, at most `longest`, if a lease covers these attributes. They are in the ledger then.
    fn given_lifetime(&self, attr: &Attr, longest: Duration) -> Duration {
        let now = self.platform.clock.boot();
        let leased_until = || {
            if attr.flags.contains(InodeFlags::HAS_ACL) {
                return None;
            }
            let until = self.current.term_end(now)?;
            self.lease_cache.has_attributes(attr).then_some(until)
        };
        let Some(until) = leased_until() else {
            return Duration::ZERO;
        };
        let lifetime = until.since(now).min(longest);
        // In this order: a revocation that comes after the last check finds the inode in the ledger.
        if !self.kernel_attributes.give(attr.ino, now + lifetime, now) || leased_until().is_none() {
            return Duration::ZERO;
        }
        lifetime
    }

    /// The uid of a caller as the server sees it. None if this client does not know whether the server squashes root.
    pub fn uid_at_server(&self, caller: &Caller) -> Option<u32> {
        self.lease_cache.uid_at_server(caller)
    }

    /// This client has just got the write lease of a file, so its size and times change without a request.
    pub async fn write_lease_acquired(&self, ino: InodeId) {
        self.kernel_attributes.invalidate(&[ino]).await;
    }
}

/// Takes the leases out of a reply, which has the plain outcome of the operation then.
pub(super) fn take_leases(reply: &mut meta::MetaReply) -> LeaseReply {
    let Ok(MetaReplyBody::LeaseReply(leases)) = &mut reply.result else {
        return LeaseReply::default();
    };
    let leases = std::mem::take(leases);
    reply.result = match wire::decode_outcome(&leases.outcome) {
        Ok(outcome) => outcome,
        Err(error) => Err(FsError::Malformed(error.to_string())),
    };
    leases
}
