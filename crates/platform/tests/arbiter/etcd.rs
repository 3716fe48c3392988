//! The contract on etcd, and what etcd's own failures do.

use super::contract::{TERM, TwoHosts, check_all, count_up, counted};
use super::members::{EtcdMembers, start};
use gupfs_platform::arbiter::{ArbiterError, ChangeResult, Revision};
use gupfs_platform::{Arbiter, Clock};
use std::time::Duration;

const QUOTA: u64 = 64 << 20;

fn two_hosts(members: &EtcdMembers, prefix: &str) -> TwoHosts {
    let clock = Clock::real();
    let host = || Arbiter::etcd(members.options(prefix), clock.clone());
    TwoHosts {
        hosts: [host(), host()],
        clock: clock.clone(),
        ends_by_time: true,
    }
}

#[tokio::test]
async fn one_member() {
    let Some(members) = start(1, QUOTA) else {
        return;
    };
    check_all(|number| {
        let two = two_hosts(&members, &format!("/one/{number}"));
        async move { two }
    })
    .await;
}

#[tokio::test]
async fn three_members() {
    let Some(members) = start(3, QUOTA) else {
        return;
    };
    check_all(|number| {
        let two = two_hosts(&members, &format!("/three/{number}"));
        async move { two }
    })
    .await;
}

/// Several tasks count while the leader is killed, stopped, and started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_fail_while_hosts_change_the_register() {
    let Some(mut members) = start(3, QUOTA) else {
        return;
    };
    let two = two_hosts(&members, "/faults");
    let [a, b] = &two.hosts;
    let mut name = 0;
    for round in 0..3 {
        let leader = members.leader();
        let counting = async {
            let tasks = (0..4).map(|task| {
                let host = if task % 2 == 0 { a } else { b };
                async move {
                    for turn in 0..4 {
                        count_up(host, name + task * 4 + turn, None).await;
                    }
                }
            });
            futures_util::future::join_all(tasks).await;
        };
        let failing = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            match round {
                0 => members.members[leader].kill(),
                1 => members.members[leader].signal(rustix::process::Signal::STOP),
                _ => {}
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
        };
        tokio::join!(counting, failing);
        name += 16;
        match round {
            0 => members.start(leader),
            1 => members.members[leader].signal(rustix::process::Signal::CONT),
            _ => {}
        }
        members.wait_until_healthy();
        assert_eq!(counted(a).await, (0..name).collect::<Vec<u32>>());
    }
}

#[tokio::test]
async fn a_holder_keeps_its_lease_while_the_leader_changes() {
    let Some(mut members) = start(3, QUOTA) else {
        return;
    };
    let two = two_hosts(&members, "/holder");
    let [a, b] = &two.hosts;
    let lease = a.new_lease(TERM).await.unwrap();
    let taken = a.take(Revision(0), "a".into(), &lease).await.unwrap();
    let ChangeResult::Done(revision) = taken else {
        panic!("{taken:?}")
    };
    let other = b.new_lease(TERM * 20).await.unwrap();
    let leader = members.leader();
    members.members[leader].kill();
    let (begun, mut until) = (two.clock.boot(), two.clock.boot() + TERM);
    while two.clock.boot().since(begun) < TERM * 2 {
        match a.renew(&lease).await {
            Ok(renewed) => until = renewed,
            Err(ArbiterError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        // No other host takes the register before the holder's time is over.
        let before = two.clock.boot();
        if let Ok(ChangeResult::Done(_)) = b.take(revision, "b".into(), &other).await {
            assert!(before >= until);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(until > two.clock.boot(), "the lease was not renewed");
}

#[tokio::test]
async fn a_full_or_compacted_etcd_says_so_and_tells_changes() {
    let Some(members) = start(1, 4 << 20) else {
        return;
    };
    let two = two_hosts(&members, "/full");
    let [a, b] = &two.hosts;
    let ChangeResult::Done(first) = a.change(Revision(0), "one".into()).await.unwrap() else {
        panic!("the first change")
    };
    let known = b.read().await.unwrap();
    let ChangeResult::Done(second) = a.change(first, "two".into()).await.unwrap() else {
        panic!("the second change")
    };
    // The change that b has not seen is behind the oldest revision that etcd has.
    let mut newest = second.0;
    for _ in 0..3 {
        let ChangeResult::Done(next) = a.change(Revision(newest), "more".into()).await.unwrap()
        else {
            panic!("a further change")
        };
        newest = next.0;
    }
    assert!(members.ctl(&["compact", &newest.to_string()], 0));
    b.changed(&known).await.unwrap();
    // Another user of this etcd fills it.
    let value = "x".repeat(100_000);
    let mut puts = 0;
    while members.ctl(&["put", &format!("/other/{puts}"), &value], 0) {
        puts += 1;
        assert!(puts < 1_000, "there is no end of the space");
    }
    let full = a.change(Revision(newest), "more".into()).await;
    assert!(
        matches!(&full, Err(ArbiterError::Refused(why)) if why.contains("space")),
        "{full:?}"
    );
    assert_eq!(a.read().await.unwrap().revision, Revision(newest));
}

#[tokio::test]
async fn a_minority_and_a_dead_address_are_errors_in_time() {
    let Some(mut members) = start(3, QUOTA) else {
        return;
    };
    let two = two_hosts(&members, "/minority");
    let [a, _] = &two.hosts;
    let ChangeResult::Done(first) = a.change(Revision(0), "one".into()).await.unwrap() else {
        panic!("the first change")
    };
    members.members[0].kill();
    members.members[1].kill();
    let begun = std::time::Instant::now();
    let read = a.read().await;
    assert!(
        matches!(read, Err(ArbiterError::Unavailable(_))),
        "{read:?}"
    );
    let change = a.change(first, "two".into()).await;
    assert!(
        matches!(
            change,
            Err(ArbiterError::Unknown(_) | ArbiterError::Unavailable(_))
        ),
        "{change:?}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    members.members[2].kill();
    let begun = std::time::Instant::now();
    let read = a.read().await;
    assert!(
        matches!(read, Err(ArbiterError::Unavailable(_))),
        "{read:?}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_register_that_nobody_changes_is_watched_on() {
    let Some(members) = start(1, QUOTA) else {
        return;
    };
    let two = two_hosts(&members, "/still");
    let [a, b] = &two.hosts;
    let known = b.read().await.unwrap();
    let watch = b.changed(&known);
    let mut watch = std::pin::pin!(watch);
    let still = tokio::time::timeout(Duration::from_secs(15), watch.as_mut()).await;
    assert!(still.is_err(), "{still:?}");
    let (told, changed) = tokio::join!(watch, a.change(Revision(0), "one".into()));
    told.unwrap();
    assert!(matches!(changed, Ok(ChangeResult::Done(_))), "{changed:?}");
}
