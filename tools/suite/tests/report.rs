//! `bench report` as a person starts it, and its page in a browser.

// The browser's end is waited for.
#![allow(clippy::disallowed_methods)]

mod browser;
mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use browser::Browser;
use gupfs_suite::figure::Figure;
use gupfs_suite::plan::Plan;
use gupfs_suite::results::{
    Cache, Ceiling, Direction, FinishedRun, Header, Layer, Line, Machine, TargetMount,
};
use program::{Done, Program};
use tempfile::TempDir;

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

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

/// Results of a plan that nobody ran: figures grow with processes, and scatter by a few percent.
struct Made {
    lines: String,
    rng: u64,
}

impl Made {
    fn new() -> Made {
        let plan = Plan::parse(PLAN, Path::new("plan")).unwrap();
        let place = |system: &str| TargetMount {
            file_system: system.into(),
            source: "/dev/sdb1".into(),
            version: Some("1.0".into()),
        };
        let places = plan.targets.iter().zip(["ext4", "fuse", "nfs4"]);
        let mut made = Made {
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

    fn add(&mut self, line: Line) {
        self.lines += &line.show();
    }

    /// Between 0 and 1.
    fn chance(&mut self) -> f64 {
        self.rng = self
            .rng
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.rng >> 40) as f64 / (1u64 << 24) as f64
    }

    fn figures(
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

    fn run(
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

    fn ceilings(mut self) -> Made {
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

struct Desk(TempDir);

impl Desk {
    fn new(results: &str) -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        std::fs::write(desk.path("results.jsonl"), results).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn report(&self, flags: &str) -> Done {
        let flags = flags.replace("DESK", self.0.path().to_str().unwrap());
        Program::new(
            SUITE,
            &format!("report {}/results.jsonl {flags}", self.0.path().display()),
        )
        .run()
    }

    fn page(&self) -> String {
        std::fs::read_to_string(self.path("results.html")).unwrap()
    }
}

/// What is wrong with the page as it is drawn, beside numbers of what is in it.
const LOOK: &str = r#"(() => {
    const wide = document.documentElement;
    const found = { width: innerWidth, needed: wide.scrollWidth, figures: 0, tables: 0, scripts: document.scripts.length, wrong: [] };
    for (const figure of document.querySelectorAll("figure")) {
        found.figures += 1;
        found.tables += figure.querySelectorAll("table tbody tr").length > 0 && figure.querySelector("svg[aria-label]") ? 1 : 0;
    }
    for (const svg of document.querySelectorAll("svg")) {
        const frame = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")].map(text => ({ said: text.textContent, at: text.getBoundingClientRect() }));
        if (frame.width < 300 && innerWidth > 355 && !matchMedia("print").matches) found.wrong.push(`narrow: ${svg.getAttribute("aria-label")}`);
        texts.forEach(({ said, at }, number) => {
            if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 2 || at.bottom > frame.bottom + 2)
                found.wrong.push(`outside: ${said} in ${svg.getAttribute("aria-label")}`);
            for (const other of texts.slice(number + 1)) {
                const across = Math.min(at.right, other.at.right) - Math.max(at.left, other.at.left);
                const down = Math.min(at.bottom, other.at.bottom) - Math.max(at.top, other.at.top);
                // Boxes of text have room above and below their letters.
                if (across > 1 && down > 5) found.wrong.push(`over each other: ${said} and ${other.said} in ${svg.getAttribute("aria-label")}`);
            }
        });
    }
    if (matchMedia("print").matches)
        for (const table of document.querySelectorAll(".wide"))
            if (table.scrollWidth > table.clientWidth + 1) found.wrong.push(`cut off: ${table.textContent.slice(0, 60)}`);
    return found;
})()"#;

#[test]
fn a_page_is_right_on_a_phone_a_desk_and_paper() {
    let desk = Desk::new(&Made::new().ceilings().lines);
    assert_eq!(desk.report("").code, Some(0));
    let Some(chromium) = browser::chromium() else {
        gupfs_skips::skip(
            gupfs_skips::Need::Browser,
            "Chromium is not installed and could not be installed",
        );
        return;
    };
    let mut browser = Browser::start(chromium);
    for (width, media) in [(360, "screen"), (1280, "screen"), (688, "print")] {
        browser.open(&desk.path("results.html"), width, media);
        let found = browser.evaluate(LOOK);
        if let Some(dir) = std::env::var_os("REPORT_PICTURES") {
            let path = Path::new(&dir).join(format!("{media}-{width}.png.base64"));
            std::fs::write(path, browser.picture()).unwrap();
        }
        let at = format!("{media} of {width}: {found:#}");
        assert_eq!(found["wrong"].as_array().unwrap().len(), 0, "{at}");
        assert_eq!(found["width"], width, "{at}");
        assert!(
            found["needed"].as_u64().unwrap() <= u64::from(width),
            "{at}"
        );
        assert_eq!(found["figures"], found["tables"], "{at}");
        assert!(found["figures"].as_u64().unwrap() > 20, "{at}");
        assert_eq!(found["scripts"], 0, "{at}");
    }
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[test]
fn the_page_says_who_is_better_and_what_is_noise() {
    let desk = Desk::new(&Made::new().ceilings().lines);
    let done = desk.report("--plots DESK/pictures");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let page = desk.page();
    for said in [
        "<strong>gupfs is 60\u{a0}% as fast as local</strong>",
        "within the noise",
        "a cache effect",
        "less than required",
        "GFS 5.1 (published)",
        "Jain's index",
        // Over what a program varies, with what was published of as many processes.
        "block sizes: Write at np=1, MB/s",
        "gfs (tcp-hi) (published)",
        "EUR per MB/s",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let elsewhere =
        page.matches("://").count() - page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(elsewhere, 0, "it is self-contained");
    let pictures: Vec<PathBuf> = std::fs::read_dir(desk.path("pictures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let of = |ext: &str| {
        pictures
            .iter()
            .filter(|path| path.extension().unwrap() == ext)
            .count()
    };
    assert_eq!(of("svg"), page.matches("<figure").count());
    assert!(of("png") == of("svg") || done.out.contains("PNG needs a font"));
}

#[test]
fn a_part_is_not_shown_as_the_whole() {
    let all = Made::new().lines;
    let half: Vec<&str> = all.lines().take(100).collect();
    let desk = Desk::new(&(half.join("\n") + "\n"));
    assert_eq!(desk.report("").code, Some(0));
    assert!(desk.page().contains("This is not the whole: "));
}

#[test]
fn a_target_may_stand_for_the_hardware() {
    let desk = Desk::new(&Made::new().lines);
    assert_eq!(desk.report("--ceiling local").code, Some(0));
    assert!(
        desk.page()
            .contains("The ceiling is local in the same setting.")
    );
    let done = desk.report("--ceiling nobody");
    assert_eq!(done.code, Some(2));
    assert!(
        done.err
            .contains("--ceiling nobody: the targets in these results are local, gupfs"),
        "{}",
        done.err
    );
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let header: String = Made::new()
        .lines
        .lines()
        .take(1)
        .map(|line| format!("{line}\n"))
        .collect();
    for (results, said) in [
        ("", "there is nothing to show"),
        (header.as_str(), "there is nothing to show"),
        ("{\"name\": \"something else\"}\n", "line 1 is not a result"),
        ("no JSON\n", "line 1 is not a result"),
    ] {
        let desk = Desk::new(results);
        let done = desk.report("");
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(done.err.contains(said), "{}", done.err);
        assert!(!desk.path("results.html").exists());
    }
    let desk = Desk::new(&Made::new().lines);
    std::fs::write(desk.path("picture"), [0xff, 0xd8, 0xff]).unwrap();
    for (flags, code, said) in [
        ("DESK/missing.jsonl", 2, "missing.jsonl: No such file"),
        ("DESK/picture", 2, "cannot read the results in"),
        ("--out DESK/no/such/dir.html", 1, "cannot write the page"),
        ("--out DESK/results.jsonl", 2, "is a result file"),
        ("--plots DESK/picture", 1, "cannot make the directory"),
    ] {
        let done = desk.report(flags);
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(said), "{flags}: {}", done.err);
    }
}
