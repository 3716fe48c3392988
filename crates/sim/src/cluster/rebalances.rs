//! # rebalances: an administrator who evens out the use of the targets while programs work
//!
//! Owns   when a rebalance begins and is cancelled.
//! Never  checks bytes: the programs find every one of them where its object is now.
//! Enter  at `work`.

use super::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::rebalance::{RebalanceChange, RebalanceState};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

/// A rebalance may have to wait for servers that return.
const REBALANCE_MAX: u64 = 12_000;

/// A request to a server that is killed meanwhile has no reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// One of five simulated clusters has such an administrator, and so have some in which targets are drained.
pub(super) fn is_there(seed: u64) -> bool {
    seed % 5 == 4 || seed % 15 == 1
}

pub(super) async fn work(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    let mut moved = 0;
    while !cluster.is_over() {
        cluster
            .sleep(Duration::from_millis(random.below(1_000)))
            .await;
        // Whatever makes the use more even by a byte.
        let start = RebalanceChange::Start {
            rate: None,
            within: Some(0),
        };
        let begun = ask(&cluster, start).await;
        let until = cluster.millis() + random.below(REBALANCE_MAX);
        let mut state = begun;
        while cluster.millis() < until && !cluster.is_over() {
            cluster.sleep(Duration::from_millis(200)).await;
            state = ask(&cluster, RebalanceChange::Ask).await;
            if state.as_ref().is_some_and(|state| !state.is_going_on()) {
                break;
            }
        }
        let files = state.as_ref().map_or(0, |state| state.files_moved);
        // A restarted server counts from 0.
        if files > moved {
            cluster.monitor.count("rebalance that moved files");
        }
        moved = files;
        cluster.record(format_args!("rebalance: {state:?}"));
        if random.below(2) == 0 {
            ask(&cluster, RebalanceChange::Cancel).await;
        }
    }
    while ask(&cluster, RebalanceChange::Cancel).await.is_none() {
        cluster.sleep(Duration::from_millis(500)).await;
    }
}

/// None while no metadata server runs, or if it failed before its reply.
async fn ask(cluster: &SimulatedCluster, change: RebalanceChange) -> Option<RebalanceState> {
    let mds = cluster.metadata.mds()?;
    let asked = mds.handle(ClusterRequest::Rebalance { change });
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(ClusterReplyBody::Rebalancing(state))) => Some(state),
        _ => None,
    }
}
