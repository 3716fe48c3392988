//! Directories form a tree: the parents of each lead to the root, or to a removed directory.

use super::Problem;
use super::inode_summary::InodeSummaries;

/// Visits each directory once, so the cost is one step per directory.
pub(super) fn find_loops(brieves: &InodeSummaries, problems: &mut Vec<Problem>) {
    #[derive(Clone, Copy, PartialEq)]
    enum WalkState {
        Unknown,
        Walking,
        Ends,
    }
    let all: Vec<_> = brieves.iter().collect();
    let mut ways = vec![WalkState::Unknown; all.len()];
    let mut path = Vec::new();
    for start in 0..all.len() {
        let mut at = Some(start);
        while let Some(index) =
            at.filter(|index| ways[*index] == WalkState::Unknown && all[*index].salt.is_some())
        {
            ways[index] = WalkState::Walking;
            path.push(index);
            at = all[index]
                .parent
                .and_then(|parent| brieves.index(parent.dir));
        }
        if let Some(index) = at.filter(|index| ways[*index] == WalkState::Walking) {
            problems.push(Problem::Loop {
                dir: all[index].ino,
            });
        }
        for index in path.drain(..) {
            ways[index] = WalkState::Ends;
        }
    }
}
