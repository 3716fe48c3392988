//! An object server's word on itself, every second: which targets it serves, who they are, how much room they have.

use crate::Lives;
use futures_util::future::join_all;
use gupfs_oss::Oss;
use gupfs_proto::cluster::{Answer, OpenTarget, Reply, Request, TargetWord};
use gupfs_proto::data::Space;
use gupfs_proto::{ClusterId, Refusal};
use gupfs_rpc::Peer;
use gupfs_world::World;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(1);

/// How long a target's disk may take to say how much room it has.
const SPACE_ANSWER: Duration = Duration::from_secs(1);

/// What it takes to speak for an object server.
pub struct Announced {
    pub oss: Arc<Oss>,
    pub cluster: ClusterId,
    /// Of this opening of the targets.
    pub run: u64,
    pub address: String,
    pub mds: Peer<Request, Reply>,
    pub lives: Arc<Lives>,
    pub world: World,
}

/// Runs for ever. `heard` becomes true when the metadata server has heard it once: until then nobody knows whether these
/// targets are who they were.
pub async fn announce(announced: Announced, heard: watch::Sender<bool>) {
    loop {
        match announced.say().await {
            Ok(()) => {
                heard.send_replace(true);
            }
            Err(refusal) => {
                tracing::warn!(%refusal, "the metadata server did not take our word");
            }
        }
        announced.world.clock.sleep(EVERY).await;
    }
}

impl Announced {
    async fn say(&self) -> Result<(), Refusal> {
        // Of targets that are new here: before they serve.
        self.lives.tell().await?;
        let osts = self.oss.osts();
        let words = osts.iter().map(|ost| async move {
            TargetWord {
                ost: *ost,
                open: self.open(*ost).await,
            }
        });
        let targets = join_all(words).await;
        let word = Request::Here {
            address: self.address.clone(),
            targets,
        };
        let asked = self.world.clock.boot();
        let Answer::Heard { refused, seals, .. } = self.mds.call(word).await? else {
            return Err(Refusal::Malformed(
                "'here' was answered with something else".into(),
            ));
        };
        if let Some(seals) = seals {
            self.oss.gate().hear(&seals, asked);
        }
        for (ost, why) in refused {
            if let Ok(objects) = self.oss.objects(ost) {
                tracing::error!(%ost, why, "the metadata server does not believe this target; it serves nothing");
                objects.refuse(why);
            }
        }
        self.oss.heard(osts);
        Ok(())
    }

    async fn open(&self, ost: gupfs_proto::OstId) -> Result<OpenTarget, String> {
        let told = |refusal: Refusal| refusal.to_string();
        let objects = self.oss.objects(ost).map_err(told)?;
        Ok(OpenTarget {
            cluster: self.cluster,
            incarnation: objects.incarnation(),
            stamp: objects.stamp(),
            run: self.run,
            space: tokio::select! {
                biased;
                space = objects.space() => space.map_err(told)?,
                // Its disk does not answer now: it has no room to give, and the others are told of in time.
                () = self.world.clock.sleep(SPACE_ANSWER) => Space::default(),
            },
        })
    }
}
