//! Objects that no file has: what a power cut made the records forget after an OST had made it.
//!
//! A new file's layout is used before it is durable (`gupfs_namespace::generations`). If a power cut comes between, the objects
//! are there and no record names them. Nobody ever will, since their generation is not given again; so they are looked
//! for once after a start that followed no orderly stop, and removed.
//!
//! After a loss was accepted there are others: what the lost state of the store had made. Those are set aside. And there are objects
//! that reach further than their file's record says: the file is as they say then, or bytes of the lost state would show where it
//! grows again.

use crate::core::Core;
use crate::limits::{OST_CALLS, RETRY, SWEEP_PAUSE, SWEEP_STEP};
use crate::records::damaged;
use crate::targets::unexpected;
use crate::together;
use crate::waits::Who;
use gupfs_namespace::{Body, Inode, Key, Record};
use gupfs_proto::data::{Answer, ObjectStat, Op};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is remarkable among objects.
#[derive(Default)]
struct Swept {
    /// No file has them.
    unknown: Vec<ObjectId>,
    /// Files with objects that reach further than their records say.
    surplus: BTreeSet<InodeId>,
}

impl Core {
    /// Looks at every target once.
    pub(super) async fn sweep_all(self: Arc<Self>) {
        for ost in self.targets.all() {
            let mut after = None;
            while self.failure().is_none() {
                match self.sweep_some(ost, after).await {
                    Ok(None) => break,
                    Ok(Some(last)) => {
                        after = Some(last);
                        self.platform.clock.sleep(SWEEP_PAUSE).await;
                    }
                    Err(refusal) => {
                        self.sweeps.failed(&refusal);
                        self.platform.clock.sleep(RETRY).await;
                    }
                }
            }
            self.sweeps.end();
        }
    }

    /// The next objects after one of them; returns the last that was looked at, None at the end.
    async fn sweep_some(
        &self,
        ost: OstId,
        after: Option<ObjectId>,
    ) -> Result<Option<ObjectId>, Refusal> {
        // In this order: an object that is there belongs to a layout that was committed before, so that a record read
        // later names it, or has dropped it for ever.
        let found = self.list(ost, after).await?;
        let Some(last) = found.last().copied() else {
            return Ok(None);
        };
        let Swept { unknown, surplus } = self.compare(ost, &found).await?;
        if self.loss_accepted {
            for ino in surplus {
                self.recover_as_found(ino).await?;
            }
        }
        let last = last.0;
        if !unknown.is_empty() {
            // What dropped them must not be undone by a power cut when they are gone.
            self.durable(Who::own("sweep"), self.kv.last_seq()).await?;
            let (lost, left): (Vec<_>, Vec<_>) = unknown
                .into_iter()
                .partition(|object| object.generation.window() < self.lost_before);
            self.remove_unknown(ost, &left).await?;
            self.set_aside(ost, &lost).await?;
            self.sweeps.removed(left.len() as u64);
            self.sweeps.set_aside(lost.len() as u64);
            if !left.is_empty() {
                tracing::info!(%ost, objects = left.len(), "removed objects that a power cut left without a file");
            }
            if !lost.is_empty() {
                tracing::warn!(%ost, objects = lost.len(), "set aside objects of files that are lost");
            }
        }
        Ok(Some(last))
    }

    async fn list(
        &self,
        ost: OstId,
        after: Option<ObjectId>,
    ) -> Result<Vec<(ObjectId, ObjectStat)>, Refusal> {
        let op = Op::List {
            after,
            limit: SWEEP_STEP,
        };
        match self.targets.call(ost, op).await? {
            Answer::Objects(found) => Ok(found),
            other => Err(unexpected(ost, &other)),
        }
    }

    async fn compare(
        &self,
        ost: OstId,
        found: &[(ObjectId, ObjectStat)],
    ) -> Result<Swept, Refusal> {
        let files: BTreeSet<InodeId> = found.iter().map(|(object, _)| object.ino).collect();
        let keys = files.iter().map(|ino| Key::inode(*ino)).collect();
        let records = self.get_all_now(keys).await?;
        // How far each object may reach.
        let mut known: BTreeMap<ObjectId, u64> = BTreeMap::new();
        for (ino, record) in files.into_iter().zip(records) {
            let Some(record) = record else { continue };
            let inode = Inode::decode(&record).map_err(|error| damaged(&Key::inode(ino), error))?;
            if let Body::File(file) = inode.body {
                for (component, stripe, on, object, presence) in file.layout.objects(ino) {
                    let reach = match presence {
                        Presence::Never => 0,
                        _ => file.layout.components[component].object_size(stripe, inode.size),
                    };
                    if on == ost {
                        known.insert(object, reach);
                    }
                }
            }
        }
        let mut swept = Swept::default();
        for (object, stat) in found {
            match known.get(object) {
                None => swept.unknown.push(*object),
                Some(reach) if stat.size > *reach => drop(swept.surplus.insert(object.ino)),
                Some(_) => {}
            }
        }
        Ok(swept)
    }

    async fn set_aside(&self, ost: OstId, objects: &[ObjectId]) -> Result<(), Refusal> {
        let moves = objects.iter().map(|object| async move {
            let op = Op::SetAside { object: *object };
            match self.targets.call(ost, op).await? {
                Answer::DoneIn(_) => Ok(()),
                other => Err(unexpected(ost, &other)),
            }
        });
        let outcomes = together::all(moves.collect(), OST_CALLS).await;
        outcomes.into_iter().collect()
    }

    async fn remove_unknown(&self, ost: OstId, objects: &[ObjectId]) -> Result<(), Refusal> {
        let removals = objects
            .iter()
            .map(|object| self.remove_object(ost, *object));
        let outcomes = together::all(removals.collect(), OST_CALLS).await;
        outcomes
            .into_iter()
            .try_for_each(|removed| removed.map(|_| ()))
    }
}
