//! The copies as an administrator sees them.

use crate::owner::{CopyLag, Ownership};
use crate::register::Register;
use gupfs_proto::CopyId;
use gupfs_proto::copy::{CopiesReport, CopyReport};

pub fn of(
    reporter: CopyId,
    register: &Register,
    is_held: bool,
    ownership: Option<&Ownership>,
) -> CopiesReport {
    let last = ownership.and_then(Ownership::last);
    let lags = ownership.map(Ownership::lag).unwrap_or_default();
    let members = register.members.iter().map(|member| {
        let is_owner = member.id == register.owner;
        let lag = lags.iter().find(|lag| lag.copy == member.id);
        let lag = lag.cloned().unwrap_or_default();
        let behind = |has: fn(&CopyLag) -> u64| match (is_owner, last) {
            (true, Some(_)) => Some(0),
            (_, last) => last.map(|last| last.0.saturating_sub(has(&lag))),
        };
        CopyReport {
            copy: member.id,
            address: member.address.clone(),
            is_owner,
            standing: member.standing,
            behind: behind(|lag| lag.has.0),
            unsynced: behind(|lag| lag.synced.0),
            snapshot_parts: lag.snapshot_parts,
            struck: lag.struck,
            strikes: lag.strikes,
        }
    });
    CopiesReport {
        reporter,
        epoch: register.epoch,
        is_held,
        arbiter_error: ownership.and_then(|ownership| ownership.right().arbiter_error),
        members: members.collect(),
    }
}
