//! Disks, each by itself, then all at once.

use serde::Serialize;

use super::super::args::Baseline;
use super::super::orders::{Answer, Disk, Order, Stream};
use super::super::repeated::Repeated;
use super::super::site::HostPath;
use super::{Coordinator, measuring, misunderstood, moving};
use crate::error::SuiteResult;
use crate::results::Direction;

/// Disks of one kind: raw, or through a volume manager.
#[derive(Clone, Debug, Serialize)]
pub struct Disks {
    pub each: Vec<OneDisk>,
    /// All of them at once, with the number of streams that was best for each alone.
    pub together: Vec<AllDisks>,
}

#[derive(Clone, Debug, Serialize)]
pub struct OneDisk {
    pub place: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub streams: u16,
    pub way: Direction,
    #[serde(flatten)]
    pub rate: Repeated,
}

#[derive(Clone, Debug, Serialize)]
pub struct AllDisks {
    pub way: Direction,
    pub streams: u16,
    #[serde(flatten)]
    pub rate: Repeated,
}

impl Disks {
    /// MB/s of all at once.
    pub fn rate(&self, way: Direction) -> Option<f64> {
        let found = self.together.iter().find(|found| found.way == way);
        found.map(|found| found.rate.rate())
    }
}

impl OneDisk {
    pub fn rate(&self, streams: u16, way: Direction) -> Option<&Repeated> {
        let is = |point: &&Point| point.streams == streams && point.way == way;
        self.points.iter().find(is).map(|point| &point.rate)
    }

    /// The best of its points.
    pub fn best(&self, way: Direction) -> Option<&Repeated> {
        let points = self.points.iter().filter(|point| point.way == way);
        Repeated::best(points.map(|point| &point.rate))
    }

    /// How many of its points may be as good as the best, for all that the noise lets one say.
    pub fn near_best(&self) -> usize {
        let near = |point: &&Point| point.rate.is_near(self.best(point.way));
        self.points.iter().filter(near).count()
    }
}

/// A worker's number, and the number of one of its disks.
type DiskSlot = (usize, usize);

/// Raw disks and the same through a volume manager, all at once, in turns.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub way: Direction,
    /// MB/s of each turn.
    pub raw: Vec<f64>,
    pub managed: Vec<f64>,
}

/// All that was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub raw: Disks,
    pub managed: Option<Disks>,
    pub compared: Vec<Compared>,
}

/// Fewer would not tell a difference from noise.
pub const TURNS: usize = 5;

impl Coordinator<'_> {
    pub fn disks(&mut self, args: &Baseline) -> SuiteResult<Measured> {
        let places: Vec<&HostPath> = args.disk.iter().chain(&args.managed).collect();
        let seats = self.open(args, &places)?;
        let (raw_seats, managed_seats) = seats.split_at(args.disk.len());
        let raw = self.measure(args, &args.disk, raw_seats)?;
        let managed = match args.managed.is_empty() {
            true => None,
            false => Some(self.measure(args, &args.managed, managed_seats)?),
        };
        let mut compared = Vec::new();
        for managed in managed.iter().flat_map(|managed| &managed.together) {
            let way = managed.way;
            let alone = raw.together.iter().find(|raw| raw.way == way);
            let streams = alone.map_or(managed.streams, |raw| raw.streams);
            let mut turns = Compared {
                way,
                raw: Vec::new(),
                managed: Vec::new(),
            };
            for _ in 0..TURNS {
                let rate = self.stream(args, raw_seats, streams, way)?;
                turns.raw.push(rate);
                let rate = self.stream(args, managed_seats, managed.streams, way)?;
                turns.managed.push(rate);
            }
            compared.push(turns);
        }
        // Files without names are gone with this.
        let closed = self.members(&seats).into_iter();
        let closed = closed.map(|member| (member, Order::Open(Vec::new())));
        self.workers.ask(closed.collect(), super::SOON)?;
        Ok(Measured {
            raw,
            managed,
            compared,
        })
    }

    fn measure(
        &mut self,
        args: &Baseline,
        places: &[HostPath],
        seats: &[DiskSlot],
    ) -> SuiteResult<Disks> {
        let ways = ways(args);
        let empty = args.disk_streams.iter().flat_map(|streams| {
            ways.iter().map(|way| Point {
                streams: *streams,
                way: *way,
                rate: Repeated::default(),
            })
        });
        let empty: Vec<Point> = empty.collect();
        let disk = |place: &HostPath| OneDisk {
            place: place.to_string(),
            points: empty.clone(),
        };
        let mut each: Vec<OneDisk> = places.iter().map(disk).collect();
        // In turns: what changes meanwhile is in the spread of all points, and not in the difference of two.
        for _ in 0..args.repeat {
            for (disk, seat) in each.iter_mut().zip(seats) {
                for point in &mut disk.points {
                    let rate = self.stream(args, &[*seat], point.streams, point.way)?;
                    point.rate.add(rate);
                }
            }
        }
        let best = ways.iter().map(|way| {
            let (streams, rate) = best(&each, &args.disk_streams, *way);
            AllDisks {
                way: *way,
                streams,
                rate,
            }
        });
        let mut together: Vec<AllDisks> = best.collect();
        if places.len() > 1 {
            together
                .iter_mut()
                .for_each(|all| all.rate = Repeated::default());
            for _ in 0..args.repeat {
                for all in &mut together {
                    let rate = self.stream(args, seats, all.streams, all.way)?;
                    all.rate.add(rate);
                }
            }
        }
        Ok(Disks { each, together })
    }

    fn open(&mut self, args: &Baseline, places: &[&HostPath]) -> SuiteResult<Vec<DiskSlot>> {
        let mut disks: Vec<Vec<Disk>> = vec![Vec::new(); self.accesses.len()];
        let mut seats = Vec::new();
        for place in places {
            let member = self.member(&place.access);
            seats.push((member, disks[member].len()));
            disks[member].push(Disk {
                path: place.path.clone(),
                size: args.disk_size.0,
                record: args.disk_record.0,
                read_only: args.read_only,
                i_know: args.i_know,
            });
        }
        let most = disks.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let orders = disks.into_iter().enumerate();
        let orders = orders.filter(|(_, disks)| !disks.is_empty());
        let orders = orders.map(|(member, disks)| (member, Order::Open(disks)));
        let limit = moving(most.saturating_mul(args.disk_size.0));
        self.workers.ask(orders.collect(), limit)?;
        Ok(seats)
    }

    /// MB/s of all these disks together.
    fn stream(
        &mut self,
        args: &Baseline,
        seats: &[DiskSlot],
        streams: u16,
        way: Direction,
    ) -> SuiteResult<f64> {
        let of = |member: usize| Stream {
            disks: seats
                .iter()
                .filter(|(other, _)| *other == member)
                .map(|(_, disk)| *disk)
                .collect(),
            way,
            streams,
            seconds: args.disk_seconds,
        };
        let orders = self.members(seats).into_iter();
        let orders = orders.map(|member| (member, Order::Stream(of(member))));
        let answers = self
            .workers
            .ask(orders.collect(), measuring(args.disk_seconds))?;
        let mut sum = 0.0;
        for answer in answers {
            let Answer::Rates(rates) = answer else {
                return Err(misunderstood());
            };
            sum += rates.iter().sum::<f64>();
        }
        Ok(sum)
    }

    fn members(&self, seats: &[DiskSlot]) -> Vec<usize> {
        let has = |member: &usize| seats.iter().any(|(other, _)| other == member);
        (0..self.accesses.len()).filter(has).collect()
    }
}

fn ways(args: &Baseline) -> &'static [Direction] {
    match args.read_only {
        true => &[Direction::Read],
        false => &[Direction::Write, Direction::Read],
    }
}

/// The number of streams with the greatest sum, and that.
fn best(each: &[OneDisk], streams: &[u16], way: Direction) -> (u16, Repeated) {
    let sum = |streams: u16| {
        let rates = each.iter().filter_map(|disk| disk.rate(streams, way));
        Repeated::sum(rates)
    };
    let all = streams.iter().map(|streams| (*streams, sum(*streams)));
    Repeated::best_load(all).unwrap_or((1, Repeated::default()))
}
