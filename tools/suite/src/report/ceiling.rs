//! The share of the ceiling that was reached: of the least that network and disk can do, or of another target.

use super::charts::bars::{Group, Style, bars};
use super::charts::{Ink, Mark};
use super::data::ReportData;
use super::front::moment;
use super::html::{HtmlTable, paragraph};
use super::plot::{Legend, PageItem, Plot};
use super::section::section;
use crate::results::compare::number;
use crate::results::milestone::{self, REQUIRED, TARGET, Verdict, way_of};
use crate::results::series::show;
use crate::results::spread::Spread;
use crate::results::{Ceiling, Direction, Layer, Series};

/// Bars end here: how far above 100 % a cache is says nothing of the hardware.
const END: f64 = 125.0;

/// A figure of a target as a share of what it could be.
pub struct CeilingShare<'a> {
    pub series: &'a Series,
    /// Percent.
    pub percent: Spread,
    /// MB/s, or what the other target has.
    top: f64,
    /// The layer or target that `top` is of.
    limit: String,
}

impl ReportData {
    /// None: nothing is known to judge it by.
    pub fn share<'a>(&self, series: &'a Series) -> Option<CeilingShare<'a>> {
        let (top, limit) = match &self.ceiling {
            Some(target) if series.target == *target => return None,
            Some(target) if series.unit.ends_with("/s") => {
                let top = self.at(series, target)?.spread().median;
                (top, target.clone())
            }
            Some(_) => return None,
            None => self.least(series)?,
        };
        let percent: Vec<f64> = series.values.iter().map(|v| 100.0 * v / top).collect();
        Some(CeilingShare {
            series,
            percent: Spread::of(&percent).filter(|_| top > 0.0)?,
            top,
            limit,
        })
    }

    /// The least of what was measured below this target, in the way in which this figure moves bytes.
    fn least(&self, series: &Series) -> Option<(f64, String)> {
        let way = way_of(&series.figure).filter(|_| series.unit == "MB/s")?;
        let of = |layer: Layer| -> Option<&Ceiling> {
            // The last that was measured counts.
            let mut all = self.results.ceilings.iter().rev();
            all.find(|top| top.target == series.target && top.layer == layer && top.way == way)
        };
        let (layer, least) = milestone::least(of, |top| top.rate)?;
        Some((least.rate, layer.word().into()))
    }

    /// Of each target and way, the best share: what a director is told.
    pub fn best_shares(&self) -> Vec<CeilingShare<'_>> {
        let mut best: Vec<CeilingShare> = Vec::new();
        for share in self.series.iter().filter_map(|series| self.share(series)) {
            let Some(way) = way_of(&share.series.figure) else {
                continue;
            };
            let same = |other: &CeilingShare| {
                other.series.target == share.series.target
                    && way_of(&other.series.figure) == Some(way)
            };
            match best.iter().position(same) {
                Some(at) if best[at].percent.median < share.percent.median => best[at] = share,
                Some(_) => {}
                None => best.push(share),
            }
        }
        best
    }
}

impl CeilingShare<'_> {
    pub fn said(&self) -> String {
        format!("{:.0} %, {}", self.percent.median, verdict(&self.percent))
    }
}

fn verdict(percent: &Spread) -> &'static str {
    // As it is printed, so that 100 % is never above 100 %.
    Verdict::of(percent.median.round() / 100.0).short()
}

pub fn parts(data: &ReportData) -> Vec<PageItem> {
    let plots: Vec<Plot> = data
        .workloads
        .iter()
        .filter_map(|workload| plot(data, workload))
        .collect();
    if plots.is_empty() {
        return Vec::new();
    }
    let ceiling = match &data.ceiling {
        Some(target) => format!("The ceiling is {target} in the same setting."),
        None => "The ceiling is the least of what network and disk can do by themselves, as measured below each target (gupfs bench baseline).".into(),
    };
    let intro = paragraph(&format!(
        "{ceiling} The lines are those of LLNL's milestone 464 (2005): 60 % were required, 80 % aimed at. More than 100 % is a cache \
         effect: the bytes came from memory, or still lie there. Bars show the setting with the largest share; the table has all."
    ));
    let tops = if data.ceiling.is_none() {
        tops(data).html()
    } else {
        String::new()
    };
    section("Share of the ceiling", intro + &tops, plots, String::new())
}

/// The rates of the layers below.
fn tops(data: &ReportData) -> HtmlTable {
    let mut rows = HtmlTable::new(["target", "layer", "write, MB/s", "read, MB/s", "measured"]);
    for target in &data.targets {
        for layer in Layer::ALL {
            let find = |way: Direction| {
                let mut all = data.results.ceilings.iter().rev();
                all.find(|top| top.target == *target && top.layer == layer && top.way == way)
            };
            let (write, read) = (find(Direction::Write), find(Direction::Read));
            let Some(date) = write.or(read).map(|top| top.date.clone()) else {
                continue;
            };
            let said = |top: Option<&Ceiling>| top.map_or("–".into(), |top| number(top.rate));
            rows.add([
                target.clone(),
                layer.word().into(),
                said(write),
                said(read),
                moment(&date),
            ]);
        }
    }
    rows
}

fn plot(data: &ReportData, workload: &str) -> Option<Plot> {
    let of = data.series.iter().filter(|one| one.workload == workload);
    let shares: Vec<CeilingShare> = of.filter_map(|series| data.share(series)).collect();
    let mut figures: Vec<&str> = Vec::new();
    for share in &shares {
        if !figures.contains(&share.series.figure.as_str()) {
            figures.push(&share.series.figure);
        }
    }
    let mut rows = HtmlTable::new([
        "figure", "setting", "target", "share", "verdict", "measured", "ceiling", "limit",
    ]);
    let mut groups = Vec::new();
    for figure in figures {
        let mut group = Group {
            name: figure.into(),
            bars: Vec::new(),
        };
        for target in &data.targets {
            let of = |share: &&CeilingShare| {
                share.series.figure == figure && share.series.target == *target
            };
            let all = || shares.iter().filter(of);
            for share in all() {
                rows.add([
                    figure.to_owned(),
                    show(&share.series.setting),
                    target.clone(),
                    format!("{:.0} %", share.percent.median),
                    verdict(&share.percent).into(),
                    number(share.series.spread().median),
                    number(share.top),
                    share.limit.clone(),
                ]);
            }
            let best = all().max_by(|a, b| a.percent.median.total_cmp(&b.percent.median));
            group.bars.extend(best.map(|share| Mark {
                spread: share.percent,
                ink: Ink::Target(data.number(target)),
            }));
        }
        groups.push(group);
    }
    let style = Style {
        unit: " %",
        lines: &[(100.0 * REQUIRED, "60 %"), (100.0 * TARGET, "80 %")],
        end: Some(END),
    };
    let drawn = data
        .targets
        .iter()
        .filter(|target| shares.iter().any(|share| share.series.target == **target));
    (!groups.is_empty()).then(|| Plot {
        title: format!("{workload}: share of the ceiling, %"),
        drawing: bars(&groups, &style),
        keys: Legend::some(data, drawn),
        table: rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_milestones_lines_decide() {
        let said = [10.0, 60.0, 79.4, 80.0, 100.4, 101.0]
            .map(|percent| verdict(&Spread::of(&[percent]).unwrap()));
        assert_eq!(
            said,
            [
                "less than required",
                "what is required",
                "what is required",
                "what is aimed at",
                "what is aimed at",
                "a cache effect"
            ]
        );
    }

    #[test]
    fn a_figure_that_goes_both_ways_has_no_ceiling() {
        assert_eq!(way_of("Seq_Write"), Some(Direction::Write));
        assert_eq!(way_of("one file read 2"), Some(Direction::Read));
        assert_eq!(way_of("RMW"), None);
        assert_eq!(way_of("Stat-A"), None);
    }
}
