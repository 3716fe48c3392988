//! # server_addresses: where the copies of one server listen
//!
//! Owns   the known addresses of a server: those that this process was configured with, and those that the server has named.
//! Never  connects, or knows which copy serves.
//! Enter  at `ServerAddresses::one` or `ServerAddresses::new`.

use crate::limits::{SERVER_ADDRESS_MAX, SERVER_ADDRESSES_MAX};
use parking_lot::Mutex;
use std::sync::Arc;

/// The known addresses of one server, each "host:port". With several of them the server has copies on several hosts: one of them, the
/// owner, serves at a time, and a client does not know which.
pub struct ServerAddresses {
    configured: Vec<String>,
    learned: Mutex<Vec<String>>,
    /// It stands for one process: what the server names is not used.
    is_fixed: bool,
}

impl ServerAddresses {
    /// A server with one known address.
    pub fn one(address: &str) -> Arc<ServerAddresses> {
        ServerAddresses::new(vec![address.to_string()])
    }

    /// A server with these addresses, in the order in which clients try them. Duplicates and all after the first
    /// `SERVER_ADDRESSES_MAX` are dropped.
    ///
    /// # Panics
    /// When there is no address.
    pub fn new(addresses: Vec<String>) -> Arc<ServerAddresses> {
        let mut configured = Vec::new();
        add(&mut configured, addresses);
        assert!(!configured.is_empty(), "a server has an address");
        Arc::new(ServerAddresses {
            configured,
            learned: Mutex::default(),
            is_fixed: false,
        })
    }

    /// A server at this address alone, whatever addresses it names: a certain copy.
    pub fn fixed(address: &str) -> Arc<ServerAddresses> {
        Arc::new(ServerAddresses {
            configured: vec![address.to_string()],
            learned: Mutex::default(),
            is_fixed: true,
        })
    }

    /// The known addresses: the configured ones, then the learned ones. At least one, at most `SERVER_ADDRESSES_MAX`.
    pub fn all(&self) -> Vec<String> {
        let mut all = self.configured.clone();
        all.extend_from_slice(&self.learned.lock());
        all
    }

    /// Whether more than one address is known.
    pub fn are_several(&self) -> bool {
        self.configured.len() + self.learned.lock().len() > 1
    }

    /// Replaces the learned addresses by those that the server has named. Drops duplicates, addresses longer than
    /// `SERVER_ADDRESS_MAX`, and all beyond `SERVER_ADDRESSES_MAX` with the configured ones.
    pub fn learn(&self, mut addresses: Vec<String>) {
        if self.is_fixed {
            return;
        }
        addresses.retain(|address| address.len() <= SERVER_ADDRESS_MAX);
        let mut all = self.configured.clone();
        add(&mut all, addresses);
        *self.learned.lock() = all.split_off(self.configured.len());
    }
}

/// Adds the addresses that are not there yet, while there are fewer than the most.
fn add(all: &mut Vec<String>, addresses: Vec<String>) {
    for address in addresses {
        if all.len() < SERVER_ADDRESSES_MAX && !all.contains(&address) {
            all.push(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn learned_addresses_replace_learned_ones_and_follow_the_configured_ones() {
        let addresses = ServerAddresses::one("a:1");
        assert!(!addresses.are_several());
        addresses.learn(named(&["b:1", "a:1", "b:1", "c:1"]));
        assert_eq!(addresses.all(), named(&["a:1", "b:1", "c:1"]));
        addresses.learn(named(&["c:1", "d:1"]));
        assert_eq!(addresses.all(), named(&["a:1", "c:1", "d:1"]));
        addresses.learn(named(&["a:1"]));
        assert!(!addresses.are_several());
    }

    #[test]
    fn a_fixed_address_stays_alone() {
        let addresses = ServerAddresses::fixed("a:1");
        addresses.learn(named(&["b:1"]));
        assert_eq!(addresses.all(), named(&["a:1"]));
    }

    #[test]
    fn the_number_and_the_length_of_addresses_are_limited() {
        let addresses = ServerAddresses::new(named(&["a:1", "b:1", "a:1"]));
        assert_eq!(addresses.all(), named(&["a:1", "b:1"]));
        let mut many = vec!["x".repeat(SERVER_ADDRESS_MAX + 1)];
        many.extend((0..30).map(|number| format!("c{number}:1")));
        addresses.learn(many);
        let all = addresses.all();
        assert_eq!(all.len(), SERVER_ADDRESSES_MAX);
        assert_eq!(all[..3], named(&["a:1", "b:1", "c0:1"]));
    }
}
