//! Descriptors: how the files that a process may have open are shared among its stores.

use crate::cluster::{CAPACITY_LEAST, capacity, open_files};
use crate::exit::{CliError, CliResult};
use crate::{control, metrics};
use gupfs_fuse::over_io_uring;
use gupfs_rpc::Capacity;
use gupfs_store::index::{OPEN_TABLES_MAX, OPEN_TABLES_MIN, OTHER_FILES_MAX};
use gupfs_store::object::OpenFileLimits;

/// What is open besides: FUSE, connections to other servers, log segments and locks; and what calls under way open for a
/// moment. The rings of sixteen CPUs are part of it.
const OTHERS: usize = 64;
const OF_RINGS: usize = 32;
const _: () = assert!(OF_RINGS <= OTHERS / 2);

/// Whoever connects has a share of its own, so that nobody who reaches this host by its network can take what the stores need.
const OF_PEERS: usize =
    CAPACITY_LEAST.descriptors() + 2 * metrics::CONNECTIONS + control::CONNECTIONS_MAX;

/// Log segments, superblock and lock of one target.
const OF_A_TARGET: usize = 16;

/// Who keeps how many files open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorBudget {
    /// Tables of the metadata's index.
    pub metadata: usize,
    pub target: OpenFileLimits,
    /// Connections to this process.
    pub capacity: Capacity,
}

impl DescriptorBudget {
    /// Of the limit of this process, for a store of so many targets.
    ///
    /// # Errors
    /// When there are too few for so many targets, with the number that is needed.
    pub fn of_this_process(targets: usize) -> CliResult<DescriptorBudget> {
        let limit = open_files();
        DescriptorBudget::of(limit, targets).ok_or_else(|| {
            let needed = DescriptorBudget::needed(targets);
            CliError::new(format!(
                "this process may open {limit} files, and a store of {targets} OSTs needs {needed}"
            ))
            .todo(format!(
                "ulimit -n {}, or LimitNOFILE= in the service's unit",
                needed.max(65_536)
            ))
        })
    }

    fn of(limit: usize, targets: usize) -> Option<DescriptorBudget> {
        if limit < DescriptorBudget::needed(targets) {
            return None;
        }
        let indexes = targets + 1;
        let free = limit - DescriptorBudget::fixed(targets);
        let capacity = DescriptorBudget::capacity(limit, targets);
        let free = free - (capacity.descriptors() - CAPACITY_LEAST.descriptors());
        // Objects first: there are many of them, and tables are large.
        let beside_objects = free - targets * OpenFileLimits::MIN.objects;
        let index = (free / 4).min(beside_objects) / indexes;
        let index = index.clamp(OPEN_TABLES_MIN, OPEN_TABLES_MAX);
        let objects = (free - index * indexes) / targets.max(1);
        let target = OpenFileLimits {
            objects: objects.clamp(OpenFileLimits::MIN.objects, OpenFileLimits::MAX.objects),
            index,
        };
        Some(DescriptorBudget {
            metadata: index,
            target,
            capacity,
        })
    }

    /// Connections come before more than the least for files, and the least for files before more than the least
    /// connections.
    fn capacity(limit: usize, targets: usize) -> Capacity {
        let spare = limit - DescriptorBudget::needed(targets);
        let (least, mut much) = (CAPACITY_LEAST, capacity(limit));
        let more = much.descriptors() - least.descriptors();
        if more > spare {
            // All shrink alike.
            let part = |most: usize, least: usize| least + (most - least) * spare / more;
            much.clients = part(much.clients, least.clients);
            much.others = part(much.others, least.others);
            much.unauthenticated = part(much.unauthenticated, least.unauthenticated);
        }
        much
    }

    fn fixed(targets: usize) -> usize {
        let rings = over_io_uring::descriptors().saturating_sub(OF_RINGS);
        OTHERS + OF_PEERS + rings + targets * OF_A_TARGET + (targets + 1) * OTHER_FILES_MAX
    }

    /// What a store of so many targets needs at least.
    pub fn needed(targets: usize) -> usize {
        let least = OpenFileLimits::MIN;
        DescriptorBudget::fixed(targets) + (targets + 1) * least.index + targets * least.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_is_more_than_the_limit() {
        for targets in [1, 2, 4, 8, 64] {
            for limit in (64..10_000).step_by(64).chain([65_536, usize::MAX]) {
                let Some(share) = DescriptorBudget::of(limit, targets) else {
                    assert!(limit < DescriptorBudget::needed(targets));
                    continue;
                };
                let used = DescriptorBudget::fixed(targets)
                    + (share.capacity.descriptors() - CAPACITY_LEAST.descriptors())
                    + share.metadata
                    + targets * (share.target.index + share.target.objects);
                assert!(used <= limit, "{limit} for {targets}: {share:?}");
            }
        }
    }

    #[test]
    fn the_usual_limits_are_enough() {
        let usual = DescriptorBudget::of(1_024, 4).unwrap();
        assert!(usual.target.objects >= 100, "{usual:?}");
        let raised = DescriptorBudget::of(65_536, 8).unwrap();
        assert_eq!(raised.target, OpenFileLimits::MAX);
        assert_eq!(DescriptorBudget::of(1_024, 16), None);
    }
}
