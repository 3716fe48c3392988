//! Descriptors: how the files that a process may have open are shared among its stores.

use crate::cluster::{LEAST_CLIENTS, most_clients, open_files};
use crate::exit::{Outcome, Trouble};
use gupfs_door::over_io_uring;
use gupfs_store::index::{FILES_BESIDE, FILES_LEAST, FILES_MOST};
use gupfs_store::object::OpenFiles;

/// What is open besides: FUSE, the connections of a few clients, log segments and locks; and what calls under way open for a
/// moment. The rings of sixteen CPUs are part of it.
const OTHERS: usize = 128;
const _: () = assert!(LEAST_CLIENTS <= OTHERS / 2);
const OF_RINGS: usize = 32;

/// Log segments, superblock and lock of one target.
const OF_A_TARGET: usize = 16;

/// Who keeps how many files open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Tables of the metadata's index.
    pub metadata: usize,
    pub target: OpenFiles,
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
        let free = free - Share::more_clients(limit, targets);
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
        })
    }

    /// Descriptors for connections beside the few in `OTHERS`: before more than the least for files. Where even those are few,
    /// not all clients that are let in can connect.
    fn more_clients(limit: usize, targets: usize) -> usize {
        let spare = limit - Share::needed(targets);
        (most_clients(limit) - LEAST_CLIENTS).min(spare)
    }

    fn fixed(targets: usize) -> usize {
        let rings = over_io_uring::descriptors().saturating_sub(OF_RINGS);
        OTHERS + rings + targets * OF_A_TARGET + (targets + 1) * FILES_BESIDE
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
                    + Share::more_clients(limit, targets)
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
