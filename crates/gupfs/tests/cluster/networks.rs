//! Simulated hosts: network namespaces with a link to a switch each; a test can cut the links.

use crate::test_cluster::DaemonHosts;
use gupfs_skips::{Need, skip};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A hardware address that no interface has.
const NOBODY: &str = "02:00:00:00:00:01";

/// How a host is disconnected.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Its network interface is down: senders get an error at once.
    CardOff,
    /// Its link is disconnected from the switch: the interface is up, and packets are lost without an error.
    Silence,
}

/// Removed on drop, also after a failed test.
pub struct Networks {
    tag: String,
    hosts: Vec<String>,
}

impl Networks {
    /// None if this host or process cannot create network namespaces.
    pub fn wire(hosts: &[&str]) -> Option<Networks> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let networks = Networks {
            tag: format!("gt{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed)),
            hosts: hosts.iter().map(ToString::to_string).collect(),
        };
        if let Err(error) = ip(&format!("netns add {}", networks.hub())) {
            skip(
                Need::Namespaces,
                format!("no network namespaces on this host: {error}"),
            );
            return None;
        }
        networks.lay_cables().unwrap();
        Some(networks)
    }

    fn lay_cables(&self) -> Result<(), String> {
        let hub = self.hub();
        ip(&format!("-n {hub} link add switch type bridge"))?;
        ip(&format!("-n {hub} link set switch up"))?;
        for host in &self.hosts {
            let (network, address) = (self.network(host), self.address(host));
            ip(&format!("netns add {network}"))?;
            ip(&format!(
                "-n {hub} link add {host} type veth peer name eth0 netns {network}"
            ))?;
            ip(&format!("-n {hub} link set {host} master switch up"))?;
            ip(&format!("-n {network} address add {address}/24 dev eth0"))?;
            ip(&format!("-n {network} link set eth0 up"))?;
            ip(&format!("-n {network} link set lo up"))?;
        }
        Ok(())
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.tag)
    }

    fn network(&self, host: &str) -> String {
        format!("{}-{host}", self.tag)
    }

    fn address(&self, host: &str) -> String {
        let number = self.hosts.iter().position(|name| name == host).unwrap();
        format!("10.78.0.{}", number + 1)
    }

    /// Each daemon on the host of its name.
    pub fn daemon_hosts(&self) -> DaemonHosts {
        let mut daemon_hosts = DaemonHosts::default();
        for host in &self.hosts {
            let enter = format!("--net=/run/netns/{}", self.network(host));
            let before = vec!["nsenter".to_string(), enter];
            daemon_hosts.before.insert(host.clone(), before);
            daemon_hosts
                .addresses
                .insert(host.clone(), self.address(host));
        }
        daemon_hosts
    }

    pub fn cut(&self, host: &str, how: Cut) {
        self.turn(host, how, ["down", "nomaster"]);
    }

    pub fn heal(&self, host: &str, how: Cut) {
        self.turn(host, how, ["up", "master switch"]);
    }

    /// From now on nothing that one host sends reaches the other, without an error: it has a wrong hardware address of it. The other direction
    /// goes on.
    pub fn lose(&self, from: &str, to: &str) {
        let (network, address) = (self.network(from), self.address(to));
        ip(&format!(
            "-n {network} neighbour replace {address} lladdr {NOBODY} dev eth0 nud permanent"
        ))
        .unwrap();
    }

    /// Ends `lose`.
    pub fn deliver(&self, from: &str, to: &str) {
        let (network, address) = (self.network(from), self.address(to));
        ip(&format!("-n {network} neighbour delete {address} dev eth0")).unwrap();
    }

    fn turn(&self, host: &str, how: Cut, [card, plug]: [&str; 2]) {
        let line = match how {
            Cut::CardOff => format!("-n {} link set eth0 {card}", self.network(host)),
            Cut::Silence => format!("-n {} link set {host} {plug}", self.hub()),
        };
        ip(&line).unwrap();
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        let networks = self.hosts.iter().map(|host| self.network(host));
        for network in networks.chain([self.hub()]) {
            // If the setup failed, some do not exist.
            let _ = ip(&format!("netns delete {network}"));
        }
    }
}

/// A cut that is healed on drop, also when the test fails: otherwise its programs could not end.
struct Healed<'a>(&'a Networks, &'a str, Cut);

impl Drop for Healed<'_> {
    fn drop(&mut self) {
        self.0.heal(self.1, self.2);
    }
}

/// Cuts the network for this long, or until the work is done if that takes longer.
pub fn cut_for<T>(
    networks: &Networks,
    (host, how, time): (&str, Cut, Duration),
    meanwhile: impl FnOnce() -> T,
) -> T {
    let begun = Instant::now();
    networks.cut(host, how);
    let _healed = Healed(networks, host, how);
    let done = meanwhile();
    std::thread::sleep(time.saturating_sub(begun.elapsed()));
    done
}

fn ip(line: &str) -> Result<(), String> {
    let output = Command::new("ip").args(line.split(' ')).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "ip {line}: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        )),
    }
}
