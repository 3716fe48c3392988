//! The hosts of a lab: names and addresses, the same in every lab, since no lab sees another.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `s1`, `c1`.
    pub name: String,
    pub address: String,
    /// From 1, among the servers or the clients.
    pub number: u16,
}

#[derive(Clone, Debug)]
pub struct Hosts {
    servers: u16,
    all: Vec<Host>,
}

/// Of all addresses of a lab.
pub const PREFIX_BITS: u8 = 16;

impl Hosts {
    pub fn new(servers: u16, clients: u16) -> Hosts {
        let servers_and_clients = (1..=servers)
            .map(|n| ('s', n))
            .chain((1..=clients).map(|n| ('c', n)));
        let all = servers_and_clients
            .zip(1u32..)
            .map(|((kind, number), at)| Host {
                name: format!("{kind}{number}"),
                // The last number of an address is 1 to 250.
                address: format!("10.99.{}.{}", (at - 1) / 250, (at - 1) % 250 + 1),
                number,
            });
        Hosts {
            servers,
            all: all.collect(),
        }
    }

    pub fn all(&self) -> &[Host] {
        &self.all
    }

    pub fn servers(&self) -> &[Host] {
        &self.all[..usize::from(self.servers)]
    }

    pub fn clients(&self) -> &[Host] {
        &self.all[usize::from(self.servers)..]
    }

    /// Those that `servers`, `clients`, `all` or a name means.
    pub fn named(&self, text: &str) -> Option<&[Host]> {
        match text {
            "servers" => Some(self.servers()),
            "clients" => Some(self.clients()),
            "all" => Some(self.all()),
            name => {
                let at = self.all.iter().position(|host| host.name == name)?;
                Some(&self.all[at..=at])
            }
        }
    }
}

pub fn names(hosts: &[Host]) -> String {
    let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
    names.join(" ")
}

#[test]
fn every_host_has_a_name_and_an_address_of_its_own() {
    let hosts = Hosts::new(2, 300);
    assert_eq!(
        (names(hosts.servers()), hosts.clients().len()),
        ("s1 s2".into(), 300)
    );
    assert_eq!(hosts.named("c1").unwrap()[0].address, "10.99.0.3");
    assert_eq!(hosts.named("c249").unwrap()[0].address, "10.99.1.1");
    assert_eq!(hosts.named("all").unwrap().len(), 302);
    assert!(hosts.named("s3").is_none() && hosts.named("").is_none());
    let mut addresses: Vec<_> = hosts.all().iter().map(|host| &host.address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 302);
}
