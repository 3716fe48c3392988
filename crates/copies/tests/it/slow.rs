//! A copy that does not answer in time, again and again.

use super::cluster::Cluster;
use super::seeds::{restart_left_out, simulate};
use gupfs_copies::Standing;
use gupfs_proto::CopyId;
use std::sync::Arc;
use std::time::Duration;

/// Longer than the owner waits for a copy.
const TOO_LONG: Duration = Duration::from_millis(2_500);

async fn standing(cluster: &Arc<Cluster>) -> Standing {
    let register = cluster.register().await.expect("there is one");
    register.member(CopyId(3)).expect("it is a member").standing
}

#[test]
fn a_copy_that_is_slow_three_times_is_left_out_until_its_process_is_started_again() {
    simulate(async {
        let cluster = Cluster::started(11).await;
        let random = cluster.random.fork();
        let program = tokio::spawn(super::program::run(cluster.clone(), random));
        for time in 1..=3 {
            cluster.hosts[2].freeze();
            tokio::time::sleep(TOO_LONG).await;
            cluster.hosts[2].thaw();
            match time < 3 {
                true => cluster.wait_whole().await,
                false => tokio::time::sleep(Duration::from_secs(30)).await,
            }
        }
        assert_eq!(standing(&cluster).await, Standing::LeftOut);
        let administrator = tokio::spawn(restart_left_out(cluster.clone()));
        cluster.wait_whole().await;
        assert_eq!(standing(&cluster).await, Standing::Counting);
        cluster
            .is_over
            .store(true, std::sync::atomic::Ordering::SeqCst);
        program.await.expect("it does not panic");
        administrator.abort();
    });
}
