//! Progress of a session, on standard error.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::plan::Job;

pub struct Progress {
    terminal: bool,
    total: usize,
    done: usize,
    /// Seconds of runs so far and how many they were, by workload; setting and target; those without either are of all.
    spent: BTreeMap<JobKind, (f64, u32)>,
    line: String,
    began: Instant,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum JobKind {
    Same(usize, String, usize),
    Workload(usize),
    Any,
}

fn kinds(job: &Job) -> [JobKind; 3] {
    let setting = crate::results::series::show(&job.setting);
    [
        JobKind::Same(job.workload, setting, job.target),
        JobKind::Workload(job.workload),
        JobKind::Any,
    ]
}

impl Progress {
    pub fn new(total: usize) -> Progress {
        Progress {
            terminal: std::io::stderr().is_terminal(),
            total,
            done: 0,
            spent: BTreeMap::new(),
            line: String::new(),
            began: Instant::now(),
        }
    }

    /// A run begins; `left` are all that are to come, with this one.
    pub fn begin(&mut self, text: &str, left: &[Job]) {
        self.began = Instant::now();
        let time = match self.left(left) {
            Some(seconds) => format!(", {} left", show(seconds)),
            None => String::new(),
        };
        self.line = format!("[{}/{}{time}] {text}", self.done + 1, self.total);
        match self.terminal {
            true => self.tick(),
            false => eprintln!("{}", self.line),
        }
    }

    /// Shows that time passes.
    pub fn tick(&self) {
        if self.terminal {
            let seconds = self.began.elapsed().as_secs();
            eprint!("\r\x1b[K{} ({seconds} s)", self.line);
            let _ = std::io::stderr().flush();
        }
    }

    pub fn end(&mut self, job: &Job, took: Duration) {
        self.done += 1;
        for kind in kinds(job) {
            let (seconds, runs) = self.spent.entry(kind).or_default();
            *seconds += took.as_secs_f64();
            *runs += 1;
        }
    }

    /// These will not be run.
    pub fn skip(&mut self, jobs: usize) {
        self.total -= jobs;
    }

    /// Says something between runs.
    pub fn say(&self, text: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{text}");
    }

    pub fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    /// As long as those before them of the same kind took. None before anything was run.
    fn left(&self, jobs: &[Job]) -> Option<f64> {
        let expect = |job: &Job| {
            let known = kinds(job)
                .into_iter()
                .find_map(|kind| self.spent.get(&kind));
            known.map(|(seconds, runs)| seconds / f64::from(*runs))
        };
        jobs.iter().map(expect).sum()
    }
}

fn show(seconds: f64) -> String {
    match seconds.round() as u64 {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5_400 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

#[test]
fn the_time_left_is_that_of_runs_like_those_to_come() {
    let job = |workload, target| Job {
        workload,
        target,
        setting: Default::default(),
        repetition: 1,
    };
    let mut progress = Progress::new(10);
    assert_eq!(progress.left(&[job(0, 0)]), None);
    progress.end(&job(0, 0), Duration::from_secs(2));
    progress.end(&job(0, 1), Duration::from_secs(6));
    assert_eq!(progress.left(&[job(0, 0), job(0, 1)]), Some(8.0));
    assert_eq!(progress.left(&[job(0, 2)]), Some(4.0));
    assert_eq!(progress.left(&[job(1, 0)]), Some(4.0));
    assert_eq!([5.0, 100.0, 7200.0].map(show), ["5 s", "2 min", "2.0 h"]);
}
