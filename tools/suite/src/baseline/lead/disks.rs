//! Disks, each by itself, then all at once.

use serde::Serialize;

use super::super::args::Baseline;
use super::super::orders::{Answer, Disk, Order, Stream};
use super::super::repeated::Repeated;
use super::super::site::Place;
use super::{Lead, measuring, misunderstood, moving};
use crate::results::Way;
use crate::trouble::Outcome;

/// Disks of one kind: raw, or through a volume manager.
#[derive(Clone, Debug, Serialize)]
pub struct Disks {
    pub each: Vec<OneDisk>,
    /// All of them at once, with the number of streams that was best for each alone.
    pub together: Vec<Together>,
}

#[derive(Clone, Debug, Serialize)]
pub struct OneDisk {
    pub place: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub streams: u16,
    pub way: Way,
    #[serde(flatten)]
    pub rate: Repeated,
}

#[derive(Clone, Debug, Serialize)]
pub struct Together {
    pub way: Way,
    pub streams: u16,
    #[serde(flatten)]
    pub rate: Repeated,
}

impl Disks {
    /// MB/s of all at once.
    pub fn rate(&self, way: Way) -> Option<f64> {
        let found = self.together.iter().find(|found| found.way == way);
        found.map(|found| found.rate.rate())
    }
}

impl OneDisk {
    pub fn rate(&self, streams: u16, way: Way) -> Option<&Repeated> {
        let is = |point: &&Point| point.streams == streams && point.way == way;
        self.points.iter().find(is).map(|point| &point.rate)
    }

    /// The best of its points.
    pub fn best(&self, way: Way) -> Option<&Repeated> {
        let points = self.points.iter().filter(|point| point.way == way);
        Repeated::best(points.map(|point| &point.rate))
    }

    /// How many of its points may be as good as the best, for all that the noise lets one say.
    pub fn near_best(&self) -> usize {
        let near = |point: &&Point| point.rate.is_near(self.best(point.way));
        self.points.iter().filter(near).count()
    }
}

/// Which worker, and the how-manieth disk of it.
type Seat = (usize, usize);

/// Raw disks and the same through a volume manager, all at once, in turns.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub way: Way,
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

impl Lead<'_> {
    pub fn disks(&mut self, asked: &Baseline) -> Outcome<Measured> {
        let places: Vec<&Place> = asked.disk.iter().chain(&asked.managed).collect();
        let seats = self.open(asked, &places)?;
        let (raw_seats, managed_seats) = seats.split_at(asked.disk.len());
        let raw = self.measure(asked, &asked.disk, raw_seats)?;
        let managed = match asked.managed.is_empty() {
            true => None,
            false => Some(self.measure(asked, &asked.managed, managed_seats)?),
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
                let rate = self.stream(asked, raw_seats, streams, way)?;
                turns.raw.push(rate);
                let rate = self.stream(asked, managed_seats, managed.streams, way)?;
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

    fn measure(&mut self, asked: &Baseline, places: &[Place], seats: &[Seat]) -> Outcome<Disks> {
        let ways = ways(asked);
        let empty = asked.disk_streams.iter().flat_map(|streams| {
            ways.iter().map(|way| Point {
                streams: *streams,
                way: *way,
                rate: Repeated::default(),
            })
        });
        let empty: Vec<Point> = empty.collect();
        let disk = |place: &Place| OneDisk {
            place: place.to_string(),
            points: empty.clone(),
        };
        let mut each: Vec<OneDisk> = places.iter().map(disk).collect();
        // In turns: what changes meanwhile is in the spread of all points, and not in the difference of two.
        for _ in 0..asked.repeat {
            for (disk, seat) in each.iter_mut().zip(seats) {
                for point in &mut disk.points {
                    let rate = self.stream(asked, &[*seat], point.streams, point.way)?;
                    point.rate.add(rate);
                }
            }
        }
        let best = ways.iter().map(|way| {
            let (streams, rate) = best(&each, &asked.disk_streams, *way);
            Together {
                way: *way,
                streams,
                rate,
            }
        });
        let mut together: Vec<Together> = best.collect();
        if places.len() > 1 {
            together
                .iter_mut()
                .for_each(|all| all.rate = Repeated::default());
            for _ in 0..asked.repeat {
                for all in &mut together {
                    let rate = self.stream(asked, seats, all.streams, all.way)?;
                    all.rate.add(rate);
                }
            }
        }
        Ok(Disks { each, together })
    }

    fn open(&mut self, asked: &Baseline, places: &[&Place]) -> Outcome<Vec<Seat>> {
        let mut disks: Vec<Vec<Disk>> = vec![Vec::new(); self.accesses.len()];
        let mut seats = Vec::new();
        for place in places {
            let member = self.member(&place.access);
            seats.push((member, disks[member].len()));
            disks[member].push(Disk {
                path: place.path.clone(),
                size: asked.disk_size.0,
                record: asked.disk_record.0,
                read_only: asked.read_only,
                i_know: asked.i_know,
            });
        }
        let most = disks.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let orders = disks.into_iter().enumerate();
        let orders = orders.filter(|(_, disks)| !disks.is_empty());
        let orders = orders.map(|(member, disks)| (member, Order::Open(disks)));
        let limit = moving(most.saturating_mul(asked.disk_size.0));
        self.workers.ask(orders.collect(), limit)?;
        Ok(seats)
    }

    /// MB/s of all these disks together.
    fn stream(&mut self, asked: &Baseline, seats: &[Seat], streams: u16, way: Way) -> Outcome<f64> {
        let of = |member: usize| Stream {
            disks: seats
                .iter()
                .filter(|(other, _)| *other == member)
                .map(|(_, disk)| *disk)
                .collect(),
            way,
            streams,
            seconds: asked.disk_seconds,
        };
        let orders = self.members(seats).into_iter();
        let orders = orders.map(|member| (member, Order::Stream(of(member))));
        let answers = self
            .workers
            .ask(orders.collect(), measuring(asked.disk_seconds))?;
        let mut sum = 0.0;
        for answer in answers {
            let Answer::Rates(rates) = answer else {
                return Err(misunderstood());
            };
            sum += rates.iter().sum::<f64>();
        }
        Ok(sum)
    }

    fn members(&self, seats: &[Seat]) -> Vec<usize> {
        let has = |member: &usize| seats.iter().any(|(other, _)| other == member);
        (0..self.accesses.len()).filter(has).collect()
    }
}

fn ways(asked: &Baseline) -> &'static [Way] {
    match asked.read_only {
        true => &[Way::Read],
        false => &[Way::Write, Way::Read],
    }
}

/// The number of streams with the greatest sum, and that.
fn best(each: &[OneDisk], streams: &[u16], way: Way) -> (u16, Repeated) {
    let sum = |streams: u16| {
        let rates = each.iter().filter_map(|disk| disk.rate(streams, way));
        Repeated::sum(rates)
    };
    let all = streams.iter().map(|streams| (*streams, sum(*streams)));
    Repeated::best_load(all).unwrap_or((1, Repeated::default()))
}
