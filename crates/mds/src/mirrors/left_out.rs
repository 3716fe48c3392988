//! Members that become stale by a decision of the server.

use crate::callback::CallbackTable;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::{BackgroundOp, Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey};
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::{FsError, InodeId, Layout, ObjectId, OstId, Presence, SessionId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The members at which an operation of the server has failed, although their targets answer.
#[derive(Default)]
pub struct FailedMembers {
    /// All members on them.
    osts: BTreeSet<OstId>,
    objects: BTreeSet<ObjectId>,
}

impl FailedMembers {
    /// Notes the error of a member. Returns whether another member may succeed: the error is of this target or object alone, and new.
    pub fn note(&mut self, error: &FsError) -> bool {
        match error {
            FsError::TargetDown { ost, .. } => self.osts.insert(*ost),
            FsError::ObjectDamaged { object, .. } => self.objects.insert(*object),
            _ => false,
        }
    }

    fn contains(&self, ost: OstId, object: ObjectId) -> bool {
        self.osts.contains(&ost) || self.objects.contains(&object)
    }
}

/// Decides that members are stale.
pub struct MirrorKeeper {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    targets: Arc<Targets>,
    callbacks: Arc<CallbackTable>,
}

impl MirrorKeeper {
    pub fn new(
        store: Arc<MetadataStore>,
        driver: Arc<ShardDriver>,
        targets: Arc<Targets>,
        callbacks: Arc<CallbackTable>,
    ) -> MirrorKeeper {
        MirrorKeeper {
            store,
            driver,
            targets,
            callbacks,
        }
    }

    /// Of these objects of a file the ones that an operation of the server need not reach: their targets are down or they have `failed`, another
    /// member has not, and they are stale when this returns.
    ///
    /// # Errors
    /// Of the store.
    pub async fn leave_out_unreachable(
        &self,
        ino: InodeId,
        objects: impl Iterator<Item = ObjectId>,
        failed: &FailedMembers,
    ) -> Result<BTreeSet<ObjectId>, FsError> {
        let mut left_out = BTreeSet::new();
        let Some(layout) = self.layout(ino).await? else {
            return Ok(left_out);
        };
        if !layout.is_mirrored() {
            return Ok(left_out);
        }
        let (mut stale, mut osts) = (Vec::new(), BTreeSet::new());
        for object in objects {
            let mut components = layout.components.iter().enumerate();
            let found = components.find_map(|(number, component)| {
                Some((number, component, component.index_of(&object)?))
            });
            let Some((number, component, index)) = found else {
                continue;
            };
            let is_up = |index: usize| {
                let ost = component.targets[index];
                self.targets.is_up(ost) && !failed.contains(ost, component.object(ino, index))
            };
            let mut others = component.full_members(component.stripe_of(index));
            if component.presence.get(index) == Presence::Stale {
                // A server that has ended before may not have told the session.
                osts.insert(component.targets[index]);
                left_out.insert(object);
            } else if !is_up(index) && others.any(|other| other != index && is_up(other)) {
                osts.insert(component.targets[index]);
                left_out.insert(object);
                stale.push((number as u32, index as u32));
            }
        }
        self.mark_stale(ino, stale).await?;
        for ost in osts {
            self.tell_lease_holders(ino, ost).await?;
        }
        Ok(left_out)
    }

    /// Whether a session that writes the file may not know that one of these objects is stale: `leave_out_unreachable` waits until it does.
    ///
    /// # Errors
    /// Of the store.
    pub async fn has_sessions_to_tell(
        &self,
        ino: InodeId,
        objects: impl Iterator<Item = ObjectId>,
    ) -> Result<bool, FsError> {
        let Some(layout) = self.layout(ino).await? else {
            return Ok(false);
        };
        let is_stale = |object: ObjectId| {
            layout.components.iter().any(|component| {
                let index = component.index_of(&object);
                index.is_some_and(|index| component.presence.get(index) == Presence::Stale)
            })
        };
        let has_stale = objects.into_iter().any(is_stale);
        Ok(has_stale && !self.lease_holders(ino).await?.is_empty())
    }

    /// A session that writes the file knows the members from when it got its lease. When this returns, it uses none on this OST that is
    /// recorded as stale.
    pub async fn tell_lease_holders(&self, ino: InodeId, ost: OstId) -> Result<(), FsError> {
        for session in self.lease_holders(ino).await? {
            let request = CallbackRequest::LeaveOut { ino, ost };
            let called = self.callbacks.send_while_registered(session, &request);
            Box::pin(called).await?;
        }
        Ok(())
    }

    async fn lease_holders(&self, ino: InodeId) -> Result<Vec<SessionId>, FsError> {
        let mut holders = Vec::new();
        let add = |key: &RecordKey, _: &_| {
            if let Some(ParsedKey::WriteLease { session, .. }) = key.parse() {
                holders.push(session);
            }
            Ok(())
        };
        let range = KeyRange::write_leases(ino);
        self.store.each_record(range, add).await?;
        Ok(holders)
    }

    /// When this returns, the members are stale, durably.
    pub async fn mark_stale(&self, ino: InodeId, objects: Vec<(u32, u32)>) -> Result<(), FsError> {
        if objects.is_empty() {
            return Ok(());
        }
        let op = BackgroundOp::MarkStale { ino, objects };
        let seq = self.driver.background_op(&op).await?;
        let origin = RequestOrigin::server("leave out a member");
        self.store.durable(origin, seq).await
    }

    /// When this returns, objects of the file on this OST that may exist count as present, durably.
    pub async fn expect_objects(&self, ino: InodeId, ost: OstId) -> Result<(), FsError> {
        let op = BackgroundOp::ExpectObjects { ino, ost };
        let seq = self.driver.background_op(&op).await?;
        let origin = RequestOrigin::server("expect the objects of an older copy");
        self.store.durable(origin, seq).await
    }

    /// The layout of a file; None for what is no file, or is gone.
    pub async fn layout(&self, ino: InodeId) -> Result<Option<Layout>, FsError> {
        let key = RecordKey::inode(ino);
        let Some(value) = self.store.get_now(&key).await? else {
            return Ok(None);
        };
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        Ok(match inode.body {
            InodeBody::File(file) => Some(file.layout),
            _ => None,
        })
    }
}
