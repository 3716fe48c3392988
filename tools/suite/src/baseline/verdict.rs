//! The milestone's verdict: the share of the least of network and disk that a workload reaches.

use serde::Serialize;

use crate::results::milestone::{self, Verdict};
use crate::results::{Direction, Layer};

/// The rates of the layers below, in MB/s, as far as they were measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ceilings {
    pub disk_write: Option<f64>,
    pub disk_read: Option<f64>,
    pub network_write: Option<f64>,
    pub network_read: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    pub workload: String,
    pub way: Direction,
    /// MB/s.
    pub measured: f64,
    pub least: f64,
    pub limited_by: Layer,
    /// Measured ÷ least.
    pub share: f64,
    pub verdict: Verdict,
}

impl Ceilings {
    pub fn of(&self, layer: Layer, way: Direction) -> Option<f64> {
        match (layer, way) {
            (Layer::Disk, Direction::Write) => self.disk_write,
            (Layer::Disk, Direction::Read) => self.disk_read,
            (Layer::Network, Direction::Write) => self.network_write,
            (Layer::Network, Direction::Read) => self.network_read,
        }
    }

    /// The layer that limits, and what it can do.
    pub fn least(&self, way: Direction) -> Option<(Layer, f64)> {
        milestone::least(|layer| self.of(layer, way), |rate| *rate)
    }

    /// None: nothing is known to judge by.
    pub fn judge(&self, workload: String, way: Direction, measured: f64) -> Option<Judged> {
        let (limited_by, least) = self.least(way)?;
        let share = measured / least;
        Some(Judged {
            workload,
            way,
            measured,
            least,
            limited_by,
            share,
            verdict: Verdict::of(share),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::milestone::{REQUIRED, TARGET};

    /// The milestone's own table.
    #[test]
    fn the_milestone_comes_out_as_it_was_published() {
        let alc = Ceilings {
            disk_write: Some(2100.0),
            disk_read: Some(1540.0),
            network_write: Some(3158.0),
            network_read: Some(3030.0),
        };
        let judged = |way, rate| alc.judge("IOR".into(), way, rate).unwrap();
        let (write, read) = (
            judged(Direction::Write, 1810.0),
            judged(Direction::Read, 1197.0),
        );
        assert_eq!((write.least, write.limited_by), (2100.0, Layer::Disk));
        // "Percent of required performance" 143.7 and 129.5, "of target" 107.7 and 97.2.
        let percent = |judged: &Judged, line: f64| (1000.0 * judged.share / line).round() / 10.0;
        assert_eq!(percent(&write, REQUIRED), 143.7);
        assert_eq!(percent(&write, TARGET), 107.7);
        assert_eq!(percent(&read, REQUIRED), 129.5);
        assert_eq!(percent(&read, TARGET), 97.2);
        assert_eq!(write.verdict, Verdict::Target);
        assert_eq!(read.verdict, Verdict::Required);
    }

    #[test]
    fn more_than_everything_is_a_cache_and_nothing_known_is_no_verdict() {
        let disk = Ceilings {
            disk_read: Some(100.0),
            ..Ceilings::default()
        };
        let judge = |way, rate| disk.judge(String::new(), way, rate).map(|j| j.verdict);
        assert_eq!(judge(Direction::Read, 100.1), Some(Verdict::Cache));
        assert_eq!(judge(Direction::Read, 59.9), Some(Verdict::Below));
        assert_eq!(judge(Direction::Write, 50.0), None);
    }
}
