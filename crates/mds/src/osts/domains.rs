//! Failure domains: which targets may be lost together.

use super::Targets;
use super::entry::TargetEntry;
use gupfs_proto::cluster::FailureDomain;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{DomainName, OstId};
use std::collections::{BTreeMap, BTreeSet};

/// Where a target is, as far as it is known.
#[derive(Clone, Copy)]
pub(super) struct TargetSite<'a> {
    /// The address of its server, which is empty for this process; None: it has not reported since the start.
    address: Option<&'a str>,
    /// The failure domain that its server named last, also before the start.
    name: Option<DomainName>,
}

impl<'a> TargetSite<'a> {
    pub(super) fn of(entry: &'a TargetEntry) -> TargetSite<'a> {
        TargetSite {
            address: match (&entry.remote, &entry.peer) {
                (Some(remote), _) => Some(&remote.address),
                (None, Some(_)) => Some(""),
                (None, None) => None,
            },
            name: entry.recorded.and_then(|known| known.domain),
        }
    }
}

/// What targets that may be lost together have in common. The order is that of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Domain<'a> {
    /// Their servers have not reported, so they may be on one host.
    NotReported,
    Named(DomainName),
    Host(&'a str),
    /// A server process on a host with several.
    Server(&'a str),
    Target(usize),
}

/// The domain of each target; None: it may be any.
///
/// If a server has named its domain, each name is one, and so is the host of a server without a name. Otherwise, where the targets are on
/// several hosts, a domain is a host; on one host it is a server process; with one server it is a target.
fn domains<'a>(sites: &[TargetSite<'a>]) -> Vec<Option<Domain<'a>>> {
    if sites.iter().any(|site| site.name.is_some()) {
        // A target that has not reported, without a name, may be on any host and in any rack.
        let host = |site: &TargetSite<'a>| site.address.map(|at| Domain::Host(host_of(at)));
        let domain = |site: &TargetSite<'a>| site.name.map(Domain::Named).or_else(|| host(site));
        return sites.iter().map(domain).collect();
    }
    let by_host = |at| Domain::Host(host_of(at));
    for of_address in [&by_host as &dyn Fn(&'a str) -> Domain<'a>, &Domain::Server] {
        let domain = |site: &TargetSite<'a>| site.address.map_or(Domain::NotReported, of_address);
        let all: Vec<Domain> = sites.iter().map(domain).collect();
        let distinct: BTreeSet<&Domain> = all.iter().collect();
        if distinct.len() > 1 || distinct.contains(&Domain::NotReported) {
            return all.into_iter().map(Some).collect();
        }
    }
    (0..sites.len())
        .map(|at| Some(Domain::Target(at)))
        .collect()
}

/// A number for each target: equal numbers share a domain.
pub(super) fn number_domains(sites: &[TargetSite]) -> Vec<u32> {
    let domains = domains(sites);
    let distinct: BTreeSet<Domain> = domains.iter().flatten().copied().collect();
    let number = |domain: Domain| distinct.iter().take_while(|it| **it < domain).count() as u32;
    let number = |domain: Option<Domain>| domain.map_or(PlacementTarget::UNKNOWN_DOMAIN, number);
    domains.into_iter().map(number).collect()
}

impl Targets {
    /// The failure domains of the targets that are not lost, and whether a server has named one.
    pub fn failure_domains(&self) -> (Vec<FailureDomain>, bool) {
        let list = self.list.lock();
        let kept = list.iter().filter(|(_, entry)| !entry.condition.is_lost());
        let (osts, sites): (Vec<OstId>, Vec<TargetSite>) = kept
            .map(|(ost, entry)| (*ost, TargetSite::of(entry)))
            .unzip();
        let mut members = BTreeMap::<Domain, Vec<OstId>>::new();
        for (ost, domain) in osts.iter().zip(domains(&sites)) {
            if let Some(domain) = domain {
                members.entry(domain).or_default().push(*ost);
            }
        }
        let domains = members.into_iter().map(|(domain, osts)| FailureDomain {
            name: name_of(domain, &osts),
            osts,
        });
        let is_named = sites.iter().any(|site| site.name.is_some());
        (domains.collect(), is_named)
    }
}

fn name_of(domain: Domain, osts: &[OstId]) -> String {
    match domain {
        Domain::Named(name) => name.to_string(),
        Domain::Host("") | Domain::Server("") => "host of the metadata server".into(),
        Domain::Host(host) => format!("host {host}"),
        Domain::Server(address) => format!("server {address}"),
        Domain::NotReported => "not reported yet".into(),
        Domain::Target(_) => osts.iter().map(|ost| format!("ost{ost}")).collect(),
    }
}

/// "host" of "host:port".
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: u32 = PlacementTarget::UNKNOWN_DOMAIN;

    /// "address", "address=name", "=name" of one that has not reported, or "".
    fn numbers(targets: &[&str]) -> Vec<u32> {
        let site = |text: &&'static str| {
            let (address, name) = text.split_once('=').unwrap_or((text, ""));
            TargetSite {
                address: Some(address).filter(|at| !at.is_empty()),
                name: DomainName::new(name),
            }
        };
        let targets: Vec<&'static str> = (targets.iter())
            .map(|text| &*String::from(*text).leak())
            .collect();
        number_domains(&targets.iter().map(site).collect::<Vec<_>>())
    }

    #[test]
    fn a_domain_is_a_host_or_a_server_or_a_target() {
        assert_eq!(numbers(&["a:1", "a:2", "b:1", "b:1"]), [0, 0, 1, 1]);
        assert_eq!(numbers(&["a:1", "a:1", "a:2"]), [0, 0, 1]);
        assert_eq!(numbers(&["a:1", "a:1"]), [0, 1]);
        assert_eq!(numbers(&["here", "here", "here"]), [0, 1, 2]);
        assert_eq!(numbers(&["[::1]:7", "", "[::2]:7", ""]), [1, 0, 2, 0]);
        assert_eq!(numbers(&["a:1", "a:1", "", ""]), [1, 1, 0, 0]);
        assert_eq!(numbers(&["", "", ""]), [0, 0, 0]);
    }

    #[test]
    fn a_name_joins_hosts_and_hosts_without_a_name_stand_alone() {
        assert_eq!(numbers(&["a:1=r1", "b:1=r1", "c:1=r2"]), [0, 0, 1]);
        assert_eq!(numbers(&["a:1=r1", "b:1", "b:2", "c:1"]), [0, 1, 1, 2]);
        // No domain is made of the servers of one rack.
        assert_eq!(numbers(&["a:1=r1", "b:1=r1"]), [0, 0]);
        // A host may have targets in two racks: an administrator has named them, so both count.
        assert_eq!(numbers(&["a:1=r1", "a:2=r2"]), [0, 1]);
        assert_eq!(numbers(&["r1:1", "b:1=r1"]), [1, 0]);
    }

    #[test]
    fn a_name_holds_before_the_server_has_reported_and_without_one_the_domain_is_unknown() {
        assert_eq!(numbers(&["a:1=r1", "=r1", "=r2", ""]), [0, 0, 1, UNKNOWN]);
        assert_eq!(numbers(&["", "", "=r2"]), [UNKNOWN, UNKNOWN, 0]);
    }
}
