//! Failure domains: which targets may be lost together.

use std::collections::BTreeSet;

/// A number for each target: equal numbers share a domain. Where the targets are on several hosts, a domain is a host; on one host it is a
/// server process; with one server it is a target. Targets whose servers have not reported (None) may be on one host that is no other's.
pub(super) fn number_domains<'a>(addresses: impl Iterator<Item = Option<&'a str>>) -> Vec<u32> {
    let addresses: Vec<Option<&str>> = addresses.collect();
    let hosts: Vec<Option<&str>> = addresses
        .iter()
        .map(|address| address.map(host_of))
        .collect();
    for names in [hosts, addresses.clone()] {
        // None is the first.
        let distinct: BTreeSet<Option<&str>> = names.iter().copied().collect();
        if distinct.len() > 1 || distinct.contains(&None) {
            let number = |name: Option<&str>| distinct.iter().take_while(|it| **it < name).count();
            return names.into_iter().map(|name| number(name) as u32).collect();
        }
    }
    (0..addresses.len() as u32).collect()
}

/// "host" of "host:port".
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(addresses: &[&str]) -> Vec<u32> {
        let known = |text: &str| !text.is_empty();
        number_domains(
            addresses
                .iter()
                .map(|text| Some(*text).filter(|text| known(text))),
        )
    }

    #[test]
    fn a_domain_is_a_host_or_a_server_or_a_target() {
        assert_eq!(domains(&["a:1", "a:2", "b:1", "b:1"]), [0, 0, 1, 1]);
        assert_eq!(domains(&["a:1", "a:1", "a:2"]), [0, 0, 1]);
        assert_eq!(domains(&["a:1", "a:1"]), [0, 1]);
        assert_eq!(domains(&["here", "here", "here"]), [0, 1, 2]);
        assert_eq!(domains(&["[::1]:7", "", "[::2]:7", ""]), [1, 0, 2, 0]);
        assert_eq!(domains(&["a:1", "a:1", "", ""]), [1, 1, 0, 0]);
        assert_eq!(domains(&["", "", ""]), [0, 0, 0]);
    }
}
