//! The milestone's lines: the share of the hardware that a file system must reach, and the share that it aims at.

use serde::Serialize;

use super::{Direction, Layer};

/// LLNL's milestone 464 (2005): "a minimum of 60% … and a target of 80%".
pub const REQUIRED: f64 = 0.6;
pub const TARGET: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Less than required.
    Below,
    Required,
    Target,
    /// More than the hardware can do: it came from, or went to, some cache.
    Cache,
}

impl Verdict {
    pub fn of(share: f64) -> Verdict {
        match share {
            share if share > 1.0 => Verdict::Cache,
            share if share >= TARGET => Verdict::Target,
            share if share >= REQUIRED => Verdict::Required,
            _ => Verdict::Below,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Verdict::Below => "below what is required (60 %)",
            Verdict::Required => "required (60 %) reached, target (80 %) not",
            Verdict::Target => "target (80 %) reached",
            Verdict::Cache => "a cache effect: more than the hardware can do",
        }
    }

    /// For a cell of a table, beside the lines.
    pub fn short(self) -> &'static str {
        match self {
            Verdict::Below => "less than required",
            Verdict::Required => "what is required",
            Verdict::Target => "what is aimed at",
            Verdict::Cache => "a cache effect",
        }
    }
}

impl Layer {
    pub const ALL: [Layer; 2] = [Layer::Disk, Layer::Network];

    pub fn word(self) -> &'static str {
        match self {
            Layer::Disk => "disk",
            Layer::Network => "network",
        }
    }
}

impl Direction {
    pub fn word(self) -> &'static str {
        match self {
            Direction::Write => "write",
            Direction::Read => "read",
        }
    }
}

/// The layer that limits, of those that are known, and what is known of it.
pub fn least<T>(
    known: impl Fn(Layer) -> Option<T>,
    rate: impl Fn(&T) -> f64,
) -> Option<(Layer, T)> {
    let layers = Layer::ALL.into_iter();
    let known = layers.filter_map(|layer| Some((layer, known(layer)?)));
    known.min_by(|a, b| rate(&a.1).total_cmp(&rate(&b.1)))
}

/// Whether a figure with this name is about writing or reading; none if about both or neither.
pub fn way_of(figure: &str) -> Option<Direction> {
    let name = figure.to_lowercase();
    if name.contains("modify") || name.contains("rmw") || name == "rewrite" {
        return None;
    }
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let writes = has(&["write", "putc", "influx", "append"]);
    let reads = has(&["read", "getc", "outflux", "pileup", "seek", "epoch"]);
    match (writes, reads) {
        (true, false) => Some(Direction::Write),
        (false, true) => Some(Direction::Read),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_about_writing_or_reading_by_their_names() {
        for (name, way) in [
            ("Seq_Write", Some(Direction::Write)),
            ("Record_rewrite", Some(Direction::Write)),
            ("Fread", Some(Direction::Read)),
            ("Outflux", Some(Direction::Read)),
            ("one file read 2", Some(Direction::Read)),
            ("Rewrite", None),
            ("RMW", None),
            ("Create-A", None),
            ("Stat-A", None),
        ] {
            assert_eq!(way_of(name), way, "{name}");
        }
    }
}
