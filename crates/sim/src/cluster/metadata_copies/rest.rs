//! Whether all copies have the same when the cluster is idle.

use super::{COPIES, MetadataCopies};
use bytes::Bytes;
use gupfs_proto::copy::CopyLogState;
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;

impl MetadataCopies {
    /// Whether every copy has applied all of the owner's records. Then they are compared.
    ///
    /// # Panics
    /// When a copy that has applied all records differs from the owner.
    pub fn are_equal(&self) -> bool {
        let Some((owner, owned)) = self.owner() else {
            return false;
        };
        let Some(kv) = owned.served.records.upgrade() else {
            return false;
        };
        let (written, last) = (kv.written(), kv.last_seq());
        let records = kv.scan(Bytes::new(), Bytes::from_static(&[0xff; 64]), usize::MAX);
        let records = BTreeMap::from_iter(records.expect("the index can be read"));
        let mut equal = 0;
        for host in self.hosts.iter().filter(|host| host.number != owner.number) {
            let Some(copy) = host.process().map(|process| process.copy) else {
                continue;
            };
            let CopyLogState::Open { end, applied, .. } = copy.host().state().log else {
                continue;
            };
            let Some(store) = copy.host().copy() else {
                continue;
            };
            if end != written || applied != last {
                continue;
            }
            let found = store.index().scan((Unbounded, Unbounded), usize::MAX);
            let found = BTreeMap::from_iter(found.expect("the index can be read"));
            let name = &host.host.name;
            assert!(found == records, "{name} has other records than the owner");
            equal += 1;
        }
        equal + 1 == COPIES
    }
}
