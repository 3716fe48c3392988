//! `gupfs doctor --etcd`: asks each member of etcd, and measures how fast it takes changes.

use super::etcd_findings::{self, EtcdFacts, WholeEtcd, median_and_p99, millis};
use super::print;
use crate::cluster::EtcdSettings;
use crate::daemon::block_on;
use crate::exit::{CliResult, Exit};
use gupfs_copies::limits::TERM;
use gupfs_platform::Platform;
use gupfs_platform::arbiter::etcd_check::{EtcdCheck, EtcdMemberStatus};
use std::time::Duration;

/// How many changes of each kind are measured.
const WRITES: usize = 100;

pub(super) fn run(settings: EtcdSettings, json: bool) -> CliResult<Exit> {
    crate::logging::start_quiet();
    let check = settings.check(&Platform::real());
    let facts = block_on(async { Ok(ask(&check).await) })?;
    let findings = etcd_findings::of(&facts);
    Ok(print(&findings, json, "etcd", || to_json(&facts)))
}

async fn ask(check: &EtcdCheck) -> EtcdFacts {
    let mut members = Vec::new();
    for endpoint in check.endpoints() {
        members.push((endpoint.clone(), check.member(endpoint).await));
    }
    let is_leader = |status: &EtcdMemberStatus| status.leader == Some(status.id);
    let followed = members.iter().filter_map(|(endpoint, status)| {
        let status = status.as_ref().ok()?;
        status.leader.map(|_| (endpoint, is_leader(status)))
    });
    // The leader itself if its address is known.
    let whole = match followed.max_by_key(|(_, leads)| *leads) {
        Some((endpoint, through_leader)) => Some(WholeEtcd {
            through_leader,
            known: check.membership(endpoint).await,
            alarms: check.alarms(endpoint).await,
            times: check.measure(endpoint, WRITES).await,
            term: check.granted_term(endpoint, TERM).await,
        }),
        None => None,
    };
    EtcdFacts { members, whole }
}

fn to_json(facts: &EtcdFacts) -> serde_json::Value {
    let members = facts.members.iter().map(|(url, status)| match status {
        Ok(status) => serde_json::json!({
            "url": url,
            "member": format!("{:x}", status.id),
            "version": status.version,
            "is_leader": status.leader == Some(status.id),
            "is_learner": status.is_learner,
            "database": status.database,
            "quota": status.quota,
        }),
        Err(error) => serde_json::json!({ "url": url, "error": error.to_string() }),
    });
    let times = |times: &[Duration]| {
        median_and_p99(times).map(|(median, p99)| {
            serde_json::json!({ "median_ms": millis(median), "p99_ms": millis(p99) })
        })
    };
    let whole = facts.whole.as_ref();
    let measured = whole.and_then(|whole| whole.times.as_ref().ok());
    serde_json::json!({
        "members": members.collect::<Vec<_>>(),
        "through_leader": whole.map(|whole| whole.through_leader),
        "writes": measured.and_then(|measured| times(&measured.puts)),
        "changes": measured.and_then(|measured| times(&measured.changes)),
        "lease_seconds": whole.and_then(|whole| whole.term.as_ref().ok()).map(Duration::as_secs),
    })
}
