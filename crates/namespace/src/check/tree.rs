//! Directories form a tree: from each the way up ends at the root, or at a removed directory.

use super::Problem;
use super::brief::Brieves;

/// Each directory is walked over once, so the cost is one step a directory.
pub(super) fn find_loops(brieves: &Brieves, problems: &mut Vec<Problem>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Way {
        Unknown,
        Walking,
        Ends,
    }
    let all: Vec<_> = brieves.iter().collect();
    let mut ways = vec![Way::Unknown; all.len()];
    let mut path = Vec::new();
    for start in 0..all.len() {
        let mut at = Some(start);
        while let Some(index) =
            at.filter(|index| ways[*index] == Way::Unknown && all[*index].salt.is_some())
        {
            ways[index] = Way::Walking;
            path.push(index);
            at = all[index]
                .parent
                .and_then(|parent| brieves.index(parent.dir));
        }
        if let Some(index) = at.filter(|index| ways[*index] == Way::Walking) {
            problems.push(Problem::Loop {
                dir: all[index].ino,
            });
        }
        for index in path.drain(..) {
            ways[index] = Way::Ends;
        }
    }
}
