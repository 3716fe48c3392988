//! Counts of rare events of the copies, as the owner sees them.

use super::MetadataCopies;
use crate::cluster::request_monitor::RequestMonitor;
use gupfs_copies::Standing;
use gupfs_proto::{CopyId, CopyRun, OwnerEpoch};
use std::collections::{BTreeMap, BTreeSet};

/// What was counted already.
#[derive(Default)]
pub struct SeenMembership {
    strikes: BTreeMap<(OwnerEpoch, CopyId), u32>,
    counting: BTreeSet<(CopyId, CopyRun)>,
}

impl SeenMembership {
    /// To be called often, the first time while all copies count.
    pub fn look(&mut self, copies: &MetadataCopies, monitor: &RequestMonitor) {
        let Some((host, owned)) = copies.owner() else {
            return;
        };
        for lag in owned.ownership.lag() {
            let known = self.strikes.entry((owned.epoch, lag.copy)).or_default();
            for _ in *known..lag.strikes {
                monitor.count("copy struck");
            }
            *known = lag.strikes;
        }
        let register = host.process().and_then(|process| process.copy.register());
        let Some(register) = register.filter(|register| register.epoch == owned.epoch) else {
            return;
        };
        let is_first = self.counting.is_empty();
        for member in &register.members {
            let counts = member.standing == Standing::Counting;
            if counts && self.counting.insert((member.id, member.run)) && !is_first {
                monitor.count("copy that rejoined");
            }
        }
        let reserved = copies.hosts.iter().any(|host| host.is_reserved());
        if !reserved && copies.is_whole() {
            copies.owners.note_whole();
        }
    }
}
