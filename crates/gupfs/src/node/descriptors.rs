//! Descriptors: how the files that a process may have open are shared among its stores.

use crate::cluster::{CAPACITY_LEAST, capacity, open_files};
use crate::exit::{Outcome, Trouble};
use crate::{control, metrics};
use gupfs_fuse::over_io_uring;
use gupfs_rpc::Capacity;
use gupfs_store::index::{FILES_BESIDE, FILES_LEAST, FILES_MOST};
use gupfs_store::object::OpenFiles;

/// What is open besides: FUSE, connections to other servers, log segments and locks; and what calls under way open for a
/// moment. The rings of sixteen CPUs are part of it.
const OTHERS: usize = 64;
const OF_RINGS: usize = 32;
const _: () = assert!(OF_RINGS <= OTHERS / 2);

/// Whoever connects has a share of its own, so that nobody who reaches this host by its network can take what the stores need.
const OF_PEERS: usize =
    CAPACITY_LEAST.descriptors() + 2 * metrics::CONNECTIONS + control::CONNECTIONS;

/// Log segments, superblock and lock of one target.
const OF_A_TARGET: usize = 16;

/// Who keeps how many files open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Tables of the metadata's index.
    pub metadata: usize,
    pub target: OpenFiles,
    /// Connections to this process.
    pub capacity: Capacity,
}

impl Share {
    /// Of the limit of this process, for a store of so many targets.
    ///
    /// # Errors
    /// When there are too few for so many targets, with the number that is needed.
    pub fn of_this_process(targets: usize) -> Outcome<Share> {
        let limit = open_files();
        Share::of(limit, targets).ok_or_else(|| {
            let needed = Share::needed(targets);
            Trouble::new(format!(
                "this process may open {limit} files, and a store of {targets} OSTs needs {needed}"
            ))
            .todo(format!(
                "ulimit -n {}, or LimitNOFILE= in the service's unit",
                needed.max(65_536)
            ))
        })
    }

    fn of(limit: usize, targets: usize) -> Option<Share> {
        if limit < Share::needed(targets) {
            return None;
        }
        let indexes = targets + 1;
        let free = limit - Share::fixed(targets);
        let capacity = Share::capacity(limit, targets);
        let free = free - (capacity.descriptors() - CAPACITY_LEAST.descriptors());
        // Objects first: there are many of them, and tables are large.
        let beside_objects = free - targets * OpenFiles::LEAST.objects;
        let index = (free / 4).min(beside_objects) / indexes;
        let index = index.clamp(FILES_LEAST, FILES_MOST);
        let objects = (free - index * indexes) / targets.max(1);
        let target = OpenFiles {
            objects: objects.clamp(OpenFiles::LEAST.objects, OpenFiles::MOST.objects),
            index,
        };
        Some(Share {
            metadata: index,
            target,
            capacity,
        })
    }

    /// Connections come before more than the least for files, and the least for files before more than the least
    /// connections.
    fn capacity(limit: usize, targets: usize) -> Capacity {
        let spare = limit - Share::needed(targets);
        let (least, mut much) = (CAPACITY_LEAST, capacity(limit));
        let more = much.descriptors() - least.descriptors();
        if more > spare {
            // All shrink alike.
            let part = |most: usize, least: usize| least + (most - least) * spare / more;
            much.clients = part(much.clients, least.clients);
            much.others = part(much.others, least.others);
            much.strangers = part(much.strangers, least.strangers);
        }
        much
    }

    fn fixed(targets: usize) -> usize {
        let rings = over_io_uring::descriptors().saturating_sub(OF_RINGS);
        OTHERS + OF_PEERS + rings + targets * OF_A_TARGET + (targets + 1) * FILES_BESIDE
    }

    /// What a store of so many targets needs at least.
    pub fn needed(targets: usize) -> usize {
        let least = OpenFiles::LEAST;
        Share::fixed(targets) + (targets + 1) * least.index + targets * least.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_is_more_than_the_limit() {
        for targets in [1, 2, 4, 8, 64] {
            for limit in (64..10_000).step_by(64).chain([65_536, usize::MAX]) {
                let Some(share) = Share::of(limit, targets) else {
                    assert!(limit < Share::needed(targets));
                    continue;
                };
                let used = Share::fixed(targets)
                    + (share.capacity.descriptors() - CAPACITY_LEAST.descriptors())
                    + share.metadata
                    + targets * (share.target.index + share.target.objects);
                assert!(used <= limit, "{limit} for {targets}: {share:?}");
            }
        }
    }

    #[test]
    fn the_usual_limits_are_enough() {
        let usual = Share::of(1_024, 4).unwrap();
        assert!(usual.target.objects >= 100, "{usual:?}");
        let raised = Share::of(65_536, 8).unwrap();
        assert_eq!(raised.target, OpenFiles::MOST);
        assert_eq!(Share::of(1_024, 16), None);
    }
}
