//! Lives of targets that are over because a sync failed: the target notes it on its disk, which is the one that failed, so it
//! is remembered here too.

use crate::core::Core;
use crate::waits::Who;
use gupfs_namespace::{EndedLife, Key, Record};
use gupfs_proto::cluster::{Answer, Reply, TargetLife};
use gupfs_proto::{OstId, OstLife, Refusal};

impl Core {
    /// Remembers which lives are over, durably, and answers which are, of the targets that were told of.
    pub async fn lives(&self, told: &[TargetLife]) -> Reply {
        let mut over = Vec::new();
        for target in told {
            let known = self.ended_life(target.ost)?;
            let known = known.filter(|known| known.incarnation == target.incarnation);
            let mut upto = known.map(|known| known.upto);
            if target.over && upto < Some(target.life) {
                upto = Some(target.life);
                let ended = EndedLife {
                    incarnation: target.incarnation,
                    upto: target.life,
                };
                let key = Key::ended_life(target.ost);
                let seq = self.stage_own(vec![(key, Some(ended.encode()))])?;
                self.durable(Who::own("remember the end of a life"), seq)
                    .await?;
                tracing::warn!(
                    ost = target.ost.0,
                    "a sync of this target failed: its life is over"
                );
            }
            over.extend(upto.map(|upto: OstLife| (target.ost, upto)));
        }
        Ok(Answer::Lives { over })
    }

    fn ended_life(&self, ost: OstId) -> Result<Option<EndedLife>, Refusal> {
        let found = self.kv.get(Key::ended_life(ost).as_bytes());
        let Some(record) = found.map_err(|error| self.fail(&error))? else {
            return Ok(None);
        };
        let ended = EndedLife::decode(&record);
        ended
            .map(Some)
            .map_err(|error| Refusal::StoreFailed(format!("the last life of ost{ost}: {error}")))
    }
}
