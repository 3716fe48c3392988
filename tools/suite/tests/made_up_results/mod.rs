//! Results of a plan that was not run, for tests of reports.

use std::collections::BTreeMap;
use std::path::Path;

use gupfs_suite::figure::Figure;
use gupfs_suite::plan::Plan;
use gupfs_suite::results::{
    Cache, Ceiling, Direction, FinishedRun, Header, Layer, Line, Machine, TargetMount,
};

const PLAN: &str = r#"
name = "made up"
currency = "EUR"
repeat = 5
[[target]]
name = "local"
dir = "/srv/local"
price = 900
[[target]]
name = "gupfs"
dir = "/srv/gupfs"
price = 12000
[[target]]
name = "another file system with a long name"
dir = "/srv/other"
[[workload]]
name = "shared file"
about = "All processes in one file, each in a region of its own."
program = "mptio"
args = "--np {np} -b {record} -d {dir}"
sweep = { np = [1, 2, 4, 8], record = ["32K", "64K", "256K", "1M"] }
published = ["gupfs-table-b1", "gupfs-table-b2"]
[[workload]]
name = "file for each"
program = "mptio"
args = "--np {np} -d {dir}"
sweep = { np = [1, 2, 4, 8] }
published = ["storage-tests-2005", "osc-sam-fs"]
[[workload]]
name = "metadata"
program = "metabench"
args = "--np {np} -w {dir}"
sweep = { np = [1, 2, 3, 4, 6, 8] }
published = ["gupfs-table-1"]
[[workload]]
name = "apps"
program = "apps"
args = "-d {dir} -p {pattern}"
sweep = { pattern = ["checkpoint", "nwchem-eaf", "a pattern with a very long name indeed, longer than a picture is wide"] }
[[workload]]
name = "block sizes"
about = "The program varies blocks by itself."
program = "pioraw"
args = "--np {np} -b 1K,16K,1M -d {dir}"
sweep = { np = [1, 4] }
published = ["gupfs-table-b3"]
[[workload]]
name = "large files"
about = "Without variables."
program = "mptio"
args = "-d {dir}"
published = ["llnl-milestone"]
"#;

/// Results of a plan that was not run: figures grow with processes, and scatter by a few percent.
pub struct MadeUpResults {
    pub lines: String,
    rng: u64,
}

impl MadeUpResults {
    pub fn new() -> MadeUpResults {
        let plan = Plan::parse(PLAN, Path::new("plan")).unwrap();
        let place = |system: &str| TargetMount {
            file_system: system.into(),
            source: "/dev/sdb1".into(),
            version: Some("1.0".into()),
        };
        let places = plan.targets.iter().zip(["ext4", "fuse", "nfs4"]);
        let mut made = MadeUpResults {
            lines: String::new(),
            rng: 1,
        };
        made.add(Line::Plan(Box::new(Header {
            date: "2026-11-01T10:00:00Z".into(),
            version: "0.1.0".into(),
            machine: Machine {
                host: "node1".into(),
                kernel: "Linux 6.18.1-a-kernel-with-a-long-name".into(),
                processor: "A Processor With Many Words 64-Core".into(),
                cpus: 2,
                memory_mb: 16_384,
            },
            places: places
                .map(|(target, system)| (target.name.clone(), place(system)))
                .collect(),
            plan: plan.clone(),
        })));
        for (number, target) in plan.targets.iter().enumerate() {
            for workload in &plan.workloads {
                for setting in settings(&workload.sweep) {
                    for repetition in 1..=5 {
                        let figures = made.figures(&workload.name, &setting, number);
                        made.run(
                            (&workload.name, &target.name),
                            &setting,
                            repetition,
                            figures,
                        );
                    }
                }
            }
        }
        made
    }

    pub fn add(&mut self, line: Line) {
        self.lines += &line.show();
    }

    /// Between 0 and 1.
    pub fn chance(&mut self) -> f64 {
        self.rng = self
            .rng
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.rng >> 40) as f64 / (1u64 << 24) as f64
    }

    pub fn figures(
        &mut self,
        workload: &str,
        setting: &BTreeMap<String, String>,
        target: usize,
    ) -> Vec<Figure> {
        if workload == "block sizes" {
            let rates = [("1K", 40.0), ("16K", 90.0), ("1M", 110.0)];
            let figures = rates.map(|(block, rate)| {
                let speed = [1.0, 0.6, 0.58][target];
                let value = rate * speed * (1.0 + 0.1 * self.chance());
                Figure::rate("Write", "MB/s", value, []).at("block", block)
            });
            return figures.to_vec();
        }
        let np: usize = setting.get("np").map_or(2, |np| np.parse().unwrap());
        let record = match setting.get("record").map(String::as_str) {
            Some("32K") => 0.5,
            Some("64K") => 0.7,
            _ => 1.0,
        };
        let (names, unit, base): (&[&str], &str, f64) = match workload {
            "metadata" => (
                &["Create-A", "Create-B", "Create-C", "Stat-A"],
                "op/s",
                9_000.0,
            ),
            "apps" => (&["Write", "Read_1"], "MB/s", 300.0),
            _ => (&["Seq_Write", "Seq_Read"], "MB/s", 400.0),
        };
        let speed = [1.0, 0.6, 0.58][target] * record * base * (np as f64).powf(0.6);
        let each = |rng: f64, value: f64| -> Vec<f64> {
            (0..np)
                .map(|rank| value / np as f64 * (1.0 + 0.1 * rng * rank as f64))
                .collect()
        };
        names
            .iter()
            .enumerate()
            .map(|(number, name)| {
                let value = speed * (1.0 + 0.5 * number as f64) * (1.0 + 0.12 * self.chance());
                let rng = self.chance();
                Figure::rate(name, unit, value, each(rng, value))
            })
            .collect()
    }

    pub fn run(
        &mut self,
        (workload, target): (&str, &str),
        setting: &BTreeMap<String, String>,
        repetition: u32,
        figures: Vec<Figure>,
    ) {
        self.add(Line::Run(FinishedRun {
            workload: workload.into(),
            target: target.into(),
            setting: setting.clone(),
            repetition,
            program: "mptio".into(),
            program_version: "0.1.0".into(),
            command: "/usr/bin/mptio --np 4 -d /srv/bench_1/run_1 --json /tmp/x"
                .split(' ')
                .map(String::from)
                .collect(),
            date: "2026-11-01T10:00:00Z".into(),
            seconds: 12.0,
            cache: Cache::Dropped,
            touched_mb: 0,
            figures,
        }));
    }

    pub fn ceilings(mut self) -> MadeUpResults {
        for (target, disk, network) in [("local", 1_500.0, 5_000.0), ("gupfs", 1_500.0, 1_150.0)] {
            for (layer, rate) in [(Layer::Disk, disk), (Layer::Network, network)] {
                for way in [Direction::Write, Direction::Read] {
                    self.add(Line::Ceiling(Ceiling {
                        target: target.into(),
                        layer,
                        way,
                        rate,
                        date: "2026-11-01T09:00:00Z".into(),
                    }));
                }
            }
        }
        self
    }
}

fn settings(
    sweep: &BTreeMap<String, Vec<impl std::fmt::Display>>,
) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in sweep {
        let with = |setting: &BTreeMap<String, String>| -> Vec<_> {
            let add = |value: &_| {
                let mut setting = setting.clone();
                setting.insert(name.clone(), format!("{value}"));
                setting
            };
            values.iter().map(add).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}
