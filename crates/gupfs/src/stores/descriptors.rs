//! The descriptor budget: how the file descriptors of a process are divided among its stores and connections.

use crate::cluster::{CAPACITY_MIN, capacity, open_files};
use crate::exit::{CliError, CliResult};
use crate::{control, metrics};
use gupfs_fuse::over_io_uring;
use gupfs_rpc::Capacity;
use gupfs_store::index::{OPEN_TABLES_MAX, OPEN_TABLES_MIN, OTHER_FILES_MAX};
use gupfs_store::object::OpenFileLimits;

/// Other descriptors: FUSE, connections to other servers, log segments and locks, and what running calls open for a short time. The
/// rings of up to sixteen CPUs are part of it.
const OTHERS: usize = 64;
const RINGS: usize = 32;
const _: () = assert!(RINGS <= OTHERS / 2);

/// Descriptors for accepted connections. They are set aside, so that hosts of the network cannot use up those that the stores need.
const PEERS: usize =
    CAPACITY_MIN.descriptors() + 2 * metrics::CONNECTIONS + control::CONNECTIONS_MAX;

/// Log segments, superblock and lock of one target.
const PER_TARGET: usize = 16;

/// How many descriptors each part of a process may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorBudget {
    /// Open tables of the metadata index.
    pub metadata: usize,
    pub target: OpenFileLimits,
    /// Connections to this process.
    pub capacity: Capacity,
}

impl DescriptorBudget {
    /// Divides the limit of this process for a store of so many targets.
    ///
    /// # Errors
    /// If the limit is too low for so many targets; names the number that is needed.
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
        let free = free - (capacity.descriptors() - CAPACITY_MIN.descriptors());
        // Objects get more than tables: there are more of them, and one open table serves many records.
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

    /// Order of precedence: the minimum for files, the minimum for connections, more connections, more files.
    fn capacity(limit: usize, targets: usize) -> Capacity {
        let spare = limit - DescriptorBudget::needed(targets);
        let (min, mut wanted) = (CAPACITY_MIN, capacity(limit));
        let more = wanted.descriptors() - min.descriptors();
        if more > spare {
            // All kinds are reduced in proportion.
            let part = |max: usize, min: usize| min + (max - min) * spare / more;
            wanted.clients = part(wanted.clients, min.clients);
            wanted.others = part(wanted.others, min.others);
            wanted.unauthenticated = part(wanted.unauthenticated, min.unauthenticated);
        }
        wanted
    }

    fn fixed(targets: usize) -> usize {
        let rings = over_io_uring::descriptors().saturating_sub(RINGS);
        OTHERS + PEERS + rings + targets * PER_TARGET + (targets + 1) * OTHER_FILES_MAX
    }

    /// The lowest limit with which a process can serve a store of so many targets.
    pub fn needed(targets: usize) -> usize {
        let min = OpenFileLimits::MIN;
        DescriptorBudget::fixed(targets) + (targets + 1) * min.index + targets * min.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_never_exceeds_the_limit() {
        for targets in [1, 2, 4, 8, 64] {
            for limit in (64..10_000).step_by(64).chain([65_536, usize::MAX]) {
                let Some(budget) = DescriptorBudget::of(limit, targets) else {
                    assert!(limit < DescriptorBudget::needed(targets));
                    continue;
                };
                let used = DescriptorBudget::fixed(targets)
                    + (budget.capacity.descriptors() - CAPACITY_MIN.descriptors())
                    + budget.metadata
                    + targets * (budget.target.index + budget.target.objects);
                assert!(used <= limit, "{limit} for {targets}: {budget:?}");
            }
        }
    }

    #[test]
    fn the_usual_limits_suffice() {
        let usual = DescriptorBudget::of(1_024, 4).unwrap();
        assert!(usual.target.objects >= 100, "{usual:?}");
        let raised = DescriptorBudget::of(65_536, 8).unwrap();
        assert_eq!(raised.target, OpenFileLimits::MAX);
        assert_eq!(DescriptorBudget::of(1_024, 16), None);
    }
}
