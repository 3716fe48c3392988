//! Carrying out a cut: what a truncate promised is done at the OSTs, then the file is told so.

use crate::core::Core;
use crate::cuts::Cut;
use crate::limits::OST_CALLS;
use crate::targets::unexpected;
use crate::together;
use crate::waits::{Awaited, Who};
use gupfs_namespace::ChoreOp;
use gupfs_proto::data::{Answer, ObjectStat, Op};
use gupfs_proto::{ObjectId, OstId, OstLife, Refusal};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

impl Core {
    /// Returns when the cut is done, by whomever. Boxed because it drives the machine, which may need a cut.
    ///
    /// # Errors
    /// What an OST refused with. The cut stays promised: the next who needs it, and the chore, try again.
    pub fn carry_out(
        &self,
        who: Who,
        cut: Arc<Cut>,
    ) -> Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + '_>> {
        Box::pin(async move {
            let turn = self
                .waits
                .wait(who, Awaited::Cut(cut.id.ino), cut.done.lock());
            let mut done = turn.await?;
            if *done {
                return Ok(());
            }
            // Promise before deed: were the bytes gone and the promise not durable, a power cut would leave a file of its
            // old size that has lost its end.
            self.durable(who, cut.seq).await?;
            // Deed before its record: were the record durable and the cut not, what was cut off would show again when
            // the file grows. An OST that lost power in between does it once more.
            let blocks = loop {
                let (blocks, lives) = self.cut_objects(&cut).await?;
                let objects = cut.objects.iter().map(|(ost, object, _)| (*ost, *object));
                let synced_in = self.sync_objects(objects).await?;
                if lives
                    .iter()
                    .all(|(ost, life)| synced_in.get(ost) == Some(life))
                {
                    break blocks;
                }
            };
            let id = cut.id;
            let seq = self.chore(&ChoreOp::CutDone { id, blocks }).await?;
            *done = true;
            if self.keeps_sessions {
                // A start after a power cut would cut again, and what a client that lives on has written since with it.
                return self.durable(who, seq).await;
            }
            self.committed(who, seq).await
        })
    }

    /// Cuts every object, a few at a time; returns the space that is left in all, and in which lives of their OSTs it was done.
    async fn cut_objects(&self, cut: &Cut) -> Result<(u64, Vec<(OstId, OstLife)>), Refusal> {
        let cuts = cut
            .objects
            .iter()
            .map(|(ost, object, to)| self.cut_object(*ost, *object, *to));
        let (mut blocks, mut lives) = (0, Vec::new());
        for (cut, done) in cut
            .objects
            .iter()
            .zip(together::all(cuts.collect(), OST_CALLS).await)
        {
            let (stat, life) = done?;
            blocks += stat.blocks;
            lives.push((cut.0, life));
        }
        Ok((blocks, lives))
    }

    async fn cut_object(
        &self,
        ost: OstId,
        object: ObjectId,
        to: u64,
    ) -> Result<(ObjectStat, OstLife), Refusal> {
        match self.targets.call(ost, Op::Cut { object, to }).await? {
            Answer::Written(stat, life) => Ok((stat, life)),
            other => Err(unexpected(ost, &other)),
        }
    }

    /// What was done to these objects in the lives that it returns survives a power cut: one question an OST.
    pub async fn sync_objects(
        &self,
        objects: impl Iterator<Item = (OstId, ObjectId)>,
    ) -> Result<BTreeMap<OstId, OstLife>, Refusal> {
        let mut by_ost: BTreeMap<OstId, Vec<ObjectId>> = BTreeMap::new();
        for (ost, object) in objects {
            by_ost.entry(ost).or_default().push(object);
        }
        let syncs = by_ost.into_iter().map(|(ost, objects)| async move {
            match self.targets.call(ost, Op::Sync { objects }).await? {
                Answer::DoneIn(life) => Ok((ost, life)),
                other => Err(unexpected(ost, &other)),
            }
        });
        let synced = together::all(syncs.collect(), OST_CALLS).await;
        synced.into_iter().collect()
    }
}
