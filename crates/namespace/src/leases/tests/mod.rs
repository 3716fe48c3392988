//! Tests of the leases: the table against a model with clients that answer from their memory; bounds; shared directories; the keys that a
//! batch changes.

mod bounds;
mod changes;
mod model;
mod table;

use super::{LeaseTable, limits};
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::{InodeId, SessionId};
use std::time::Duration;

const ONE: SessionId = SessionId(1);
const TWO: SessionId = SessionId(2);
const THREE: SessionId = SessionId(3);
const DIR: InodeId = InodeId(5);
const FILE: InodeId = InodeId(6);

const ATTRIBUTES: LeaseKey = LeaseKey::Attributes(FILE);
const NAMES: LeaseKey = LeaseKey::Names(DIR);

fn name(hash: u64) -> LeaseKey {
    LeaseKey::Name { dir: DIR, hash }
}

fn at(ms: u64) -> Duration {
    Duration::from_secs(100) + Duration::from_millis(ms)
}

/// A table with the first three sessions.
fn table() -> LeaseTable {
    let mut table = LeaseTable::new();
    for session in [ONE, TWO, THREE] {
        table.accept(session);
    }
    table
}
