//! The jobs of a plan that are still to be run, beside the results that there are.

use crate::plan::{Job, Plan, jobs};
use crate::results::{FinishedRun, Results};

/// The jobs that are not yet in the results; a warm-up for each setting and target that has runs left.
pub fn remaining_jobs(plan: &Plan, results: &Results) -> Vec<Job> {
    let same = |job: &Job, run: &FinishedRun| {
        run.workload == plan.workloads[job.workload].name
            && run.target == plan.targets[job.target].name
            && run.setting == job.setting
    };
    let done = |job: &Job| {
        let mut runs = results.runs.iter();
        runs.any(|run| same(job, run) && run.repetition == job.repetition)
    };
    let all = jobs(plan);
    let open: Vec<&Job> = all
        .iter()
        .filter(|job| job.counts() && !done(job))
        .collect();
    let alike =
        |a: &Job, b: &Job| (a.workload, a.target, &a.setting) == (b.workload, b.target, &b.setting);
    let wanted = |job: &&Job| open.iter().any(|other| alike(job, other)) && !done(job);
    all.iter().filter(wanted).cloned().collect()
}
