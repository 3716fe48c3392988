//! What an etcd lacks that is to decide who owns the metadata, and how to get it.

use super::{Finding, finding};
use crate::amount::show_size;
use gupfs_copies::limits::TERM;
use gupfs_platform::arbiter::ArbiterError;
use gupfs_platform::arbiter::etcd_check::{
    EtcdAlarm, EtcdMemberEntry, EtcdMemberStatus, EtcdTimes,
};
use std::time::Duration;

/// The oldest and the newest version that the arbiter's tests have run on.
const TESTED: [(u32, u32); 2] = [(3, 4), (3, 6)];

/// Above it the quota is near: etcd then takes no changes at all.
const DATABASE_PERCENT: u64 = 80;

/// etcd's own advice for the 99th percentile of its syncs.
const SYNC_MAX: Duration = Duration::from_millis(10);

/// With fewer members the loss of any stops changes.
const MEMBERS_MIN: usize = 3;

/// What makes a database small again that has reached its quota.
const MAKE_ROOM: &str = "compact and defragment it (etcdctl compact REVISION, etcdctl defrag on each member), then `etcdctl alarm disarm`; \
    --quota-backend-bytes raises the quota";

/// What was found out about an etcd. Errors are kept: they are findings.
pub(super) struct EtcdFacts {
    /// In the order of the addresses.
    pub members: Vec<(String, Result<EtcdMemberStatus, ArbiterError>)>,
    /// None if no member answered that knows a leader.
    pub whole: Option<WholeEtcd>,
}

/// What was found out through one member about all of them.
pub(super) struct WholeEtcd {
    /// The member that was asked leads.
    pub through_leader: bool,
    pub known: Result<Vec<EtcdMemberEntry>, ArbiterError>,
    pub alarms: Result<Vec<(u64, EtcdAlarm)>, ArbiterError>,
    pub times: Result<EtcdTimes, ArbiterError>,
    /// The term of a lease that was asked for with `TERM`.
    pub term: Result<Duration, ArbiterError>,
}

pub(super) fn of(facts: &EtcdFacts) -> Vec<Finding> {
    let cluster =
        (facts.members.iter()).find_map(|(_, status)| Some(status.as_ref().ok()?.cluster));
    let mut findings: Vec<Finding> = Vec::new();
    for (url, status) in &facts.members {
        match status {
            Ok(status) => findings.extend(member(url, status, cluster)),
            Err(error) => findings.push(failed("etcd", url, error)),
        }
    }
    if let Some(whole) = &facts.whole {
        findings.extend(membership(facts, whole));
        findings.extend(alarms(whole));
        findings.extend(times(whole));
        findings.push(lease(whole));
    }
    findings
}

/// Milliseconds.
pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// The middle one of sorted times, and the one that 99 of 100 do not exceed.
pub(super) fn median_and_p99(times: &[Duration]) -> Option<(Duration, Duration)> {
    let p99 = (times.len() * 99).div_ceil(100).checked_sub(1)?;
    Some((times[times.len() / 2], times[p99]))
}

fn note(about: &'static str, good: bool, found: String, todo: impl Into<String>) -> Finding {
    Finding {
        needed: false,
        ..finding(about, good, found, todo)
    }
}

/// A question that got no answer.
fn failed(about: &'static str, what: &str, error: &ArbiterError) -> Finding {
    let (why, todo) = match error {
        ArbiterError::Refused(why) => (
            why.clone(),
            "docs/operate.md, \"Several metadata servers\", describes the certificates and the user that etcd may require",
        ),
        ArbiterError::Unavailable(why) | ArbiterError::Unknown(why) => (
            why.clone(),
            "see that this member of etcd runs and has a leader, its address is right (https if it uses TLS), and no firewall is between",
        ),
        ArbiterError::LeaseEnded => (error.to_string(), "etcd was away for a minute: try again"),
    };
    finding(about, false, format!("{what}: {why}"), todo)
}

fn member(url: &str, status: &EtcdMemberStatus, cluster: Option<u64>) -> Vec<Finding> {
    let role = match status.leader {
        _ if status.is_learner => "learns",
        Some(leader) if leader == status.id => "leads",
        Some(_) => "follows",
        None => "knows no leader",
    };
    let used = match status.quota {
        Some(quota) => format!(
            "{} of at most {}",
            show_size(status.database),
            show_size(quota)
        ),
        None => format!(
            "{}; this version does not say its quota",
            show_size(status.database)
        ),
    };
    let found = format!("{url}: version {}, {role}, database {used}", status.version);
    let mut findings = vec![finding(
        "etcd",
        status.leader.is_some(),
        found,
        "more than half of the members must run and reach each other",
    )];
    let mut also = |what: String, todo: &str| {
        findings.push(note("etcd", false, format!("{url}: {what}"), todo));
    };
    if status.is_learner {
        also(
            "it is a learner: it does not count for a majority".into(),
            "etcdctl member promote, when it is up to date",
        );
    }
    if !is_tested(&status.version) {
        let [(_, oldest), (_, newest)] = TESTED;
        also(
            format!("gupfs was not tested with version {}", status.version),
            &format!("versions 3.{oldest} to 3.{newest} were"),
        );
    }
    if (status.quota).is_some_and(|quota| status.database > quota / 100 * DATABASE_PERCENT) {
        also(
            "its database has nearly reached its quota".into(),
            MAKE_ROOM,
        );
    }
    if cluster != Some(status.cluster) {
        let found = format!("{url}: this is a member of another etcd than the first one");
        let todo = "name the members of one etcd";
        findings.push(finding("etcd", false, found, todo));
    }
    findings
}

fn is_tested(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (TESTED[0]..=TESTED[1]).contains(&version)
}

fn membership(facts: &EtcdFacts, whole: &WholeEtcd) -> Vec<Finding> {
    let known = match &whole.known {
        Ok(known) => known,
        Err(error) => {
            return vec![Finding {
                needed: false,
                ..failed("members", "etcd does not list them", error)
            }];
        }
    };
    let count = known.len();
    let mut findings = vec![note(
        "members",
        count >= MEMBERS_MIN,
        format!("{count}; changes need {} of them", count / 2 + 1),
        "with three, on three hosts, any one may fail",
    )];
    for member in known {
        let is_named = facts.members.iter().any(|(url, status)| {
            let says = status.as_ref().is_ok_and(|status| status.id == member.id);
            says || member.urls.contains(url)
        });
        if !is_named {
            findings.push(note(
                "members",
                false,
                format!(
                    "'{}' at {} is not named",
                    member.name,
                    member.urls.join(", ")
                ),
                "name it, too: metadata servers ask only members that they know",
            ));
        }
    }
    findings
}

fn alarms(whole: &WholeEtcd) -> Vec<Finding> {
    let alarms = match &whole.alarms {
        Ok(alarms) if alarms.is_empty() => {
            return vec![finding("alarms", true, "none".into(), "")];
        }
        Ok(alarms) => alarms,
        Err(error) => {
            return vec![Finding {
                needed: false,
                ..failed("alarms", "etcd does not list them", error)
            }];
        }
    };
    let known = whole.known.as_deref().unwrap_or_default();
    let alarm = |(id, alarm): &(u64, EtcdAlarm)| {
        let name = known.iter().find(|member| member.id == *id);
        let name = name.map_or_else(|| format!("{id:x}"), |member| member.name.clone());
        match alarm {
            EtcdAlarm::NoSpace => finding(
                "alarms",
                false,
                format!("NOSPACE of member '{name}': etcd takes no changes"),
                MAKE_ROOM,
            ),
            EtcdAlarm::Corrupt => finding(
                "alarms",
                false,
                format!("CORRUPT of member '{name}': its data differ from the others'"),
                "replace this member by an empty one: etcdctl member remove, member add",
            ),
        }
    };
    alarms.iter().map(alarm).collect()
}

fn times(whole: &WholeEtcd) -> Vec<Finding> {
    let EtcdTimes { puts, changes } = match &whole.times {
        Ok(times) => times,
        Err(error) => return vec![failed("writes", "changes cannot be measured", error)],
    };
    let through = match whole.through_leader {
        true => "through the leader",
        false => "through a member that does not lead",
    };
    let measured = [
        ("writes", "a write", puts),
        ("changes", "a compare-and-set", changes),
    ];
    let findings = measured.into_iter().filter_map(|(about, what, times)| {
        let (median, p99) = median_and_p99(times)?;
        let found = format!(
            "{what} takes {} ms (median of {}), {} ms at the 99th percentile, {through}",
            millis(median),
            times.len(),
            millis(p99)
        );
        Some(note(
            about,
            p99 <= SYNC_MAX,
            found,
            "etcd recommends an SSD of its own for its data, whose syncs take less than 10 ms: a take-over waits for several",
        ))
    });
    findings.collect()
}

fn lease(whole: &WholeEtcd) -> Finding {
    let wanted = TERM.as_secs();
    let granted = match &whole.term {
        Ok(granted) => granted.as_secs(),
        Err(error) => return failed("lease", "etcd grants no lease", error),
    };
    finding(
        "lease",
        granted == wanted,
        format!("a lease of {wanted} s is granted as {granted} s"),
        "a take-over within 5 s needs the shorter one, and etcd grants none below 1.5 election times. Start the members with \
         --election-timeout=1000 --heartbeat-interval=100, at most --election-timeout=2000",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(facts: &EtcdFacts, expected: Expect) {
        let line = |finding: &Finding| {
            let todo = finding.todo.as_deref().unwrap_or_default();
            let mark = match (finding.good, finding.needed) {
                (true, _) => "ok",
                (false, true) => "MISSING",
                (false, false) => "note",
            };
            format!("{mark} {}: {} → {todo}\n", finding.about, finding.found)
        };
        let lines: String = of(facts).iter().map(line).collect();
        expected.assert_eq(&lines.replace(" → \n", "\n"));
    }

    fn status(id: u64) -> EtcdMemberStatus {
        EtcdMemberStatus {
            id,
            cluster: 7,
            version: "3.6.16".into(),
            leader: Some(1),
            is_learner: false,
            database: 24 << 10,
            quota: Some(2 << 30),
        }
    }

    fn entry(id: u64) -> EtcdMemberEntry {
        EtcdMemberEntry {
            id,
            name: format!("m{id}"),
            urls: vec![format!("http://node{id}:2379")],
        }
    }

    fn healthy() -> EtcdFacts {
        let members = [1, 2, 3].map(|id| (format!("http://node{id}:2379"), Ok(status(id))));
        let times: Vec<Duration> = (0..100)
            .map(|number| Duration::from_micros(2_000 + 20 * number))
            .collect();
        EtcdFacts {
            members: members.into(),
            whole: Some(WholeEtcd {
                through_leader: true,
                known: Ok([1, 2, 3].map(entry).into()),
                alarms: Ok(Vec::new()),
                times: Ok(EtcdTimes {
                    puts: times.clone(),
                    changes: times,
                }),
                term: Ok(TERM),
            }),
        }
    }

    #[test]
    fn a_healthy_etcd_lacks_nothing() {
        check(
            &healthy(),
            expect![[r#"
            ok etcd: http://node1:2379: version 3.6.16, leads, database 24.0 KiB of at most 2.00 GiB
            ok etcd: http://node2:2379: version 3.6.16, follows, database 24.0 KiB of at most 2.00 GiB
            ok etcd: http://node3:2379: version 3.6.16, follows, database 24.0 KiB of at most 2.00 GiB
            ok members: 3; changes need 2 of them
            ok alarms: none
            ok writes: a write takes 3 ms (median of 100), 4 ms at the 99th percentile, through the leader
            ok changes: a compare-and-set takes 3 ms (median of 100), 4 ms at the 99th percentile, through the leader
            ok lease: a lease of 3 s is granted as 3 s
        "#]],
        );
    }

    #[test]
    fn each_lack_is_named_with_what_to_change() {
        let mut facts = healthy();
        facts.members[0].1 = Err(ArbiterError::Unavailable("tcp connect error".into()));
        facts.members[1].1 = Ok(EtcdMemberStatus {
            version: "3.3.10".into(),
            leader: None,
            database: (2 << 30) - 5,
            ..status(2)
        });
        facts.members[2].1 = Ok(EtcdMemberStatus {
            cluster: 8,
            is_learner: true,
            quota: None,
            ..status(3)
        });
        facts.whole = Some(WholeEtcd {
            through_leader: false,
            known: Ok(vec![entry(2), entry(4)]),
            alarms: Ok(vec![(2, EtcdAlarm::NoSpace), (5, EtcdAlarm::Corrupt)]),
            times: Ok(EtcdTimes {
                puts: vec![Duration::from_millis(40)],
                changes: Vec::new(),
            }),
            term: Ok(Duration::from_secs(8)),
        });
        check(
            &facts,
            expect![[r#"
            MISSING etcd: http://node1:2379: tcp connect error → see that this member of etcd runs and has a leader, its address is right (https if it uses TLS), and no firewall is between
            MISSING etcd: http://node2:2379: version 3.3.10, knows no leader, database 2.00 GiB of at most 2.00 GiB → more than half of the members must run and reach each other
            note etcd: http://node2:2379: gupfs was not tested with version 3.3.10 → versions 3.4 to 3.6 were
            note etcd: http://node2:2379: its database has nearly reached its quota → compact and defragment it (etcdctl compact REVISION, etcdctl defrag on each member), then `etcdctl alarm disarm`; --quota-backend-bytes raises the quota
            ok etcd: http://node3:2379: version 3.6.16, learns, database 24.0 KiB; this version does not say its quota
            note etcd: http://node3:2379: it is a learner: it does not count for a majority → etcdctl member promote, when it is up to date
            MISSING etcd: http://node3:2379: this is a member of another etcd than the first one → name the members of one etcd
            note members: 2; changes need 2 of them → with three, on three hosts, any one may fail
            note members: 'm4' at http://node4:2379 is not named → name it, too: metadata servers ask only members that they know
            MISSING alarms: NOSPACE of member 'm2': etcd takes no changes → compact and defragment it (etcdctl compact REVISION, etcdctl defrag on each member), then `etcdctl alarm disarm`; --quota-backend-bytes raises the quota
            MISSING alarms: CORRUPT of member '5': its data differ from the others' → replace this member by an empty one: etcdctl member remove, member add
            note writes: a write takes 40 ms (median of 1), 40 ms at the 99th percentile, through a member that does not lead → etcd recommends an SSD of its own for its data, whose syncs take less than 10 ms: a take-over waits for several
            MISSING lease: a lease of 3 s is granted as 8 s → a take-over within 5 s needs the shorter one, and etcd grants none below 1.5 election times. Start the members with --election-timeout=1000 --heartbeat-interval=100, at most --election-timeout=2000
        "#]],
        );
    }

    #[test]
    fn a_refusal_is_told_with_its_reason() {
        let why = "etcd requires a client certificate, and this process has none";
        let facts = EtcdFacts {
            members: vec![(
                "https://node1:2379".into(),
                Err(ArbiterError::Refused(why.into())),
            )],
            whole: None,
        };
        check(
            &facts,
            expect![[r#"
            MISSING etcd: https://node1:2379: etcd requires a client certificate, and this process has none → docs/operate.md, "Several metadata servers", describes the certificates and the user that etcd may require
        "#]],
        );
    }
}
