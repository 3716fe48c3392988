//! The fake arbiter fails as etcd does, and no change is lost or done twice.

use super::contract::{TERM, count_up, counted, two_fake_hosts};
use gupfs_platform::arbiter::{ArbiterError, ChangeResult, Revision};
use gupfs_platform::fake::ArbiterFaults;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn changes_without_a_reply_are_done_at_most_once() {
    let (mut at_once, mut late, mut never) = (0, 0, 0);
    for seed in 0..600 {
        let faults = ArbiterFaults {
            delay: Duration::from_millis(20),
            no_reply: 4,
            ..ArbiterFaults::default()
        };
        let (two, fake) = two_fake_hosts(seed, faults);
        let [a, b] = &two.hosts;
        // Those that wait see changes that are done late.
        let patience = (seed % 2 == 0).then_some(Duration::from_secs(4));
        let tasks = (0..10).map(|name| count_up(if name % 2 == 0 { a } else { b }, name, patience));
        futures_util::future::join_all(tasks).await;
        // What may still be done late names an old revision by now.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(
            counted(a).await,
            (0..10).collect::<Vec<u32>>(),
            "seed {seed}"
        );
        let counts = fake.counts();
        at_once += counts.done_unanswered;
        late += counts.done_late;
        never += counts.not_done;
    }
    println!("without a reply: {at_once} done at once, {late} late, {never} never");
    assert!(at_once >= 50 && late >= 50 && never >= 50);
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_nothing_changes_and_leases_live_longer_under_a_new_leader() {
    let (two, fake) = two_fake_hosts(1, ArbiterFaults::default());
    let [a, b] = &two.hosts;
    let lease = a.new_lease(TERM).await.unwrap();
    let taken = a.take(Revision(0), "a".into(), &lease).await.unwrap();
    let ChangeResult::Done(revision) = taken else {
        panic!("{taken:?}")
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let down = ArbiterFaults {
        is_down: true,
        ..ArbiterFaults::default()
    };
    fake.set_faults(down);
    let failed = b.read().await;
    assert!(
        matches!(failed, Err(ArbiterError::Unavailable(_))),
        "{failed:?}"
    );
    let failed = a.renew(&lease).await;
    assert!(
        matches!(failed, Err(ArbiterError::Unavailable(_))),
        "{failed:?}"
    );
    fake.change_leader();
    fake.set_faults(ArbiterFaults::default());
    let other = b.new_lease(TERM).await.unwrap();
    let refused = b.take(revision, "b".into(), &other).await.unwrap();
    assert!(matches!(refused, ChangeResult::Conflict(state) if state.is_held));
    tokio::time::sleep(TERM - Duration::from_secs(1)).await;
    b.renew(&other).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let taken = b.take(revision, "b".into(), &other).await.unwrap();
    assert!(matches!(taken, ChangeResult::Done(_)), "{taken:?}");
    assert_eq!(fake.counts().leases_ended, 1);
}
