//! Failure domains: which targets may be lost together.

use std::collections::BTreeSet;

/// A number for each target: equal numbers share a domain. Where the targets are on several hosts, a domain is a host; on one host it is a
/// server process; with one server it is a target. A target without an address is in a domain of its own.
pub(super) fn number_domains<'a>(addresses: impl Iterator<Item = Option<&'a str>>) -> Vec<u32> {
    let addresses: Vec<Option<&str>> = addresses.collect();
    let hosts: Vec<Option<&str>> = addresses
        .iter()
        .map(|address| address.map(host_of))
        .collect();
    for names in [hosts, addresses.clone()] {
        let distinct: BTreeSet<&str> = names.iter().flatten().copied().collect();
        if distinct.len() > 1 {
            let known: Vec<&str> = distinct.into_iter().collect();
            let number = |(at, name): (usize, Option<&str>)| {
                let among_known = name.and_then(|name| known.binary_search(&name).ok());
                among_known.unwrap_or(known.len() + at) as u32
            };
            return names.into_iter().enumerate().map(number).collect();
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
        let address = |text: &&'static str| (!text.is_empty()).then_some(*text);
        let addresses: Vec<&'static str> = addresses
            .iter()
            .map(|text| &*Box::leak(text.to_string().into_boxed_str()))
            .collect();
        number_domains(addresses.iter().map(address))
    }

    #[test]
    fn a_domain_is_a_host_or_a_server_or_a_target() {
        assert_eq!(domains(&["a:1", "a:2", "b:1", "b:1"]), [0, 0, 1, 1]);
        assert_eq!(domains(&["a:1", "a:1", "a:2"]), [0, 0, 1]);
        assert_eq!(domains(&["a:1", "a:1"]), [0, 1]);
        assert_eq!(domains(&["", "", ""]), [0, 1, 2], "in this process");
        assert_eq!(domains(&["[::1]:7", "", "[::2]:7"]), [0, 3, 1]);
    }
}
