//! What every arbiter does.

use bytes::Bytes;
use gupfs_platform::arbiter::{ArbiterError, ChangeResult, RegisterState, Revision};
use gupfs_platform::fake::{ArbiterFaults, FakeArbiter, FakeClock};
use gupfs_platform::{Arbiter, Clock, Disk};
use std::future::Future;
use std::time::Duration;

pub const TERM: Duration = Duration::from_secs(3);

/// Two hosts' handles to one register, which is empty.
pub struct TwoHosts {
    pub hosts: [Arbiter; 2],
    pub clock: Clock,
    /// A lease ends when it is not renewed, and not only with its process.
    pub ends_by_time: bool,
}

pub async fn check_all<F: Future<Output = TwoHosts>>(make: impl Fn(u32) -> F) {
    an_empty_register_takes_its_first_value(make(0).await).await;
    a_change_names_the_newest_revision(make(1).await).await;
    many_changes_at_once_are_done_one_after_the_other(make(2).await).await;
    a_register_is_taken_when_no_lease_is_alive(make(3).await).await;
    a_lease_that_is_not_renewed_ends(make(4).await).await;
    a_change_is_told(make(5).await).await;
    a_value_has_bounds(make(6).await).await;
}

fn done(result: ChangeResult) -> Revision {
    match result {
        ChangeResult::Done(revision) => revision,
        ChangeResult::Conflict(state) => panic!("conflict with {state:?}"),
    }
}

fn conflict(result: ChangeResult) -> RegisterState {
    match result {
        ChangeResult::Conflict(state) => state,
        ChangeResult::Done(revision) => panic!("done as {revision:?}"),
    }
}

async fn an_empty_register_takes_its_first_value(two: TwoHosts) {
    let [a, b] = &two.hosts;
    let empty = a.read().await.unwrap();
    assert_eq!(
        (empty.value, empty.revision, empty.is_held),
        (None, Revision(0), false)
    );
    let first = done(a.change(Revision(0), "one".into()).await.unwrap());
    assert!(first > Revision(0));
    let read = b.read().await.unwrap();
    assert_eq!(
        (read.value.unwrap(), read.revision),
        (Bytes::from("one"), first)
    );
}

async fn a_change_names_the_newest_revision(two: TwoHosts) {
    let [a, b] = &two.hosts;
    let first = done(a.change(Revision(0), "one".into()).await.unwrap());
    let found = conflict(b.change(Revision(0), "two".into()).await.unwrap());
    assert_eq!((found.value, found.revision), (Some("one".into()), first));
    let second = done(b.change(first, "two".into()).await.unwrap());
    assert!(second > first);
    let found = conflict(a.change(first, "three".into()).await.unwrap());
    assert_eq!((found.value, found.revision), (Some("two".into()), second));
    // The same value is a new one, too.
    let third = done(a.change(second, "two".into()).await.unwrap());
    assert!(third > second);
}

/// Adds the name to those in the register, however often others are quicker, and whatever replies are lost; returns how often it was told
/// nothing. `patience`: how long it waits then, before it does anything.
pub async fn count_up(host: &Arbiter, name: u32, patience: Option<Duration>) -> u64 {
    let mut unknown = 0;
    // What this task writes is unlike all that others write.
    let mut tried: Option<String> = None;
    loop {
        let Ok(state) = host.read().await else {
            continue;
        };
        let text = state
            .value
            .as_ref()
            .map(|it| String::from_utf8(it.to_vec()).unwrap());
        let text = text.unwrap_or_default();
        if tried
            .as_ref()
            .is_some_and(|tried| text.split(' ').any(|it| it == tried))
        {
            return unknown;
        }
        let mark = format!("{name}.{unknown}");
        let value = format!("{text} {mark}");
        tried = None;
        match host.change(state.revision, value.into()).await {
            Ok(ChangeResult::Done(_)) => return unknown,
            Ok(ChangeResult::Conflict(_)) => {}
            Err(ArbiterError::Unknown(_)) => {
                unknown += 1;
                tried = Some(mark);
                if let Some(patience) = patience {
                    tokio::time::sleep(patience).await;
                }
                // It may still be done: another change of the register settles that.
                if !settle(host, state.revision).await {
                    continue;
                }
            }
            Err(ArbiterError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Changes the register, so that no change that names this revision is done any more. False if it is not known.
async fn settle(host: &Arbiter, revision: Revision) -> bool {
    loop {
        let Ok(state) = host.read().await else {
            continue;
        };
        if state.revision != revision {
            return true;
        }
        let same = state.value.unwrap_or_default();
        let _ = host.change(revision, same).await;
    }
}

/// The marks in the register: each name once.
pub async fn counted(host: &Arbiter) -> Vec<u32> {
    let value = loop {
        if let Ok(state) = host.read().await {
            break state.value.unwrap();
        }
    };
    let text = String::from_utf8(value.to_vec()).unwrap();
    let names = text
        .split_whitespace()
        .map(|mark| mark.split('.').next().unwrap().parse().unwrap());
    let mut names: Vec<u32> = names.collect();
    names.sort_unstable();
    names
}

async fn many_changes_at_once_are_done_one_after_the_other(two: TwoHosts) {
    let [a, b] = &two.hosts;
    let tasks = (0..20).map(|name| count_up(if name % 2 == 0 { a } else { b }, name, None));
    futures_util::future::join_all(tasks).await;
    assert_eq!(counted(a).await, (0..20).collect::<Vec<u32>>());
}

async fn a_register_is_taken_when_no_lease_is_alive(two: TwoHosts) {
    let [a, b] = &two.hosts;
    let refused = a.new_lease(TERM + Duration::from_millis(900)).await;
    assert!(
        matches!(refused, Err(ArbiterError::Refused(_))),
        "{refused:?}"
    );
    let lease = a.new_lease(TERM).await.unwrap();
    assert!(
        !a.read().await.unwrap().is_held,
        "a lease alone holds nothing"
    );
    let taken = done(a.take(Revision(0), "a".into(), &lease).await.unwrap());
    let other = b.new_lease(TERM).await.unwrap();
    let found = conflict(b.take(taken, "b".into(), &other).await.unwrap());
    assert_eq!(
        (found.value, found.revision, found.is_held),
        (Some("a".into()), taken, true)
    );
    // The holder changes it as it likes, and takes it again.
    let changed = done(a.change(taken, "a2".into()).await.unwrap());
    let again = done(a.take(changed, "a3".into(), &lease).await.unwrap());
    assert!(a.renew(&lease).await.unwrap() > two.clock.boot());
    a.end_lease(&lease).await.unwrap();
    assert_eq!(a.renew(&lease).await, Err(ArbiterError::LeaseEnded));
    assert_eq!(
        a.take(again, "a4".into(), &lease).await,
        Err(ArbiterError::LeaseEnded)
    );
    assert!(!b.read().await.unwrap().is_held);
    // Not as it was before.
    conflict(b.take(changed, "b".into(), &other).await.unwrap());
    done(b.take(again, "b".into(), &other).await.unwrap());
    assert!(a.read().await.unwrap().is_held);
    b.end_lease(&other).await.unwrap();
}

async fn a_lease_that_is_not_renewed_ends(two: TwoHosts) {
    if !two.ends_by_time {
        return;
    }
    let [a, b] = &two.hosts;
    let lease = a.new_lease(TERM).await.unwrap();
    let taken = done(a.take(Revision(0), "a".into(), &lease).await.unwrap());
    let mut until = a.renew(&lease).await.unwrap();
    for _ in 0..2 {
        two.clock.sleep(TERM / 2).await;
        until = a.renew(&lease).await.unwrap();
    }
    let other = b.new_lease(TERM * 4).await.unwrap();
    loop {
        let result = b.take(taken, "b".into(), &other).await.unwrap();
        let now = two.clock.boot();
        match result {
            ChangeResult::Done(_) => {
                assert!(now >= until, "taken before the holder's time was over");
                // (etcd looks for ended leases twice a second, and a new leader counts from the beginning.)
                let late = now.since(until);
                assert!(late < TERM * 2, "the lease ended {late:?} late");
                break;
            }
            ChangeResult::Conflict(state) => assert!(state.is_held),
        }
        two.clock.sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(a.renew(&lease).await, Err(ArbiterError::LeaseEnded));
    b.end_lease(&other).await.unwrap();
}

async fn a_change_is_told(two: TwoHosts) {
    let [a, b] = &two.hosts;
    let empty = b.read().await.unwrap();
    let told = b.changed(&empty);
    let changing = async {
        two.clock.sleep(Duration::from_millis(200)).await;
        let lease = a.new_lease(TERM).await.unwrap();
        done(a.take(Revision(0), "a".into(), &lease).await.unwrap());
        lease
    };
    let (told, lease) = tokio::join!(told, changing);
    told.unwrap();
    // At once if it has changed before the call.
    b.changed(&empty).await.unwrap();
    // The end of the lease is a change, too.
    let held = b.read().await.unwrap();
    let told = b.changed(&held);
    let ending = async {
        two.clock.sleep(Duration::from_millis(200)).await;
        a.end_lease(&lease).await.unwrap();
    };
    let (told, ()) = tokio::join!(told, ending);
    told.unwrap();
    assert!(!b.read().await.unwrap().is_held);
}

async fn a_value_has_bounds(two: TwoHosts) {
    let [a, _] = &two.hosts;
    let most = Bytes::from(vec![7; 4096]);
    let first = done(a.change(Revision(0), most.clone()).await.unwrap());
    assert_eq!(a.read().await.unwrap().value, Some(most));
    let refused = a.change(first, vec![7; 4097].into()).await;
    assert!(
        matches!(refused, Err(ArbiterError::Refused(_))),
        "{refused:?}"
    );
    let cleared = done(a.change(first, Bytes::new()).await.unwrap());
    let read = a.read().await.unwrap();
    assert_eq!((read.value, read.revision), (Some(Bytes::new()), cleared));
}

#[tokio::test]
async fn a_directory() {
    check_all(|_| async {
        let dir = tempfile::tempdir().unwrap().keep();
        let clock = Clock::real();
        let host = || Arbiter::directory(Disk::real(&dir).unwrap(), clock.clone());
        TwoHosts {
            hosts: [host(), host()],
            clock: clock.clone(),
            ends_by_time: false,
        }
    })
    .await;
}

pub fn two_fake_hosts(seed: u64, faults: ArbiterFaults) -> (TwoHosts, FakeArbiter) {
    let clock = Clock::fake(FakeClock::of_runtime());
    let fake = FakeArbiter::new(seed, clock.clone());
    fake.set_faults(faults);
    // One clock is slower than the other.
    let slow = Clock::fake(FakeClock::of_runtime_gaining(-10_000));
    let hosts = [fake.of_host(slow), fake.clone()].map(Arbiter::fake);
    let two = TwoHosts {
        hosts,
        clock,
        ends_by_time: true,
    };
    (two, fake)
}

#[tokio::test(start_paused = true)]
async fn the_fake_one() {
    for delay in [0, 30] {
        check_all(|seed| async move {
            let faults = ArbiterFaults {
                delay: Duration::from_millis(delay),
                watch_lag: Duration::from_millis(delay),
                ..ArbiterFaults::default()
            };
            two_fake_hosts(u64::from(seed), faults).0
        })
        .await;
    }
}
