//! TCP streams between every client and every server, then between all at once.

use std::io::Read;

use serde::Serialize;

use super::super::args::Baseline;
use super::super::orders::{Answer, Flow, Link, Order};
use super::{Lead, SOON, measuring, misunderstood};
use crate::results::Way;
use crate::trouble::{Doing, Outcome};
use crate::words::hex;

#[derive(Clone, Debug, Serialize)]
pub struct Network {
    pub pairs: Vec<Pair>,
    pub together: Vec<Together>,
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
    pub way: Way,
    /// MB/s.
    pub rate: f64,
}

/// All pairs at once, with what was best for each alone.
#[derive(Clone, Debug, Serialize)]
pub struct Together {
    pub way: Way,
    pub streams: u16,
    pub message: u64,
    pub rate: f64,
    /// By pair.
    pub each: Vec<f64>,
}

/// Streams and message sizes of a measurement.
type Load = (u16, u64);

impl Network {
    pub fn rate(&self, way: Way) -> Option<f64> {
        let found = self.together.iter().find(|found| found.way == way);
        found.map(|found| found.rate)
    }
}

impl Pair {
    pub fn rate(&self, load: Load, way: Way) -> f64 {
        let is = |point: &&Point| (point.streams, point.message) == load && point.way == way;
        self.points.iter().find(is).map_or(0.0, |point| point.rate)
    }
}

impl Lead<'_> {
    pub fn network(&mut self, asked: &Baseline) -> Outcome<Network> {
        let pairs = asked.pairs();
        let loads = loads(asked);
        let mut measured = Vec::new();
        for pair in &pairs {
            let mut points = Vec::new();
            for load in &loads {
                for way in [Way::Write, Way::Read] {
                    let rates = self.flow(asked, &[*pair], *load, way)?;
                    points.push(Point {
                        streams: load.0,
                        message: load.1,
                        way,
                        rate: rates.iter().sum(),
                    });
                }
            }
            measured.push(Pair {
                client: asked.clients()[pair.0].access.to_string(),
                server: asked.servers()[pair.1].access.to_string(),
                points,
            });
        }
        let mut together = Vec::new();
        for way in [Way::Write, Way::Read] {
            let (load, sum) = best(&measured, &loads, way);
            let each = match pairs.len() {
                1 => vec![sum],
                _ => self.flow(asked, &pairs, load, way)?,
            };
            together.push(Together {
                way,
                streams: load.0,
                message: load.1,
                rate: each.iter().sum(),
                each,
            });
        }
        Ok(Network {
            pairs: measured,
            together,
        })
    }

    /// MB/s of each of the pairs, all at once. Clients connect, whatever way bytes go then.
    fn flow(
        &mut self,
        asked: &Baseline,
        pairs: &[(usize, usize)],
        load: Load,
        way: Way,
    ) -> Outcome<Vec<f64>> {
        let (clients, servers) = (asked.clients(), asked.servers());
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
                streams: load.0,
            })
        });
        let links = links.collect::<Outcome<Vec<_>>>()?;
        let listen = ends.iter().zip(&links);
        let listen = listen.map(|((_, server), link)| (*server, Order::Listen(link.clone())));
        let ports = self.crew.ask(listen.collect(), SOON)?;
        let mut connect = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            let Answer::Port(port) = port else {
                return Err(misunderstood());
            };
            let address = servers[pairs[number].1].address().unwrap_or_default();
            let order = Order::Connect(links[number].clone(), format!("{address}:{port}"));
            connect.push((ends[number].0, order));
        }
        self.crew.ask(connect, SOON)?;
        let accept = ends.iter().enumerate();
        let accept = accept.map(|(number, (_, server))| (*server, Order::Accept(number)));
        self.crew.ask(accept.collect(), SOON)?;

        let (message, seconds) = (load.1, asked.seconds);
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
                Way::Write => (client, server),
                Way::Read => (server, client),
            };
            flows[*sender].sends.push(number);
            flows[*receiver].receives.push(number);
        }
        let orders: Vec<_> = flows
            .iter()
            .enumerate()
            .filter(|(_, flow)| !(flow.sends.is_empty() && flow.receives.is_empty()))
            .map(|(member, flow)| (member, Order::Flow(flow.clone())))
            .collect();
        let told: Vec<usize> = orders.iter().map(|(member, _)| *member).collect();
        let answers = self.crew.ask(orders, measuring(seconds))?;
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
}

fn loads(asked: &Baseline) -> Vec<Load> {
    let of = |streams: &u16| {
        let streams = *streams;
        asked.message.iter().map(move |size| (streams, size.0))
    };
    asked.streams.iter().flat_map(of).collect()
}

fn best(pairs: &[Pair], loads: &[Load], way: Way) -> (Load, f64) {
    let sum = |load: Load| -> f64 { pairs.iter().map(|pair| pair.rate(load, way)).sum() };
    let all = loads.iter().map(|load| (*load, sum(*load)));
    all.fold(
        (loads[0], 0.0),
        |best, new| if new.1 > best.1 { new } else { best },
    )
}

/// What strangers cannot guess.
fn secret() -> Outcome<String> {
    let mut bytes = [0; 16];
    let path = std::path::Path::new("/dev/urandom");
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .doing("read", path)?;
    Ok(hex(&bytes))
}
