//! Directories form a tree: the parents of each lead to the root, or to a removed directory.

use super::Problem;
use super::inode_summary::InodeSummaries;

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Unvisited,
    /// On the path from the directory at which the search began.
    OnPath,
    Done,
}

/// Visits each directory once, so the cost is one step per directory.
pub(super) fn find_loops(inodes: &InodeSummaries, problems: &mut Vec<Problem>) {
    let all: Vec<_> = inodes.iter().collect();
    let mut visits = vec![Visit::Unvisited; all.len()];
    let mut path = Vec::new();
    for start in 0..all.len() {
        let mut next = Some(start);
        while let Some(index) =
            next.filter(|index| visits[*index] == Visit::Unvisited && all[*index].salt.is_some())
        {
            visits[index] = Visit::OnPath;
            path.push(index);
            next = all[index]
                .parent
                .and_then(|parent| inodes.index(parent.dir));
        }
        if let Some(index) = next.filter(|index| visits[*index] == Visit::OnPath) {
            problems.push(Problem::Loop {
                dir: all[index].ino,
            });
        }
        for index in path.drain(..) {
            visits[index] = Visit::Done;
        }
    }
}
