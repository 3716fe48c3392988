//! What servers of targets and clients ask about the cluster.

use crate::Mds;
use crate::core::Core;
use crate::targets::Heard;
use crate::waits::Who;
use gupfs_proto::cluster::{Answer, Reply, Report, Request, TargetVerdict};
use gupfs_proto::{Incarnation, Refusal};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<Request, Reply> for Mds {
    async fn answer(self: Arc<Self>, question: Request) -> Reply {
        match question {
            Request::Here { address, .. } => Err(Refusal::Malformed(format!(
                "the object server at {address} is of an older version: start it anew with the version of the metadata server"
            ))),
            Request::Report(report) => self.core.report(&report).await,
            Request::Map => Ok(Answer::Map(self.core.targets.map())),
            // What runs in a process knows whoever composed it.
            Request::Status => Err(Refusal::NotSupported),
            Request::Admit { incarnation } => self.core.admit(incarnation).await,
            Request::Lives { targets } => self.core.lives(&targets).await,
        }
    }
}

impl Core {
    /// A server's report on its targets. What is new about one is durable before it is told what to do.
    async fn report(&self, report: &Report) -> Reply {
        let (mut verdicts, mut serve) = (Vec::new(), Vec::new());
        for word in &report.targets {
            match self.targets.report(&report.address, word, report.leaves)? {
                Heard::Verdict(verdict, remember) => {
                    self.remember(word.ost, remember).await?;
                    if matches!(verdict, TargetVerdict::Serve | TargetVerdict::RaiseStamp) {
                        serve.push(word.ost);
                    }
                    verdicts.push((word.ost, verdict));
                }
                Heard::Restored(why) => return Err(self.end(why)),
            }
        }
        self.tell_placement();
        Ok(Answer::Reported {
            map_epoch: self.targets.epoch(),
            verdicts,
            owner: self.owner_mark(),
            // A target is proved by its opening, which nobody is told but the metadata server; a connection that proved none is
            // told no share.
            seals: (self.targets.permits())
                .filter(|_| !serve.is_empty())
                .map(|permits| permits.seals(&serve)),
        })
    }

    async fn admit(&self, incarnation: Incarnation) -> Reply {
        let (ost, remember) = self.targets.admit(incarnation)?;
        self.remember(ost, remember.map(|known| (known, true)))
            .await?;
        // Also when it was admitted before: whoever asked then may not have been answered.
        let seq = self.kv.last_seq();
        self.durable(Who::own("admit a target"), seq).await?;
        Ok(Answer::Admitted { ost })
    }
}
