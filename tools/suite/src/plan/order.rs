//! The order of a plan's runs.

use std::collections::BTreeMap;

use super::file::{Plan, PlannedWorkload};

/// Values of the variables that a plan sweeps, and of those that a program itself does, by name.
pub type SweepValues = BTreeMap<String, String>;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub workload: usize,
    pub target: usize,
    pub setting: SweepValues,
    /// 0 does not count.
    pub repetition: u32,
}

impl Job {
    pub fn counts(&self) -> bool {
        self.repetition > 0
    }
}

/// Setting by setting, and in each all targets in turn, A B A B: what changes on a machine over hours then changes for all.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (workload, asked) in plan.workloads.iter().enumerate() {
        let warm_up = (0..plan.warm_up).map(|_| 0);
        let repetitions = warm_up.chain(1..=asked.repeat.unwrap_or(plan.repeat));
        for setting in settings(asked) {
            for repetition in repetitions.clone() {
                jobs.extend((0..plan.targets.len()).map(|target| Job {
                    workload,
                    target,
                    setting: setting.clone(),
                    repetition,
                }));
            }
        }
    }
    jobs
}

/// Every value of each variable with every value of the others.
fn settings(workload: &PlannedWorkload) -> Vec<SweepValues> {
    let mut all = vec![SweepValues::new()];
    for (name, values) in &workload.sweep {
        let with = |setting: &SweepValues, value: String| {
            let mut setting = setting.clone();
            setting.insert(name.clone(), value);
            setting
        };
        all = all
            .iter()
            .flat_map(|setting| {
                values
                    .iter()
                    .map(move |value| with(setting, value.to_string()))
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_alternate_within_each_setting() {
        let text = "name = 'p'\nrepeat = 2\n\
                    target = [{ name = 'A', dir = '/' }, { name = 'B', dir = '/' }]\n\
                    [[workload]]\nname = 'w'\nprogram = 'x'\nargs = '{b} {a}'\nsweep = { b = [1, 2], a = ['x'] }\n";
        let plan = Plan::parse(text, std::path::Path::new("p")).unwrap();
        let shown: Vec<String> = jobs(&plan)
            .iter()
            .map(|job| {
                let target = &plan.targets[job.target].name;
                format!(
                    "{}{}{}{}",
                    job.setting["a"], job.setting["b"], target, job.repetition
                )
            })
            .collect();
        let expected = "x1A0 x1B0 x1A1 x1B1 x1A2 x1B2 x2A0 x2B0 x2A1 x2B1 x2A2 x2B2";
        assert_eq!(shown.join(" "), expected);
    }
}
