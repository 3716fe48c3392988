//! A directory of a copy was copied to another host.

use super::cluster::Cluster;
use super::host::Host;
use super::seeds::simulate;
use gupfs_proto::CopyId;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
fn a_process_with_the_identity_of_a_copy_that_runs_is_refused() {
    simulate(async {
        let cluster = Cluster::started(7).await;
        let before = cluster.register().await;
        let (net, arbiter) = (&cluster.net, &cluster.arbiter);
        let twin = Host::named("twin".into(), 1, net, arbiter, &cluster.random);
        let twin = Arc::new(twin);
        // The runs of processes are random numbers.
        twin.runs.store(100, SeqCst);
        cluster.start(&twin).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(twin.runs.load(SeqCst) > 101, "its process ends");
        let after = cluster.register().await.expect("there is one");
        let own = |register: &gupfs_copies::Register| register.member(CopyId(2)).cloned();
        assert_eq!(own(&after), before.as_ref().and_then(own));
        assert!(cluster.is_whole().await);
    });
}
