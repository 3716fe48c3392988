//! A rebalance evens out the use of two OSTs, and survives power losses of the metadata server.

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use crate::writers::write;
use gupfs_mds::Mds;
use gupfs_proto::InodeId;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::rebalance::{RebalanceChange, RebalanceState};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Of each OST.
const TOTAL: u64 = 200 * MIB;

async fn ask(mds: &Arc<Mds>, change: RebalanceChange) -> RebalanceState {
    let reply = mds.clone().handle(ClusterRequest::Rebalance { change });
    match reply.await {
        Ok(ClusterReplyBody::Rebalancing(state)) => state,
        other => panic!("{other:?}"),
    }
}

async fn begin(mds: &Arc<Mds>, rate: Option<u64>) -> RebalanceState {
    let within = Some(3);
    ask(mds, RebalanceChange::Start { rate, within }).await
}

async fn wait_until_ended(mds: &Arc<Mds>) -> RebalanceState {
    for _ in 0..600 {
        let state = ask(mds, RebalanceChange::Ask).await;
        if !state.is_going_on() {
            return state;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("it never ends: {:?}", ask(mds, RebalanceChange::Ask).await)
}

/// Two OSTs on volumes of their own, and ten files on the first.
async fn filled(fixture: &Simulated, instance: &ServerInstance) -> Vec<InodeId> {
    let client = Client::open(&instance.mds).await;
    fixture.osts[0].set_volume(1, TOTAL);
    fixture.osts[1].set_volume(2, TOTAL);
    fixture.osts[1].set_down(true);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut files = Vec::new();
    for i in 0..10 {
        let ino = client.create(0, InodeId::ROOT, &format!("f{i}")).await;
        let opened = client.begin_write(ino.unwrap()).await;
        let report = write(&fixture.osts, &opened, 8 * MIB, 1);
        client.end_write(opened.attr.ino, report).await;
        files.push(opened.attr.ino);
    }
    assert_eq!(fixture.osts[0].used(), 80 * MIB);
    fixture.osts[1].set_down(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    files
}

fn check_even(fixture: &Simulated) {
    let used = [0, 1].map(|ost| fixture.osts[ost].used() / MIB);
    assert_eq!(used[0] + used[1], 80, "{used:?}");
    assert!((34..=46).contains(&used[0]), "{used:?}");
}

#[test]
fn half_of_the_bytes_move_to_an_empty_target_and_no_object_is_left_behind() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let files = filled(&fixture, &instance).await;
        let begun = begin(&instance.mds, None).await;
        assert!(begun.is_going_on() && begun.volumes.len() == 2, "{begun:?}");
        let ended = wait_until_ended(&instance.mds).await;
        let outcome = ended.outcome.unwrap();
        assert!(outcome.is_even && outcome.why.is_none(), "{outcome:?}");
        assert!(ended.bytes_moved >= 34 * MIB && ended.files_moved >= 5);
        // Two objects each of 4 MiB; what moved is not there twice.
        let objects = [0, 1].map(|ost| fixture.osts[ost].list());
        assert_eq!(objects.iter().map(Vec::len).sum::<usize>(), 20);
        check_even(&fixture);
        let client = Client::open(&instance.mds).await;
        for ino in files {
            assert_eq!(client.attr(ino).await.unwrap().blocks, 8 * MIB / 512);
        }
        // An even cluster stays as it is.
        begin(&instance.mds, None).await;
        let again = wait_until_ended(&instance.mds).await;
        assert!(again.outcome.is_some_and(|outcome| outcome.is_even));
        assert_eq!(again.files_moved, ended.files_moved);
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn a_rebalance_and_its_settings_survive_power_losses() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = fixture.start().await;
        filled(&fixture, &instance).await;
        // A pass would take longer than a minute.
        let begun = begin(&instance.mds, Some(MIB)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(ask(&instance.mds, RebalanceChange::Ask).await.files_moved > 0);
        let paused = ask(&instance.mds, RebalanceChange::Pause).await;
        assert!(paused.is_paused);
        fixture.lose_power(&instance.platform).await;
        drop(instance);

        let instance = fixture.start().await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let state = ask(&instance.mds, RebalanceChange::Ask).await;
        assert_eq!(
            (state.since, state.rate, state.is_paused, state.files_moved),
            (begun.since, Some(MIB), true, 0)
        );
        ask(&instance.mds, RebalanceChange::Resume).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(ask(&instance.mds, RebalanceChange::Ask).await.files_moved > 0);
        fixture.lose_power(&instance.platform).await;
        drop(instance);

        let instance = fixture.start().await;
        let ended = wait_until_ended(&instance.mds).await;
        assert!(ended.files_moved > 0);
        assert_eq!(ended.since, begun.since);
        assert!(ended.outcome.clone().unwrap().is_even, "{ended:?}");
        check_even(&fixture);
        fixture.lose_power(&instance.platform).await;
        drop(instance);
        // The outcome is what a command that waits asks for.
        let instance = fixture.start().await;
        let known = ask(&instance.mds, RebalanceChange::Ask).await;
        assert_eq!(known.outcome, ended.outcome);
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn files_that_are_being_written_stay_and_are_named() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let files = filled(&fixture, &instance).await;
        let writer = Client::open(&instance.mds).await;
        for ino in &files {
            writer.begin_write(*ino).await;
        }
        begin(&instance.mds, None).await;
        let ended = wait_until_ended(&instance.mds).await;
        let outcome = ended.outcome.unwrap();
        let why = outcome.why.unwrap_or_default();
        assert!(!outcome.is_even && why.contains("being written"), "{why}");
        assert_eq!(ended.files_left, 10);
        assert_eq!(fixture.osts[1].list(), []);
        instance.mds.stop().await.unwrap();
    });
}
