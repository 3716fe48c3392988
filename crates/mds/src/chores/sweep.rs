//! Objects that no file has: what a power cut made the records forget after an OST had made it.
//!
//! A new file's layout is used before it is durable (`gupfs_names::generations`). If a power cut comes between, the objects
//! are there and no record names them. Nobody ever will, since their generation is not given again; so they are looked
//! for once after a start that followed no orderly stop, and removed.

use crate::core::Core;
use crate::limits::{OST_CALLS, RETRY, SWEEP_PAUSE, SWEEP_STEP};
use crate::records::damaged;
use crate::targets::unexpected;
use crate::together;
use crate::waits::Who;
use gupfs_names::{Body, Inode, Key, Record};
use gupfs_proto::data::{Answer, Op};
use gupfs_proto::{InodeId, ObjectId, OstId, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
                        self.world.clock.sleep(SWEEP_PAUSE).await;
                    }
                    Err(refusal) => {
                        self.sweeps.failed(&refusal);
                        self.world.clock.sleep(RETRY).await;
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
        let unknown = self.that_no_file_has(ost, &found).await?;
        if !unknown.is_empty() {
            // What dropped them must not be undone by a power cut when they are gone.
            self.durable(Who::own("sweep"), self.kv.last_seq()).await?;
            self.remove_unknown(ost, &unknown).await?;
            self.sweeps.removed(unknown.len() as u64);
            tracing::info!(%ost, objects = unknown.len(), "removed objects that a power cut left without a file");
        }
        Ok(Some(last))
    }

    async fn list(&self, ost: OstId, after: Option<ObjectId>) -> Result<Vec<ObjectId>, Refusal> {
        let op = Op::List {
            after,
            limit: SWEEP_STEP,
        };
        match self.targets.call(ost, op).await? {
            Answer::Objects(found) => Ok(found.into_iter().map(|(object, _)| object).collect()),
            other => Err(unexpected(ost, &other)),
        }
    }

    async fn that_no_file_has(
        &self,
        ost: OstId,
        found: &[ObjectId],
    ) -> Result<Vec<ObjectId>, Refusal> {
        let files: BTreeSet<InodeId> = found.iter().map(|object| object.ino).collect();
        let keys = files.iter().map(|ino| Key::inode(*ino)).collect();
        let records = self.get_all_now(keys).await?;
        let mut known: BTreeMap<InodeId, BTreeSet<ObjectId>> = BTreeMap::new();
        for (ino, record) in files.into_iter().zip(records) {
            let Some(record) = record else { continue };
            let inode = Inode::decode(&record).map_err(|error| damaged(&Key::inode(ino), error))?;
            if let Body::File(file) = inode.body {
                let objects = file.layout.objects(ino);
                let here = objects.filter(|(_, _, on, ..)| *on == ost);
                known.insert(ino, here.map(|(.., object, _)| object).collect());
            }
        }
        let has = |object: &ObjectId| {
            known
                .get(&object.ino)
                .is_some_and(|objects| objects.contains(object))
        };
        Ok(found
            .iter()
            .copied()
            .filter(|object| !has(object))
            .collect())
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
