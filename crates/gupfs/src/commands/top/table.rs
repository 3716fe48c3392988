//! The counts of jobs, summed up by what a line is about. Pure, apart from the names of users.

use super::GroupBy;
use super::users::UserNames;
use crate::amount::{show_count, show_size};
use gupfs_proto::jobs::{CallClass, CountedUse, JobCounts, JobUse, JobUseRow};
use gupfs_proto::{JobId, OstId, SessionId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Under this session the metadata server itself sends requests to object servers, for removals and truncates among others.
const SERVER_SESSION: SessionId = SessionId(0);
const SERVER: &str = "(metadata server)";

/// Names of hosts in one line.
const HOSTS_SHOWN: usize = 3;

pub struct LoadTable {
    by: GroupBy,
    /// Seconds of which the rates are.
    seconds: f64,
    /// The busiest first.
    pub lines: Vec<LoadLine>,
}

pub struct LoadLine {
    pub name: String,
    /// The user, with jobs.
    pub user: Option<(u32, String)>,
    pub hosts: BTreeSet<String>,
    pub recent: JobCounts,
    pub total: JobCounts,
}

/// The sort of lines: what they are told apart by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum LineKey {
    Job(Option<u32>, String),
    Name(String),
    Ost(OstId),
    Op(CallClass),
}

impl LoadTable {
    /// With the counts of a moment before, rates are of the time between; without, of the server's last seconds.
    pub fn new(
        now: &JobUse,
        before: Option<&JobUse>,
        by: GroupBy,
        users: &mut UserNames,
    ) -> LoadTable {
        // After a restart or a take-over the server's clock is another one.
        let before = before.filter(|before| before.since == now.since && before.now < now.now);
        let millis = before.map_or(now.window, |before| now.now - before.now);
        let former: BTreeMap<_, _> = (before.iter().flat_map(|use_| &use_.rows))
            .map(|row| (row.key, row.counted.total))
            .collect();
        let mut lines = BTreeMap::new();
        let mut add = |key: LineKey, line: LoadLine| match lines.get_mut(&key) {
            None => drop(lines.insert(key, line)),
            Some(sum) => LoadLine::merge(sum, line),
        };
        for row in &now.rows {
            let mut counted = row.counted;
            if before.is_some() {
                let earlier = former.get(&row.key).copied().unwrap_or_default();
                counted.recent = counted.total.since(&earlier);
            }
            for (key, line) in lines_of(row, counted, by, users) {
                add(key, line);
            }
        }
        let mut others = now.others;
        if let Some(before) = before {
            others.recent = others.total.since(&before.others.total);
        }
        match by {
            GroupBy::Ost => {
                let former: BTreeMap<_, _> = (before.iter().flat_map(|use_| &use_.targets))
                    .map(|(ost, counted)| (*ost, counted.total))
                    .collect();
                for (ost, counted) in &now.targets {
                    let mut counted = *counted;
                    if before.is_some() {
                        let earlier = former.get(ost).copied().unwrap_or_default();
                        counted.recent = counted.total.since(&earlier);
                    }
                    add(
                        LineKey::Ost(*ost),
                        LoadLine::new(format!("ost{ost}"), counted),
                    );
                }
            }
            GroupBy::Op => classes(others).for_each(|(class, counted)| {
                add(
                    LineKey::Op(class),
                    LoadLine::new(class.name().into(), counted),
                );
            }),
            _ if others.total != JobCounts::default() => {
                add(
                    LineKey::Name("(others)".into()),
                    LoadLine::new("(others)".into(), others),
                );
            }
            _ => {}
        }
        let mut lines: Vec<LoadLine> = lines.into_values().collect();
        let load = |line: &LoadLine| {
            let recent = (line.recent.nanos, line.recent.all_calls());
            (recent, line.total.nanos)
        };
        lines.sort_by_key(|line| std::cmp::Reverse(load(line)));
        LoadTable {
            by,
            seconds: (millis as f64 / 1000.0).max(0.001),
            lines,
        }
    }

    pub fn headings(&self) -> [&'static str; 8] {
        let name = match self.by {
            GroupBy::Job => "JOB",
            GroupBy::User => "USER",
            GroupBy::Host => "HOST",
            GroupBy::Ost => "OST",
            GroupBy::Op => "CALLS",
        };
        [
            name,
            "USER",
            "CALLS/s",
            "READ/s",
            "WRITTEN/s",
            "WAITING",
            "MOST",
            "HOSTS",
        ]
    }

    pub fn cells(&self, line: &LoadLine) -> [String; 8] {
        let recent = &line.recent;
        let rate = |count: u64| count as f64 / self.seconds;
        let mut hosts: Vec<&str> = line.hosts.iter().map(String::as_str).collect();
        let more = hosts.len().saturating_sub(HOSTS_SHOWN);
        hosts.truncate(HOSTS_SHOWN);
        let mut hosts = hosts.join(" ");
        if more > 0 {
            let _ = write!(hosts, " and {more} more");
        }
        [
            line.name.clone(),
            line.user
                .as_ref()
                .map_or_else(String::new, |(_, name)| name.clone()),
            show_count(rate(recent.all_calls()).round() as u64),
            show_size(rate(recent.bytes_read) as u64),
            show_size(rate(recent.bytes_written) as u64),
            // Calls that were with a server at the same time, on average.
            format!("{:.2}", rate(recent.nanos) / 1e9),
            most(recent),
            hosts,
        ]
    }

    pub fn text(&self) -> String {
        let rows: Vec<[String; 8]> = self.lines.iter().map(|line| self.cells(line)).collect();
        let headings = self.headings().map(str::to_owned);
        let width = |at: usize| {
            let cells = rows
                .iter()
                .chain([&headings])
                .map(|row| row[at].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut text = String::new();
        for row in [&headings].into_iter().chain(&rows) {
            let cells = row.iter().zip(widths).enumerate();
            let cells = cells.filter(|(_, (_, width))| *width > 0);
            let line: Vec<String> = cells
                .map(|(at, (cell, width))| match (2..6).contains(&at) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                })
                .collect();
            text.push_str(line.join("  ").trim_end());
            text.push('\n');
        }
        if rows.is_empty() {
            text.push_str("No server has done anything for a job yet.\n");
        }
        text
    }

    pub fn json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            let rate = |count: u64| count as f64 / self.seconds;
            let mut object = Map::new();
            object.insert(self.by.name().into(), json!(line.name));
            if let Some((uid, user)) = &line.user {
                object.insert("uid".into(), json!(uid));
                object.insert("user".into(), json!(user));
            }
            object.insert("hosts".into(), json!(line.hosts));
            let recent = &line.recent;
            object.insert("calls_per_second".into(), json!(rate(recent.all_calls())));
            object.insert(
                "read_bytes_per_second".into(),
                json!(rate(recent.bytes_read)),
            );
            object.insert(
                "written_bytes_per_second".into(),
                json!(rate(recent.bytes_written)),
            );
            object.insert("seconds_per_second".into(), json!(rate(recent.nanos) / 1e9));
            let total = &line.total;
            let calls = CallClass::ALL.map(|class| (class, total.calls_of(class)));
            let calls = calls.into_iter().filter(|(_, calls)| *calls > 0);
            let calls: Map<String, Value> = calls
                .map(|(class, calls)| (class.name().into(), json!(calls)))
                .collect();
            let total = json!({
                "calls": calls,
                "errors": total.errors,
                "read_bytes": total.bytes_read,
                "written_bytes": total.bytes_written,
                "seconds": total.nanos as f64 / 1e9,
            });
            object.insert("total".into(), total);
            Value::Object(object)
        });
        json!({
            "by": self.by.name(),
            "seconds": self.seconds,
            "lines": lines.collect::<Vec<_>>(),
        })
    }
}

impl LoadLine {
    fn new(name: String, counted: CountedUse) -> LoadLine {
        LoadLine {
            name,
            user: None,
            hosts: BTreeSet::new(),
            recent: counted.recent,
            total: counted.total,
        }
    }

    fn merge(&mut self, mut other: LoadLine) {
        self.hosts.append(&mut other.hosts);
        self.recent += other.recent;
        self.total += other.total;
    }
}

/// The lines to which a row adds its counts.
fn lines_of(
    row: &JobUseRow,
    counted: CountedUse,
    by: GroupBy,
    users: &mut UserNames,
) -> Vec<(LineKey, LoadLine)> {
    let host = match row.client.split_once(':') {
        Some((host, _)) => host.to_owned(),
        None if row.key.session == SERVER_SESSION => SERVER.to_owned(),
        None => format!("(session {})", row.key.session),
    };
    let uid = row.label.as_ref().map(|label| label.uid);
    let user = uid.map(|uid| (uid, users.name(uid)));
    let (key, name) = match by {
        GroupBy::Job => {
            let name = match &row.label {
                Some(label) => label.name.to_string(),
                None if row.key.session == SERVER_SESSION => SERVER.to_owned(),
                None if row.key.job == JobId::UNKNOWN => "(no job)".to_owned(),
                None => format!("(job {:x})", row.key.job.0),
            };
            (LineKey::Job(uid, name.clone()), name)
        }
        GroupBy::User => {
            let name = user
                .as_ref()
                .map_or("(unknown)".to_owned(), |(_, name)| name.clone());
            (LineKey::Name(name.clone()), name)
        }
        GroupBy::Host => (LineKey::Name(host.clone()), host.clone()),
        // It does not say on which of them the bytes lie.
        GroupBy::Ost => return Vec::new(),
        GroupBy::Op => {
            let lines = classes(counted).map(|(class, counted)| {
                let mut line = LoadLine::new(class.name().to_owned(), counted);
                line.hosts.insert(host.clone());
                (LineKey::Op(class), line)
            });
            return lines.collect();
        }
    };
    let mut line = LoadLine::new(name, counted);
    line.user = user.filter(|_| by == GroupBy::Job);
    if by != GroupBy::Host {
        line.hosts.insert(host);
    }
    vec![(key, line)]
}

/// The calls of each class, without what is not counted for each class.
fn classes(counted: CountedUse) -> impl Iterator<Item = (CallClass, CountedUse)> {
    let only = |counts: JobCounts, class: CallClass| {
        let mut of_class = JobCounts::default();
        of_class.calls[class as usize] = counts.calls_of(class);
        match class {
            CallClass::Read => of_class.bytes_read = counts.bytes_read,
            CallClass::Write => of_class.bytes_written = counts.bytes_written,
            _ => {}
        }
        of_class
    };
    let used = CallClass::ALL
        .into_iter()
        .filter(move |class| counted.total.calls_of(*class) > 0);
    used.map(move |class| {
        let (recent, total) = (only(counted.recent, class), only(counted.total, class));
        (class, CountedUse { total, recent })
    })
}

/// The kinds of calls that are a tenth of all or more: "stat 80 %, open 15 %".
fn most(counts: &JobCounts) -> String {
    let all = counts.all_calls();
    let mut classes: Vec<(u64, CallClass)> = CallClass::ALL
        .map(|class| (counts.calls_of(class), class))
        .into();
    classes.retain(|(calls, _)| *calls > 0 && *calls >= all / 10);
    classes.sort_by_key(|(calls, _)| std::cmp::Reverse(*calls));
    let shown = classes.iter().take(3);
    let shown: Vec<String> = shown
        .map(|(calls, class)| format!("{} {} %", class.name(), calls * 100 / all))
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use gupfs_proto::jobs::JobKey;
    use gupfs_proto::{JobLabel, JobName};

    fn counts(reads: u64, writes: u64, bytes: u64) -> JobCounts {
        let mut counts = JobCounts {
            bytes_read: bytes * u64::from(reads > 0),
            bytes_written: bytes * u64::from(writes > 0),
            nanos: 500_000_000 * (reads + writes),
            ..JobCounts::default()
        };
        counts.calls[CallClass::Read as usize] = reads;
        counts.calls[CallClass::Write as usize] = writes;
        counts
    }

    fn row(session: u64, client: &str, job: Option<(u32, &str)>, total: JobCounts) -> JobUseRow {
        let label = job.map(|(uid, name)| JobLabel {
            uid,
            name: JobName::from_bytes(name.as_bytes()),
        });
        JobUseRow {
            key: JobKey {
                session: SessionId(session),
                job: label.as_ref().map_or(JobId(0), JobLabel::id),
            },
            client: client.into(),
            label,
            counted: CountedUse {
                total,
                recent: total,
            },
        }
    }

    fn example() -> JobUse {
        JobUse {
            now: 20_000,
            since: 0,
            window: 5_000,
            rows: vec![
                row(
                    1,
                    "node1:/mnt",
                    Some((4_000_000_001, "slurm:7")),
                    counts(10, 0, 5 << 20),
                ),
                row(
                    2,
                    "node2:/mnt",
                    Some((4_000_000_001, "slurm:7")),
                    counts(20, 0, 10 << 20),
                ),
                row(
                    2,
                    "node2:/mnt",
                    Some((4_000_000_002, "tar")),
                    counts(0, 5, 1 << 20),
                ),
                row(3, "", None, counts(1, 0, 10)),
                row(
                    0,
                    "",
                    None,
                    JobCounts {
                        nanos: 1,
                        ..counts(0, 0, 0)
                    },
                ),
            ],
            next: None,
            others: CountedUse::default(),
            targets: vec![(
                OstId(4),
                CountedUse {
                    total: counts(31, 5, 16 << 20),
                    recent: counts(31, 5, 16 << 20),
                },
            )],
        }
    }

    #[test]
    fn a_job_on_two_hosts_is_one_line() {
        let table = LoadTable::new(&example(), None, GroupBy::Job, &mut UserNames::default());
        expect![[r#"
            JOB                USER        CALLS/s    READ/s  WRITTEN/s  WAITING  MOST         HOSTS
            slurm:7            4000000001        6  3.00 MiB        0 B     3.00  read 100 %   node1 node2
            tar                4000000002        1       0 B    205 KiB     0.50  write 100 %  node2
            (no job)                             0       2 B        0 B     0.10  read 100 %   (session 3)
            (metadata server)                    0       0 B        0 B     0.00               (metadata server)
        "#]]
        .assert_eq(&table.text());
    }

    #[test]
    fn lines_are_of_hosts_targets_and_calls_too() {
        let text = |by| LoadTable::new(&example(), None, by, &mut UserNames::default()).text();
        let names = |by| -> Vec<String> {
            let text = text(by);
            let lines = text.lines().skip(1);
            lines
                .map(|line| line.split("  ").next().unwrap_or("").to_owned())
                .collect()
        };
        assert_eq!(
            names(GroupBy::Host),
            ["node2", "node1", "(session 3)", "(metadata server)"]
        );
        assert_eq!(
            names(GroupBy::User),
            ["4000000001", "4000000002", "(unknown)"]
        );
        assert_eq!(names(GroupBy::Ost), ["ost4"]);
        assert_eq!(names(GroupBy::Op), ["read", "write"]);
    }

    #[test]
    fn rates_between_two_looks_are_of_the_time_between() {
        let before = example();
        let mut now = example();
        now.now += 2_000;
        now.rows[0].counted.total += counts(8, 0, 4 << 20);
        let table = LoadTable::new(&now, Some(&before), GroupBy::Job, &mut UserNames::default());
        let json = table.json();
        assert_eq!(json["lines"][0]["job"], "slurm:7");
        assert_eq!(json["lines"][0]["calls_per_second"], 4.0);
        assert_eq!(
            json["lines"][0]["read_bytes_per_second"],
            f64::from(2 << 20)
        );
        assert_eq!(json["lines"][0]["total"]["calls"]["read"], 38);
        assert_eq!(json["lines"][1]["calls_per_second"], 0.0);
        // A server that has restarted since counts from the beginning.
        now.since = 19_000;
        let table = LoadTable::new(&now, Some(&before), GroupBy::Job, &mut UserNames::default());
        assert_eq!(table.json()["seconds"], 5.0);
    }
}
