//! What job numbers stand for, as clients have said.

use gupfs_proto::jobs::JOB_ROWS_MAX;
use gupfs_proto::{JobId, JobLabel};
use std::collections::{BTreeMap, BTreeSet};

/// Twice as many as a table has rows: a name arrives before the first call of its job is counted.
const LABELS_MAX: usize = 2 * JOB_ROWS_MAX;

#[derive(Default)]
pub struct LabelTable {
    labels: BTreeMap<JobId, (JobLabel, u64)>,
    /// Rises with each label.
    clock: u64,
}

impl LabelTable {
    /// `counted`: the jobs that have rows. The others are forgotten first, then those that were named first.
    pub fn add(&mut self, label: JobLabel, counted: impl Fn() -> BTreeSet<JobId>) {
        self.clock += 1;
        self.labels.insert(label.id(), (label, self.clock));
        if self.labels.len() <= LABELS_MAX {
            return;
        }
        let counted = counted();
        (self.labels).retain(|job, (_, named)| *named == self.clock || counted.contains(job));
        if self.labels.len() > LABELS_MAX {
            let mut ages: Vec<u64> = self.labels.values().map(|(_, named)| *named).collect();
            ages.sort_unstable();
            let oldest_kept = ages[ages.len() / 2];
            self.labels.retain(|_, (_, named)| *named >= oldest_kept);
        }
    }

    pub fn get(&self, job: JobId) -> Option<&JobLabel> {
        self.labels.get(&job).map(|(label, _)| label)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.labels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::JobName;

    fn label(name: usize) -> JobLabel {
        let name = JobName::from_bytes(format!("job {name}").as_bytes());
        JobLabel { uid: 7, name }
    }

    #[test]
    fn a_million_names_leave_those_of_counted_jobs() {
        let mut labels = LabelTable::default();
        let kept = label(3).id();
        for name in 0..1_000_000 {
            labels.add(label(name), || BTreeSet::from([kept]));
        }
        assert!(labels.len() <= LABELS_MAX);
        assert_eq!(labels.get(kept), Some(&label(3)));
        assert_eq!(labels.get(label(999_999).id()), Some(&label(999_999)));
        assert_eq!(labels.get(label(5).id()), None);
    }

    #[test]
    fn names_of_counted_jobs_are_bounded_too() {
        let mut labels = LabelTable::default();
        for name in 0..3 * LABELS_MAX {
            labels.add(label(name), || {
                (0..name).map(|name| label(name).id()).collect()
            });
        }
        assert!(labels.len() <= LABELS_MAX);
    }
}
