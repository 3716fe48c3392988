//! What servers of targets and clients ask about the cluster.

use crate::Mds;
use crate::core::Core;
use crate::waits::Who;
use gupfs_names::{Key, Record};
use gupfs_proto::cluster::{Answer, Reply, Request, TargetWord};
use gupfs_proto::{Incarnation, OstId, Refusal};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<Request, Reply> for Mds {
    async fn answer(self: Arc<Self>, question: Request) -> Reply {
        match question {
            Request::Here { address, targets } => self.core.here(&address, &targets).await,
            Request::Map => Ok(Answer::Map(self.core.targets.map())),
            // What runs in a process knows whoever composed it.
            Request::Status => Err(Refusal::NotSupported),
            Request::Admit { incarnation } => self.core.admit(incarnation).await,
        }
    }
}

impl Core {
    /// A server's word on its targets. What is new about one is durable before it is believed by anybody.
    async fn here(&self, address: &str, words: &[TargetWord]) -> Reply {
        // A target is proved by its opening, which nobody is told but the metadata server.
        let (mut proved, mut refused) = (Vec::new(), Vec::new());
        for word in words {
            match self.targets.here(address, word) {
                Ok(heard) => {
                    if let Some(known) = heard.remember {
                        self.remember(word.ost, &known).await?;
                    }
                    match (heard.refused, &word.open) {
                        (Some(why), _) => refused.push((word.ost, why)),
                        (None, Ok(_)) => proved.push(word.ost),
                        (None, Err(_)) => {}
                    }
                }
                Err(Refusal::TargetDown { why, .. }) => refused.push((word.ost, why)),
                Err(other) => return Err(other),
            }
        }
        self.tell_placement();
        Ok(Answer::Heard {
            map_epoch: self.targets.epoch(),
            refused,
            seals: (self.targets.permits())
                .filter(|_| !proved.is_empty())
                .map(|permits| permits.seals(&proved)),
        })
    }

    async fn admit(&self, incarnation: Incarnation) -> Reply {
        let (ost, remember) = self.targets.admit(incarnation)?;
        if let Some(known) = remember {
            self.remember(ost, &known).await?;
        }
        // Also when it was admitted before: whoever asked then may not have been answered.
        let seq = self.kv.last_seq();
        self.durable(Who::own("admit a target"), seq).await?;
        Ok(Answer::Admitted { ost })
    }

    async fn remember(&self, ost: OstId, known: &gupfs_names::KnownTarget) -> Result<(), Refusal> {
        let seq = self.stage_own(vec![(Key::target(ost), Some(known.encode()))]);
        self.committed(Who::own("remember a target"), seq).await
    }
}
