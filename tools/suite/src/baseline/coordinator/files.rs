//! The mounted file system, from all its clients: a file for each process as in the milestone's IOR runs, and one file for all.

use gupfs_kit::date;
use serde::Serialize;

use super::super::args::Baseline;
use super::super::orders::{Answer, EnterDirectory, Files, Order, Part, Shape};
use super::super::site::{Access, HostPath};
use super::{Coordinator, SOON, misunderstood, moving};
use crate::error::SuiteResult;
use crate::results::{Direction, spread};
use crate::size::MB;

#[derive(Clone, Debug, Serialize)]
pub struct Workload {
    pub name: &'static str,
    pub way: Direction,
    /// MB/s: the median.
    pub rate: f64,
    /// Of each repetition.
    pub rates: Vec<f64>,
}

const WORKLOADS: [(&str, Shape, Direction); 4] = [
    ("File_each_write", Shape::Each, Direction::Write),
    ("File_each_read", Shape::Each, Direction::Read),
    ("One_file_write", Shape::One, Direction::Write),
    ("One_file_read", Shape::One, Direction::Read),
];

impl Coordinator<'_> {
    pub fn files(&mut self, args: &Baseline) -> SuiteResult<Vec<Workload>> {
        let mut rates = [const { Vec::new() }; WORKLOADS.len()];
        for repetition in 0..args.repeat {
            self.enter(args, repetition)?;
            for (rates, (_, shape, way)) in rates.iter_mut().zip(WORKLOADS) {
                rates.push(self.move_files(args, shape, way)?);
            }
            // The first worker made the directory, and removes it last.
            for member in self.clients(args).into_iter().rev() {
                let limit = moving(bytes(args));
                self.workers.ask(vec![(member, Order::Leave)], limit)?;
            }
        }
        let all = WORKLOADS.into_iter().zip(rates);
        Ok(all
            .map(|((name, _, way), rates)| Workload {
                name,
                way,
                rate: spread::median(&rates).unwrap_or(0.0),
                rates,
            })
            .collect())
    }

    /// The worker of each directory; two of one host have two.
    fn clients(&self, args: &Baseline) -> Vec<usize> {
        let nth = |(index, place): (usize, &HostPath)| {
            let same = |access: &Access| *access == place.access;
            let before = args.fs[..index].iter().filter(|other| same(&other.access));
            let all = self.accesses.iter().enumerate();
            let mut all = all.filter(|(_, access)| same(access));
            let found = all.nth(before.count());
            found.map(|(member, _)| member)
        };
        args.fs.iter().enumerate().filter_map(nth).collect()
    }

    fn enter(&mut self, args: &Baseline, repetition: u32) -> SuiteResult<()> {
        let name = format!(
            "baseline_{}_{}_{repetition}",
            date::stamp(),
            std::process::id()
        );
        let members = self.clients(args);
        for (index, (place, member)) in args.fs.iter().zip(members).enumerate() {
            let directory = EnterDirectory {
                below: place.path.clone(),
                name: name.clone(),
                makes: index == 0,
                room: bytes(args).saturating_mul(2),
            };
            self.workers
                .ask(vec![(member, Order::Enter(directory))], SOON)?;
        }
        Ok(())
    }

    /// MB/s of all, over the time of the slowest. With several hosts each reads what another one wrote.
    fn move_files(&mut self, args: &Baseline, shape: Shape, way: Direction) -> SuiteResult<f64> {
        let hosts = args.fs.len();
        let of = hosts * usize::from(args.workers);
        let files = |host: usize| Files {
            way,
            shape,
            workers: (host..of).step_by(hosts).collect(),
            shift: if hosts > 1 { 1 } else { 0 },
            of,
            size: args.size.0,
            record: args.record.0,
        };
        let members = self.clients(args).into_iter().enumerate();
        let orders = members.map(|(host, member)| (member, Order::Files(files(host))));
        let answers = self.workers.ask(orders.collect(), moving(bytes(args)))?;
        let mut parts: Vec<Part> = Vec::new();
        for answer in answers {
            let Answer::Parts(some) = answer else {
                return Err(misunderstood());
            };
            parts.extend(some);
        }
        let sum: u64 = parts.iter().map(|part| part.bytes).sum();
        let longest = parts.iter().map(|part| part.seconds).fold(0.0, f64::max);
        Ok(sum as f64 / MB / longest)
    }
}

/// Bytes that all processes move.
fn bytes(args: &Baseline) -> u64 {
    let workers = args.fs.len() as u64 * u64::from(args.workers);
    args.size.0.saturating_mul(workers)
}
