//! What `gupfs doctor` asks of etcd and measures there.

use super::members::{EtcdMembers, start};
use gupfs_platform::arbiter::ArbiterError;
use gupfs_platform::arbiter::etcd_check::{EtcdAlarm, EtcdCheck};
use gupfs_platform::{Clock, Random};
use std::time::Duration;

fn check(members: &EtcdMembers) -> EtcdCheck {
    EtcdCheck::new(members.options("gupfs"), Clock::real(), Random::real())
}

#[tokio::test]
async fn members_are_described_and_measurements_leave_nothing() {
    let Some(mut members) = start(3, 64 << 20) else {
        return;
    };
    let check = check(&members);
    let mut leaders = 0;
    for number in 0..3 {
        let member = check.member(&members.url(number)).await.unwrap();
        leaders += u32::from(member.leader == Some(member.id));
        assert!(member.database > 0 && !member.is_learner, "{member:?}");
        assert!(member.version.starts_with("3."), "{member:?}");
        assert!(
            member.quota.is_none_or(|quota| quota == 64 << 20),
            "{member:?}"
        );
    }
    assert_eq!(leaders, 1);
    let leader = members.url(members.leader());
    let known = check.membership(&leader).await.unwrap();
    assert_eq!(known.len(), 3);
    assert!(known.iter().any(|member| member.urls == [leader.clone()]));
    let times = check.measure(&leader, 20).await.unwrap();
    assert_eq!((times.puts.len(), times.changes.len()), (20, 20));
    assert!(times.puts.is_sorted() && times.puts[0] > Duration::ZERO);
    let output = members.output(&["get", "--prefix", "gupfs/", "--keys-only"], 0);
    assert_eq!(output.trim(), "");
    let term = Duration::from_secs(3);
    assert_eq!(check.granted_term(&leader, term).await.unwrap(), term);
    assert_eq!(check.alarms(&leader).await.unwrap(), []);
    // One is left, and says that it knows no leader.
    let last = members.leader();
    for number in 0..3 {
        if number != last {
            members.members[number].kill();
        }
    }
    let begun = std::time::Instant::now();
    while check.member(&leader).await.unwrap().leader.is_some() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let measured = check.measure(&leader, 1).await;
    assert!(
        matches!(measured, Err(ArbiterError::Unavailable(_))),
        "{measured:?}"
    );
}

#[tokio::test]
async fn an_alarm_is_told() {
    let Some(members) = start(1, 4 << 20) else {
        return;
    };
    let (check, url) = (check(&members), members.url(0));
    let value = "x".repeat(100_000);
    let mut puts = 0;
    while members.ctl(&["put", &format!("/other/{puts}"), &value], 0) {
        puts += 1;
        assert!(puts < 1_000, "there is no end of the space");
    }
    let id = check.member(&url).await.unwrap().id;
    let alarms = check.alarms(&url).await.unwrap();
    assert_eq!(alarms, [(id, EtcdAlarm::NoSpace)]);
    let measured = check.measure(&url, 1).await;
    assert!(
        matches!(measured, Err(ArbiterError::Refused(_))),
        "{measured:?}"
    );
}
