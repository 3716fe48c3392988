//! The report of baseline: each layer's table, then the verdict.

use std::fmt;

use serde::Serialize;

use super::coordinator::disks::{self, Compared, Disks, OneDisk};
use super::coordinator::files::Workload;
use super::coordinator::network::{Network, Pair};
use super::repeated::Repeated;
use super::verdict::{Ceilings, Judged};
use crate::figure::{Figure, HasFigures};
use crate::results::spread::{Ratio, Verdict};
use crate::results::{Direction, Layer, milestone};
use crate::size::Size;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How often each rate was measured.
    pub repeat: u32,
    pub disk_bytes: u64,
    pub disk_record: u64,
    pub disk_seconds: f64,
    pub disks: Option<disks::Measured>,
    pub network_seconds: f64,
    pub network: Option<Network>,
    /// That use the file system.
    pub hosts: usize,
    /// Of each host.
    pub workers: u16,
    /// Of each worker.
    pub file_bytes: u64,
    pub file_record: u64,
    pub files: Vec<Workload>,
    pub ceilings: Ceilings,
    pub judged: Vec<Judged>,
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "baseline";

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (name, layer, way) in [
            ("Disk_write", Layer::Disk, Direction::Write),
            ("Disk_read", Layer::Disk, Direction::Read),
            ("Network_write", Layer::Network, Direction::Write),
            ("Network_read", Layer::Network, Direction::Read),
        ] {
            if let Some(rate) = self.ceilings.of(layer, way) {
                figures.push(Figure::rate(name, "MB/s", rate, []));
            }
        }
        for files in &self.files {
            figures.push(Figure::rate(files.name, "MB/s", files.rate, []));
        }
        figures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut first = true;
        let mut gap = |f: &mut fmt::Formatter| match std::mem::take(&mut first) {
            true => Ok(()),
            false => writeln!(f),
        };
        if let Some(disks) = &self.disks {
            gap(f)?;
            self.show_disks(f, "DISKS", &disks.raw)?;
            if let Some(managed) = &disks.managed {
                gap(f)?;
                self.show_disks(f, "THROUGH THE VOLUME MANAGER", managed)?;
            }
            for compared in &disks.compared {
                show_compared(f, compared)?;
            }
        }
        if let Some(network) = &self.network {
            gap(f)?;
            self.show_network(f, network)?;
        }
        if !self.files.is_empty() {
            gap(f)?;
            self.show_files(f)?;
        }
        if self
            .ceilings
            .least(Direction::Write)
            .or(self.ceilings.least(Direction::Read))
            .is_some()
        {
            gap(f)?;
            self.show_verdict(f)?;
        }
        Ok(())
    }
}

/// Long names push their line, short ones stand in columns.
const PLACE: usize = 28;

impl Report {
    fn show_disks(&self, f: &mut fmt::Formatter, title: &str, disks: &Disks) -> fmt::Result {
        writeln!(
            f,
            "{title}: O_DIRECT, records of {}, {} of each, {:.1} s, {}; MB/s",
            Size(self.disk_record),
            Size(self.disk_bytes),
            self.disk_seconds,
            times(self.repeat)
        )?;
        writeln!(
            f,
            "{:<PLACE$} streams      write   smallest    largest        read   smallest    largest",
            ""
        )?;
        for disk in &disks.each {
            let mut streams: Vec<u16> = disk.points.iter().map(|point| point.streams).collect();
            streams.dedup();
            for streams in streams {
                let [write, read] = [Direction::Write, Direction::Read]
                    .map(|way| cells(disk.rate(streams, way), disk.best(way)));
                let line = format!("{:<PLACE$} {streams:>7} {write} {read}", disk.place);
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        let unsure = disks.each.iter().map(OneDisk::near_best).sum();
        for way in &disks.together {
            let all = if disks.each.len() == 1 {
                "best"
            } else {
                "all at once"
            };
            let rate = cells(Some(&way.rate), None);
            let blank = " ".repeat(CELLS);
            let (write, read) = match way.way {
                Direction::Write => (rate, blank),
                Direction::Read => (blank, rate),
            };
            let line = format!("{all:<PLACE$} {:>7} {write} {read}", way.streams);
            writeln!(f, "{}", line.trim_end())?;
        }
        show_noise(f, unsure)
    }

    fn show_network(&self, f: &mut fmt::Formatter, network: &Network) -> fmt::Result {
        writeln!(
            f,
            "NETWORK: TCP, {:.1} s each, {}, by message size; MB/s",
            self.network_seconds,
            times(self.repeat)
        )?;
        for pair in &network.pairs {
            show_pair(f, pair)?;
        }
        if network.pairs.len() > 1 {
            let pairs = network.pairs.len();
            writeln!(f, "All {pairs} pairs at once:")?;
        } else {
            writeln!(f, "Best:")?;
        }
        for all in &network.together {
            let least = all.each.iter().copied().fold(f64::INFINITY, f64::min);
            let most = all.each.iter().copied().fold(0.0, f64::max);
            writeln!(
                f,
                "  {:<5} {}   (messages of {}, {} streams each; pairs from {least:.2} to {most:.2})",
                all.way.word(),
                cells(Some(&all.rate), None).trim_end(),
                Size(all.message),
                all.streams
            )?;
        }
        let unsure = network.pairs.iter().map(Pair::near_best).sum();
        show_noise(f, unsure)
    }

    fn show_files(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "FILE SYSTEM: hosts: {}, processes on each: {}, {} of each in records of {}, fsync; MB/s",
            self.hosts,
            self.workers,
            Size(self.file_bytes),
            Size(self.file_record)
        )?;
        writeln!(f, "{:<PLACE$}     median   smallest    largest", "")?;
        for files in &self.files {
            let least = files.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = files.rates.iter().copied().fold(0.0, f64::max);
            writeln!(
                f,
                "{:<PLACE$} {:>10.2} {least:>10.2} {most:>10.2}",
                files.name, files.rate
            )?;
        }
        Ok(())
    }

    fn show_verdict(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "VERDICT: measured ÷ min(network, disk); MB/s")?;
        writeln!(
            f,
            "{:<PLACE$}    network       disk      least  60 % of it  80 % of it",
            ""
        )?;
        for way in [Direction::Write, Direction::Read] {
            let Some((_, least)) = self.ceilings.least(way) else {
                continue;
            };
            let network = self.ceilings.of(Layer::Network, way);
            let disk = self.ceilings.of(Layer::Disk, way);
            writeln!(
                f,
                "{:<PLACE$} {} {} {least:>10.2} {:>11.2} {:>11.2}",
                way.word(),
                rate(network),
                rate(disk),
                least * milestone::REQUIRED,
                least * milestone::TARGET
            )?;
        }
        if self.ceilings.network_write.is_none() {
            writeln!(
                f,
                "The network was not measured: the disks alone are the ceiling."
            )?;
        }
        if self
            .ceilings
            .disk_write
            .or(self.ceilings.disk_read)
            .is_none()
        {
            writeln!(f, "No disk was measured: the network alone is the ceiling.")?;
        }
        for judged in &self.judged {
            writeln!(
                f,
                "{:<PLACE$} {:>10.2}   {:>5.1} % of the {}'s {:.2}: {}",
                judged.workload,
                judged.measured,
                100.0 * judged.share,
                judged.limited_by.word(),
                judged.least,
                judged.verdict.words()
            )?;
        }
        Ok(())
    }
}

fn show_compared(f: &mut fmt::Formatter, compared: &Compared) -> fmt::Result {
    let Some(ratio) = Ratio::of(&compared.managed, &compared.raw) else {
        return Ok(());
    };
    let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(|part| 100.0 * part);
    let noise = match ratio.verdict() {
        Verdict::Noise => ": noise",
        _ => "",
    };
    writeln!(
        f,
        "In {} turns, {} through the volume manager is {value:.1} % of the raw disks' (95 %: {low:.1} to {high:.1}){noise}.",
        compared.raw.len(),
        compared.way.word()
    )
}

fn show_pair(f: &mut fmt::Formatter, pair: &Pair) -> fmt::Result {
    let (mut streams, mut messages) = (Vec::new(), Vec::new());
    for point in &pair.points {
        if !streams.contains(&point.streams) {
            streams.push(point.streams);
        }
        if !messages.contains(&point.message) {
            messages.push(point.message);
        }
    }
    write!(
        f,
        "{:<PLACE$} streams      ",
        format!("{} to {}", pair.client, pair.server)
    )?;
    for message in &messages {
        write!(f, " {:>10}", Size(*message).to_string())?;
    }
    writeln!(f)?;
    for streams in streams {
        for way in [Direction::Write, Direction::Read] {
            let rates = messages
                .iter()
                .map(|message| pair.rate((streams, *message), way));
            let rates: Vec<&Repeated> = rates.flatten().collect();
            let mut line = format!("{:<PLACE$} {streams:>7} {:<5}", "", way.word());
            for rate in &rates {
                let mark = if rate.is_near(pair.best(way)) {
                    "~"
                } else {
                    " "
                };
                line += &format!(" {:>9.2}{mark}", rate.rate());
            }
            writeln!(f, "{}", line.trim_end())?;
            if rates.iter().any(|rate| rate.spread().runs > 1) {
                let mut line = format!("{:<PLACE$} {:>7} {:<5}", "", "", "");
                for spread in rates.iter().map(|rate| rate.spread()) {
                    let half = 50.0 * (spread.max - spread.min) / spread.median;
                    line += &format!(" {:>9} ", format!("± {half:.1}%"));
                }
                writeln!(f, "{}", line.trim_end())?;
            }
        }
    }
    Ok(())
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| format!("{:>10}", "-"), |rate| format!("{rate:>10.2}"))
}

/// The median, the smallest and the largest of the disks' rates, and whether it may be as good as the best.
fn cells(rate: Option<&Repeated>, best: Option<&Repeated>) -> String {
    let Some(rate) = rate else {
        return format!("{:>10}{}", "-", " ".repeat(CELLS - 10));
    };
    let spread = rate.spread();
    let mark = if rate.is_near(best) { "~" } else { " " };
    format!(
        "{:>10.2}{mark}{:>10.2} {:>10.2}",
        spread.median, spread.min, spread.max
    )
}

const CELLS: usize = 32;

fn show_noise(f: &mut fmt::Formatter, marked: usize) -> fmt::Result {
    match marked {
        0 => Ok(()),
        _ => writeln!(
            f,
            "~ may be as good as the best of the same disk or pair: the difference is within the noise."
        ),
    }
}

fn times(repeat: u32) -> String {
    match repeat {
        1 => "once".into(),
        times => format!("medians of {times}"),
    }
}
