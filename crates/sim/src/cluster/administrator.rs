//! # administrator: drains targets while programs work, and ends each drain
//!
//! Owns   which target is being drained.
//! Never  checks bytes: the programs find every one of them where its object is now.
//! Enter  at `work`.

use super::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReply, ClusterRequest, DrainAction};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

/// A drain may have to wait until files are closed, and for servers that return.
const DRAIN_MAX: u64 = 25_000;

/// A request to a server that is killed meanwhile has no reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// One of five simulated clusters has an administrator.
pub(super) fn is_there(seed: u64) -> bool {
    seed % 5 == 1
}

pub(super) async fn work(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    let targets = cluster.osses.iter().flat_map(|oss| &oss.targets);
    let osts: Vec<OstId> = targets.map(|target| target.ost).collect();
    while !cluster.is_over() {
        cluster
            .sleep(Duration::from_millis(random.below(3_000)))
            .await;
        let ost = osts[random.below(osts.len() as u64) as usize];
        let begun = ask(&cluster, ost, DrainAction::Start).await;
        let moved = files_moved(&cluster).await;
        let until = cluster.millis() + 2_000 + random.below(DRAIN_MAX);
        while cluster.millis() < until && !cluster.is_over() {
            cluster.sleep(Duration::from_millis(200)).await;
        }
        // A restarted server counts from 0.
        if files_moved(&cluster).await > moved {
            cluster.monitor.count("drain that moved files");
        }
        while ask(&cluster, ost, DrainAction::Cancel).await.is_none() {
            cluster.sleep(Duration::from_millis(500)).await;
        }
        cluster.record(format_args!("drain of ost{ost}: {begun:?}"));
    }
}

/// None while no metadata server runs, or if it failed before its reply.
async fn ask(cluster: &SimulatedCluster, ost: OstId, action: DrainAction) -> Option<ClusterReply> {
    let mds = cluster.metadata.mds()?;
    let asked = mds.handle(ClusterRequest::Drain { ost, action });
    let reply = tokio::time::timeout(PATIENCE, asked).await;
    reply.ok().filter(Result::is_ok)
}

async fn files_moved(cluster: &SimulatedCluster) -> u64 {
    let Some(mds) = cluster.metadata.mds() else {
        return 0;
    };
    let status = tokio::time::timeout(PATIENCE, mds.status()).await;
    status.map_or(0, |status| status.replacement.files_moved)
}
