//! # conversions: a user who changes the layouts of files while programs work
//!
//! Owns   which file is converted, and to what.
//! Never  checks bytes: the programs find every one of them, whichever objects have them.
//! Enter  at `work`.

use super::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::layout::{ConversionState, LayoutChange};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{ByteCount, Caller, InodeId};
use std::sync::Arc;
use std::time::Duration;

/// A file may have a writer all the time, and a server may be down.
const REQUESTS_MAX: usize = 30;

/// One of five simulated clusters has such a user.
pub(super) fn is_there(seed: u64) -> bool {
    seed % 5 == 3
}

pub(super) async fn work(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    while !cluster.is_over() {
        cluster
            .sleep(Duration::from_millis(random.below(1_500)))
            .await;
        let files: Vec<InodeId> = cluster.monitor.written_files();
        if files.is_empty() {
            continue;
        }
        let ino = files[random.below(files.len() as u64) as usize];
        let change = choose_change(&random);
        let host = random.below(cluster.client_hosts.len() as u64) as usize;
        let state = convert(&cluster, host, ino, change).await;
        if matches!(state, Some(ConversionState::Done { bytes }) if bytes > 0) {
            cluster.monitor.count("conversion that copied bytes");
        }
        cluster.record(format_args!("conversion of {ino}: {state:?}"));
    }
}

fn choose_change(random: &FakeRandom) -> LayoutChange {
    let one_of = |choices: u64| random.below(choices);
    LayoutChange {
        unit: (one_of(3) == 0).then(|| ByteCount(STRIPE_UNIT_MIN.0 << one_of(3))),
        count: (one_of(2) == 0).then(|| one_of(4) as u32),
        copies: (one_of(2) == 0).then(|| 1 + one_of(2) as u8),
    }
}

/// Asks until the conversion has ended, or the client. None if the request failed.
async fn convert(
    cluster: &SimulatedCluster,
    host: usize,
    ino: InodeId,
    change: LayoutChange,
) -> Option<ConversionState> {
    let host = &cluster.client_hosts[host];
    let (number, client) = host.wait_for_client().await;
    let root = Caller::root();
    let mut left = None;
    for _ in 0..REQUESTS_MAX {
        let state = host.run(number, client.convert_layout(&root, ino, change));
        match state.await.ok()? {
            ConversionState::Waiting | ConversionState::Copying { .. } => {}
            ConversionState::Left(why) => {
                left = Some(ConversionState::Left(why));
                cluster.sleep(Duration::from_millis(70)).await;
            }
            state => return Some(state),
        }
        if cluster.is_over() {
            break;
        }
    }
    left
}
