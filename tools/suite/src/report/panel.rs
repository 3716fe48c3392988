//! A panel: the series of one chart.

use std::collections::BTreeSet;

use crate::figure::Better;
use crate::plan::SweepValues;
use crate::results::Series;
use crate::results::series::show;
use crate::size::Size;

/// One figure of one workload over the variables that have several values, at most two of them.
pub struct Panel<'a> {
    pub figure: &'a str,
    pub unit: &'a str,
    pub better: Better,
    /// Values of all other variables.
    pub fixed: SweepValues,
    pub axes: Vec<Axis>,
    pub series: Vec<&'a Series>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub name: String,
    /// Numbers in their order.
    pub values: Vec<String>,
}

/// A number or a size.
pub fn numeric(text: &str) -> Option<f64> {
    let size = text.parse().map(|Size(bytes)| bytes as f64);
    size.ok().or_else(|| text.parse().ok())
}

impl Axis {
    pub fn new(name: &str, values: impl IntoIterator<Item = String>) -> Axis {
        let mut unique: Vec<String> = Vec::new();
        for value in values {
            if !unique.contains(&value) {
                unique.push(value);
            }
        }
        if unique.iter().all(|value| numeric(value).is_some()) {
            unique.sort_by(|a, b| {
                numeric(a)
                    .partial_cmp(&numeric(b))
                    .expect("numbers of a plan")
            });
        }
        Axis {
            name: name.into(),
            values: unique,
        }
    }

    /// Its name for a reader who has not seen the plan.
    pub fn words(&self) -> String {
        let said = match self.name.as_str() {
            "np" => "processes",
            "n" | "streams" => "streams",
            "record" => "record size",
            "size" => "file size",
            "readers" => "readers",
            "threads" => "threads",
            "block" => "block size",
            "filled" => "percent filled",
            "writers" => "writers",
            _ => return self.name.clone(),
        };
        match said == self.name {
            true => said.into(),
            false => format!("{said} ({})", self.name),
        }
    }

    pub fn is_numeric(&self) -> bool {
        self.values.iter().all(|value| numeric(value).is_some())
    }
}

impl<'a> Panel<'a> {
    /// All of a workload: a panel for each figure and each combination of the variables that are not axes.
    pub fn all(series: &[&'a Series]) -> Vec<Panel<'a>> {
        let axes = axes(series);
        let fixed_of = |one: &Series| -> SweepValues {
            let others = one.setting.iter();
            let others = others.filter(|(name, _)| axes.iter().all(|axis| axis.name != **name));
            others
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let mut panels: Vec<Panel> = Vec::new();
        for one in series {
            let fixed = fixed_of(one);
            let at = panels
                .iter()
                .position(|panel| panel.figure == one.figure && panel.fixed == fixed);
            match at {
                Some(at) => panels[at].series.push(one),
                None => panels.push(Panel {
                    figure: &one.figure,
                    unit: &one.unit,
                    better: one.better,
                    fixed,
                    axes: axes.clone(),
                    series: vec![one],
                }),
            }
        }
        panels
    }

    /// The same for one value of one of two axes: a panel over the other.
    pub fn slice(&self, axis: &Axis, value: &str) -> Panel<'a> {
        let name = &axis.name;
        let mut fixed = self.fixed.clone();
        fixed.insert(name.clone(), value.into());
        let here = |one: &&&Series| one.setting.get(name).is_some_and(|found| found == value);
        let others = self.axes.iter().filter(|other| other.name != *name);
        Panel {
            figure: self.figure,
            unit: self.unit,
            better: self.better,
            fixed,
            axes: others.cloned().collect(),
            series: self.series.iter().filter(here).copied().collect(),
        }
    }

    pub fn title(&self) -> String {
        let at = match show(&self.fixed) {
            fixed if fixed.is_empty() => fixed,
            fixed => format!(" at {fixed}"),
        };
        format!(
            "{}{at}, {}, {}",
            self.figure,
            self.unit,
            self.better.words()
        )
    }

    pub fn at(&self, target: &str, values: &[&str]) -> Option<&'a Series> {
        let here = |one: &&&Series| {
            let mut axes = self.axes.iter().zip(values);
            one.target == target
                && axes.all(|(axis, value)| {
                    one.setting
                        .get(&axis.name)
                        .is_some_and(|found| found == value)
                })
        };
        self.series.iter().find(here).copied()
    }
}

/// The variables with several values; of more than two the two with the most. Processes lie along the first.
fn axes(series: &[&Series]) -> Vec<Axis> {
    let names: BTreeSet<&String> = series.iter().flat_map(|one| one.setting.keys()).collect();
    let mut axes: Vec<Axis> = names
        .into_iter()
        .map(|name| {
            let values = series.iter();
            Axis::new(
                name,
                values.filter_map(|one| one.setting.get(name).cloned()),
            )
        })
        .collect();
    axes.retain(|axis| axis.values.len() > 1);
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.values.len()));
    axes.truncate(2);
    axes.sort_by_key(|axis| (axis.name != "np", !axis.is_numeric()));
    axes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(np: &str, record: &str, kind: &str) -> Series {
        let setting = [("np", np), ("record", record), ("kind", kind)];
        Series {
            workload: "w".into(),
            setting: setting.map(|(a, b)| (a.into(), b.into())).into(),
            figure: "f".into(),
            target: "t".into(),
            unit: "MB/s".into(),
            better: Better::More,
            values: vec![1.0],
            each: Vec::new(),
        }
    }

    #[test]
    fn the_variables_with_most_values_are_axes_and_numbers_are_in_order() {
        let mut all = Vec::new();
        for np in ["16", "2", "4"] {
            for record in ["1M", "64K", "4K", "512"] {
                all.extend(["x", "y"].map(|kind| series(np, record, kind)));
            }
        }
        let all: Vec<&Series> = all.iter().collect();
        let panels = Panel::all(&all);
        assert_eq!(panels.len(), 2, "one for each kind");
        assert_eq!(panels[0].axes[0].values, ["2", "4", "16"]);
        assert_eq!(panels[0].axes[1].values, ["512", "4K", "64K", "1M"]);
        assert_eq!(show(&panels[1].fixed), "kind=y");
        let [np, record] = panels[0].axes.as_slice() else {
            panic!("two axes")
        };
        let slice = panels[0].slice(record, "64K");
        assert_eq!((slice.axes.len(), slice.series.len()), (1, 3));
        assert!(slice.at("t", &["16"]).is_some());
        assert!(slice.at("t", &["3"]).is_none());
        let slice = panels[0].slice(np, "4");
        assert_eq!((&slice.axes[0], slice.series.len()), (record, 4));
    }
}
