//! Lives of this process's targets, told to the metadata server and asked of it: an end that a target could not note on its
//! own disk counts all the same.

use gupfs_oss::Oss;
use gupfs_proto::cluster::{Answer, Reply, Request, TargetLife};
use gupfs_proto::{OstId, OstLife, Refusal};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Lives {
    oss: Arc<Oss>,
    mds: Peer<Request, Reply>,
    /// What the metadata server has answered to already.
    said: Mutex<BTreeMap<OstId, TargetLife>>,
}

impl Lives {
    pub fn new(oss: Arc<Oss>, mds: Peer<Request, Reply>) -> Arc<Lives> {
        Arc::new(Lives {
            oss,
            mds,
            said: Mutex::default(),
        })
    }

    /// Tells what is new of the targets' lives, and begins another life where the metadata server says that this one is over. To be
    /// called before a target serves, and again as long as it does: asks nobody where nothing is new.
    ///
    /// # Errors
    /// The metadata server's; nothing is lost by that, the next call tells again.
    pub async fn tell(&self) -> Result<(), Refusal> {
        let news: Vec<TargetLife> = {
            let said = self.said.lock();
            let now = self.now().into_iter();
            now.filter(|life| said.get(&life.ost) != Some(life))
                .collect()
        };
        if news.is_empty() {
            return Ok(());
        }
        let lives = Request::Lives {
            targets: news.clone(),
        };
        let Answer::Lives { over } = self.mds.call(lives).await? else {
            return Err(Refusal::Malformed(
                "'lives' was answered with something else".into(),
            ));
        };
        for (ost, upto) in over {
            self.end(ost, upto).await?;
        }
        self.said
            .lock()
            .extend(news.into_iter().map(|life| (life.ost, life)));
        Ok(())
    }

    fn now(&self) -> Vec<TargetLife> {
        let life = |ost: OstId| {
            // The metadata server has not judged a target that is not adopted. One whose disk failed during adoption is told of.
            let objects = self
                .oss
                .objects(ost)
                .ok()
                .filter(|objects| objects.is_adopted() || objects.is_life_over())?;
            Some(TargetLife {
                ost,
                incarnation: objects.incarnation(),
                life: objects.life(),
                over: objects.is_life_over(),
            })
        };
        self.oss.osts().into_iter().filter_map(life).collect()
    }

    async fn end(&self, ost: OstId, upto: OstLife) -> Result<(), Refusal> {
        match self.oss.objects(ost) {
            // What has failed begins its next life when it is opened again.
            Ok(objects)
                if objects.failure().is_none()
                    && !objects.is_life_over()
                    && !objects.is_refused() =>
            {
                objects.begin_life_after(upto).await
            }
            _ => Ok(()),
        }
    }
}
