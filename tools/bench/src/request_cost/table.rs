//! Figures of one kind of request, side by side.

use super::kind::RequestKind;
use super::program::ProgramResult;
use super::server::{Candidate, CpuUsage};
use serde_json::json;

pub struct Table {
    kind: RequestKind,
    programs: usize,
    pinned: bool,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    cells: Vec<TurnResult>,
}

/// One turn.
pub struct TurnResult {
    per_second: f64,
    /// Of the server's processors, for one request.
    micros: f64,
    switches: f64,
}

impl TurnResult {
    /// Preparation and removal of a turn's files are part of the server's effort, so it is told only where there are none.
    pub fn new(done: ProgramResult, cpu_usage: CpuUsage) -> TurnResult {
        let requests = done.requests.max(1) as f64;
        TurnResult {
            per_second: done.per_second,
            micros: cpu_usage.nanos as f64 / 1e3 / requests,
            switches: cpu_usage.switches as f64 / requests,
        }
    }
}

impl Row {
    fn of(&self, figure: impl Fn(&TurnResult) -> f64) -> Spread {
        let mut all: Vec<f64> = self.cells.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        let at = |index: usize| all.get(index).copied().unwrap_or(0.0);
        Spread {
            median: at(all.len() / 2),
            least: at(0),
            most: at(all.len().saturating_sub(1)),
        }
    }
}

struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Table {
    pub fn new(
        kind: RequestKind,
        programs: usize,
        pinned: bool,
        candidates: &[Candidate],
    ) -> Table {
        let row = |side: &Candidate| Row {
            name: side.name.clone(),
            cells: Vec::new(),
        };
        Table {
            kind,
            programs,
            pinned,
            rows: candidates.iter().map(row).collect(),
        }
    }

    pub fn add(&mut self, side: usize, cell: TurnResult) {
        self.rows[side].cells.push(cell);
    }

    /// Files are made and removed around the turn, and the server does that too.
    fn tells_effort(&self) -> bool {
        !matches!(self.kind, RequestKind::Create | RequestKind::Unlink)
    }

    pub fn print(&self, json: bool) {
        let programs = match self.programs {
            1 => "1 program".to_owned(),
            many => format!("{many} programs"),
        };
        let where_ = if self.pinned { ", pinned" } else { "" };
        if !json {
            println!("{}, {programs}{where_}", self.kind.name());
        }
        let first = self
            .rows
            .first()
            .map_or(1.0, |row| row.of(|cell| cell.per_second).median);
        for row in &self.rows {
            let rate = row.of(|cell| cell.per_second);
            let (micros, switches) = (row.of(|cell| cell.micros), row.of(|cell| cell.switches));
            if json {
                let line = json!({
                    "kind": self.kind.name(), "programs": self.programs, "pinned": self.pinned, "side": row.name,
                    "per_second": [rate.median, rate.least, rate.most],
                    "server_micros": self.tells_effort().then_some(micros.median),
                    "server_switches": self.tells_effort().then_some(switches.median),
                });
                println!("{line}");
                continue;
            }
            let cpu_usage = match self.tells_effort() {
                true => format!(
                    "   server {:>6.1} µs, {:>4.1} switches",
                    micros.median, switches.median
                ),
                false => String::new(),
            };
            println!(
                "  {:<22} {:>8.1} k/s  [{:>7.1} … {:>7.1}]  × {:.2}{cpu_usage}",
                row.name,
                rate.median / 1e3,
                rate.least / 1e3,
                rate.most / 1e3,
                rate.median / first
            );
        }
    }
}
