//! TCP streams between every client and every server, then between all at once.

use std::io::Read;

use serde::Serialize;

use super::super::args::Baseline;
use super::super::orders::{Answer, Flow, Link, Order};
use super::super::repeated::Repeated;
use super::{Coordinator, SOON, measuring, misunderstood};
use crate::error::{ErrorContext, SuiteResult};
use crate::pattern::hex;
use crate::results::Direction;

#[derive(Clone, Debug, Serialize)]
pub struct Network {
    pub pairs: Vec<Pair>,
    pub together: Vec<AllPairs>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    pub client: String,
    pub server: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub streams: u16,
    pub message: u64,
    /// A client writes to the server, or reads from it.
    pub way: Direction,
    #[serde(flatten)]
    pub rate: Repeated,
}

/// All pairs at once, with what was best for each alone.
#[derive(Clone, Debug, Serialize)]
pub struct AllPairs {
    pub way: Direction,
    pub streams: u16,
    pub message: u64,
    #[serde(flatten)]
    pub rate: Repeated,
    /// By pair, when the sum was nearest to its median.
    pub each: Vec<f64>,
}

/// Streams and message sizes of a measurement.
type Load = (u16, u64);

impl Network {
    pub fn rate(&self, way: Direction) -> Option<f64> {
        let found = self.together.iter().find(|found| found.way == way);
        found.map(|found| found.rate.rate())
    }
}

impl Pair {
    pub fn rate(&self, load: Load, way: Direction) -> Option<&Repeated> {
        let is = |point: &&Point| (point.streams, point.message) == load && point.way == way;
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

impl Coordinator<'_> {
    pub fn network(&mut self, args: &Baseline) -> SuiteResult<Network> {
        let pairs = args.pairs();
        let loads = loads(args);
        let empty = loads.iter().flat_map(|load| {
            [Direction::Write, Direction::Read].map(|way| Point {
                streams: load.0,
                message: load.1,
                way,
                rate: Repeated::default(),
            })
        });
        let empty: Vec<Point> = empty.collect();
        let named = |pair: &(usize, usize)| Pair {
            client: args.clients()[pair.0].access.to_string(),
            server: args.servers()[pair.1].access.to_string(),
            points: empty.clone(),
        };
        let mut measured: Vec<Pair> = pairs.iter().map(named).collect();
        // In turns, as with disks.
        for _ in 0..args.repeat {
            for (ends, pair) in pairs.iter().zip(&mut measured) {
                for point in &mut pair.points {
                    let load = (point.streams, point.message);
                    let rates = self.flow(args, &[*ends], load, point.way)?;
                    point.rate.add(rates.iter().sum());
                }
            }
        }
        let together = self.all_pairs(args, &pairs, &measured)?;
        Ok(Network {
            pairs: measured,
            together,
        })
    }

    /// All pairs at once, with the load that was best for each alone.
    fn all_pairs(
        &mut self,
        args: &Baseline,
        pairs: &[(usize, usize)],
        measured: &[Pair],
    ) -> SuiteResult<Vec<AllPairs>> {
        let best =
            [Direction::Write, Direction::Read].map(|way| (way, best(measured, &loads(args), way)));
        if pairs.len() == 1 {
            let alone = best.map(|(way, (load, rate))| AllPairs {
                way,
                streams: load.0,
                message: load.1,
                each: vec![rate.rate()],
                rate,
            });
            return Ok(alone.into());
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..args.repeat {
            for ((way, (load, _)), times) in best.iter().zip(&mut times) {
                times.push(self.flow(args, pairs, *load, *way)?);
            }
        }
        let together = best.into_iter().zip(times);
        let together = together.map(|((way, (load, _)), mut times)| {
            let rate: Repeated = times.iter().map(|each| each.iter().sum()).collect();
            AllPairs {
                way,
                streams: load.0,
                message: load.1,
                each: rate.middle().map_or(Vec::new(), |time| times.remove(time)),
                rate,
            }
        });
        Ok(together.collect())
    }

    /// MB/s of each of the pairs, all at once. Clients connect, whatever way bytes go then.
    fn flow(
        &mut self,
        args: &Baseline,
        pairs: &[(usize, usize)],
        load: Load,
        way: Direction,
    ) -> SuiteResult<Vec<f64>> {
        let ends = self.connect(args, pairs, load.0)?;
        let flows = self.flows(&ends, way, load.1, args.seconds);
        let orders: Vec<_> = flows
            .iter()
            .enumerate()
            .filter(|(_, flow)| !(flow.sends.is_empty() && flow.receives.is_empty()))
            .map(|(member, flow)| (member, Order::Flow(flow.clone())))
            .collect();
        let told: Vec<usize> = orders.iter().map(|(member, _)| *member).collect();
        let answers = self.workers.ask(orders, measuring(args.seconds))?;
        let mut rates = vec![0.0; pairs.len()];
        for (member, answer) in told.into_iter().zip(answers) {
            let Answer::Rates(received) = answer else {
                return Err(misunderstood());
            };
            for (number, rate) in flows[member].receives.iter().zip(received) {
                rates[*number] = rate;
            }
        }
        Ok(rates)
    }

    /// Connects all pairs with so many streams each. The workers of each pair: the client's and the server's.
    fn connect(
        &mut self,
        args: &Baseline,
        pairs: &[(usize, usize)],
        streams: u16,
    ) -> SuiteResult<Vec<(usize, usize)>> {
        let (clients, servers) = (args.clients(), args.servers());
        let ends: Vec<(usize, usize)> = pairs
            .iter()
            .map(|(client, server)| {
                let client = self.member(&clients[*client].access);
                (client, self.member(&servers[*server].access))
            })
            .collect();
        let links = pairs.iter().enumerate().map(|(number, _)| {
            Ok(Link {
                number,
                key: secret()?,
                streams,
            })
        });
        let links = links.collect::<SuiteResult<Vec<_>>>()?;
        let listen = ends.iter().zip(&links);
        let listen = listen.map(|((_, server), link)| (*server, Order::Listen(link.clone())));
        let ports = self.workers.ask(listen.collect(), SOON)?;
        let mut connect = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            let Answer::Port(port) = port else {
                return Err(misunderstood());
            };
            let address = servers[pairs[number].1].address().unwrap_or_default();
            let order = Order::Connect(links[number].clone(), format!("{address}:{port}"));
            connect.push((ends[number].0, order));
        }
        self.workers.ask(connect, SOON)?;
        let accept = ends.iter().enumerate();
        let accept = accept.map(|(number, (_, server))| (*server, Order::Accept(number)));
        self.workers.ask(accept.collect(), SOON)?;
        Ok(ends)
    }

    /// The part of each worker: over which links it sends, and over which it receives.
    fn flows(
        &self,
        ends: &[(usize, usize)],
        way: Direction,
        message: u64,
        seconds: f64,
    ) -> Vec<Flow> {
        let mut flows: Vec<Flow> = vec![];
        flows.resize(
            self.accesses.len(),
            Flow {
                sends: vec![],
                receives: vec![],
                message,
                seconds,
            },
        );
        for (number, (client, server)) in ends.iter().enumerate() {
            let (sender, receiver) = match way {
                Direction::Write => (client, server),
                Direction::Read => (server, client),
            };
            flows[*sender].sends.push(number);
            flows[*receiver].receives.push(number);
        }
        flows
    }
}

fn loads(args: &Baseline) -> Vec<Load> {
    let of = |streams: &u16| {
        let streams = *streams;
        args.message.iter().map(move |size| (streams, size.0))
    };
    args.streams.iter().flat_map(of).collect()
}

fn best(pairs: &[Pair], loads: &[Load], way: Direction) -> (Load, Repeated) {
    let sum = |load: Load| Repeated::sum(pairs.iter().filter_map(|pair| pair.rate(load, way)));
    let all = loads.iter().map(|load| (*load, sum(*load)));
    Repeated::best_load(all).unwrap_or((loads[0], Repeated::default()))
}

/// A key that other processes cannot guess.
fn secret() -> SuiteResult<String> {
    let mut bytes = [0; 16];
    let path = std::path::Path::new("/dev/urandom");
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .doing("read", path)?;
    Ok(hex(&bytes))
}
