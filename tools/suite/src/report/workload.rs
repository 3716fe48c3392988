//! A section for each workload: charts, tables, and published figures.

use gupfs_kit::html::escape;

use super::charts::bars::{Group, Style, bars};
use super::charts::curves::{Axes, Curve, curves};
use super::charts::heat::{AxisLabels, heat};
use super::charts::{Ink, Mark};
use super::data::ReportData;
use super::html::{HtmlTable, paragraph, small};
use super::panel::{Axis, Panel};
use super::plot::{Legend, PageItem, Plot, heading, stack};
use super::section::section;
use crate::figure::Better;
use crate::plan::SweepValues;
use crate::published::{Row, Table};
use crate::results::Series;
use crate::results::compare::{number, ratio, spread};
use crate::results::spread::Ratio;

pub fn parts(data: &ReportData, workload: &str) -> Vec<PageItem> {
    let of = data.series.iter().filter(|one| one.workload == workload);
    let series: Vec<&Series> = of.collect();
    if series.is_empty() {
        return Vec::new();
    }
    let about = data.workload(workload).map_or("", |found| &found.about);
    let mut intro = paragraph(about);
    let mut runs = data.results.runs.iter();
    if let Some(run) = runs.find(|run| run.workload == workload) {
        intro += &format!(
            "<p class=\"small\">For example: <code>{}</code></p>",
            escape(&command(&run.command))
        );
    }
    let tables = data.published(workload);
    let panels = Panel::all(&series);
    let (plain, swept): (Vec<&Panel>, Vec<&Panel>) =
        panels.iter().partition(|panel| panel.axes.is_empty());
    let mut plots = plain_plots(data, workload, &plain, &tables);
    for panel in swept {
        plots.extend(swept_plots(data, workload, panel, &tables));
    }
    section(workload, intro, plots, published_tables(&series, &tables))
}

/// Without the place of the program, the directory of the run, and the report that the plan reads.
fn command(words: &[String]) -> String {
    let mut shown: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(at) = shown.iter().position(|word| *word == "--json") {
        shown.truncate(at);
    }
    let program = shown[0].rsplit('/').next().unwrap_or_default().to_owned();
    shown[0] = &program;
    let hide = |word: &&str| {
        if word.contains("/bench_") {
            "DIR".to_owned()
        } else {
            (*word).to_owned()
        }
    };
    shown.iter().map(hide).collect::<Vec<_>>().join(" ")
}

/// Figures without variables: those of a unit in one chart.
fn plain_plots(
    data: &ReportData,
    workload: &str,
    panels: &[&Panel],
    tables: &[Table],
) -> Vec<Plot> {
    let mut kinds: Vec<(&str, Better)> = Vec::new();
    for panel in panels {
        if !kinds.contains(&(panel.unit, panel.better)) {
            kinds.push((panel.unit, panel.better));
        }
    }
    let of_kind = |(unit, better): (&str, Better)| {
        let mut keys = Legend::targets(data);
        let mut groups = Vec::new();
        let mut rows = table_head(data, &["figure"]);
        let some = panels.iter();
        for panel in some.filter(|panel| (panel.unit, panel.better) == (unit, better)) {
            let at = |target: &str| panel.at(target, &[]);
            let mut group = group(data, panel.figure, at);
            for row in single(panel, tables) {
                let ink = keys.published(&row.system);
                group.bars.push(Mark::published(row.values[0], ink));
            }
            groups.push(group);
            rows.add(table_row(data, vec![panel.figure.to_owned()], at));
        }
        Plot {
            title: format!("{workload}, {unit}, {}", better.words()),
            drawing: bars(&groups, &Style::default()),
            keys,
            table: rows,
        }
    };
    kinds.into_iter().map(of_kind).collect()
}

fn group<'a>(data: &ReportData, name: &str, at: impl Fn(&str) -> Option<&'a Series>) -> Group {
    let bars = data.targets.iter().filter_map(|target| {
        let series = at(target)?;
        Some(mark(data, series))
    });
    Group {
        name: name.into(),
        bars: bars.collect(),
    }
}

fn mark(data: &ReportData, series: &Series) -> Mark {
    Mark {
        spread: series.spread(),
        ink: Ink::Target(data.number(&series.target)),
    }
}

fn swept_plots(data: &ReportData, workload: &str, panel: &Panel, tables: &[Table]) -> Vec<Plot> {
    match panel.axes.as_slice() {
        [axis] if axis.is_numeric() => vec![curve_plot(data, workload, panel, axis, tables)],
        [axis] => vec![group_plot(data, workload, panel, axis)],
        [first, second] => {
            let mut plots = vec![heat_plot(data, workload, panel, first, second)];
            // Curves, where something was published that has the same variable.
            for (along, across) in [(first, second), (second, first)] {
                let slices = across.values.iter().map(|value| panel.slice(across, value));
                let overlaid = |slice: &Panel| {
                    let mut tables = tables.iter();
                    tables.any(|table| beside(slice, along, table).next().is_some())
                };
                let slices = slices.filter(|slice| along.is_numeric() && overlaid(slice));
                plots.extend(slices.map(|slice| curve_plot(data, workload, &slice, along, tables)));
            }
            plots
        }
        _ => unreachable!("a panel has at most two axes"),
    }
}

fn title(workload: &str, panel: &Panel) -> String {
    format!("{workload}: {}", panel.title())
}

fn group_plot(data: &ReportData, workload: &str, panel: &Panel, axis: &Axis) -> Plot {
    let groups = axis.values.iter().map(|value| {
        group(data, &format!("{}={value}", axis.name), |target| {
            panel.at(target, &[value])
        })
    });
    let groups: Vec<Group> = groups.collect();
    Plot {
        title: title(workload, panel),
        drawing: bars(&groups, &Style::default()),
        keys: Legend::targets(data),
        table: axis_table(data, panel, axis),
    }
}

fn curve_plot(
    data: &ReportData,
    workload: &str,
    panel: &Panel,
    axis: &Axis,
    tables: &[Table],
) -> Plot {
    let mut keys = Legend::targets(data);
    let published: Vec<(&Table, &Row)> = tables
        .iter()
        .flat_map(|table| beside(panel, axis, table).map(move |row| (table, row)))
        .collect();
    let more = published
        .iter()
        .flat_map(|(table, _)| table.at.iter().cloned());
    let wide = Axis::new(&axis.name, axis.values.iter().cloned().chain(more));
    let place = |value: &String| wide.values.iter().position(|other| other == value);
    let mut all: Vec<Curve> = Vec::new();
    for (table, row) in published {
        let ink = keys.published(&row.system);
        let points = table.at.iter().zip(&row.values);
        let points =
            points.filter_map(|(at, value)| Some((place(at)?, Mark::published(*value, ink))));
        all.push(Curve {
            ink,
            points_seen: true,
            points: points.collect(),
        });
    }
    // A single published value has no number of processes: it is a line across.
    for row in single(panel, tables) {
        let ink = keys.published(&row.system);
        let mark = Mark::published(row.values[0], ink);
        let places = 0..wide.values.len();
        all.push(Curve {
            ink,
            points_seen: false,
            points: places.map(|at| (at, mark.clone())).collect(),
        });
    }
    for (at, target) in data.targets.iter().enumerate() {
        let points = axis.values.iter().filter_map(|value| {
            let series = panel.at(target, &[value])?;
            Some((place(value)?, mark(data, series)))
        });
        all.push(Curve {
            ink: Ink::Target(at),
            points_seen: true,
            points: points.collect(),
        });
    }
    let axes = Axes {
        values: &wide.values,
        across: &axis.words(),
        unit: panel.unit,
    };
    Plot {
        title: title(workload, panel),
        drawing: curves(&axes, &all),
        keys,
        table: axis_table(data, panel, axis),
    }
}

fn heat_plot(
    data: &ReportData,
    workload: &str,
    panel: &Panel,
    first: &Axis,
    second: &Axis,
) -> Plot {
    let medians = |target: &str| -> Vec<Vec<Option<f64>>> {
        let row = |down: &String| {
            let field = |across: &String| {
                let series = panel.at(target, &[across, down]);
                series.map(|series| series.spread().median)
            };
            first.values.iter().map(field).collect()
        };
        second.values.iter().map(row).collect()
    };
    let all = panel.series.iter().map(|series| series.spread().median);
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    let sides = AxisLabels {
        columns: &first.values,
        across: &first.words(),
        rows: &second.values,
        down: &second.words(),
    };
    let mut drawings = Vec::new();
    for target in &data.targets {
        let values = medians(target);
        if values.iter().flatten().any(Option::is_some) {
            drawings.push(heading(target));
            drawings.push(heat(&sides, &values, most));
        }
    }
    let mut rows = table_head(data, &[&first.words(), &second.words()]);
    for down in &second.values {
        for across in &first.values {
            let names = vec![across.clone(), down.clone()];
            rows.add(table_row(data, names, |target| {
                panel.at(target, &[across, down])
            }));
        }
    }
    Plot {
        title: title(workload, panel),
        drawing: stack(&drawings),
        keys: Legend::default(),
        table: rows,
    }
}

fn table_head(data: &ReportData, names: &[&str]) -> HtmlTable {
    let mut head: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    head.extend(data.targets.iter().cloned());
    head.extend(
        data.targets[1..]
            .iter()
            .map(|target| format!("{target} ÷ {} (95 %)", data.targets[0])),
    );
    HtmlTable::new(head)
}

fn table_row<'a>(
    data: &ReportData,
    mut row: Vec<String>,
    at: impl Fn(&str) -> Option<&'a Series>,
) -> Vec<String> {
    for target in &data.targets {
        row.push(at(target).map_or("–".into(), |series| spread(&series.spread())));
    }
    for target in &data.targets[1..] {
        let found = at(target)
            .zip(at(&data.targets[0]))
            .and_then(|(series, first)| {
                let found = Ratio::of(&series.values, &first.values)?;
                Some(ratio(&found, series.better))
            });
        row.push(found.unwrap_or_else(|| "–".into()));
    }
    row
}

fn axis_table(data: &ReportData, panel: &Panel, axis: &Axis) -> HtmlTable {
    let mut rows = table_head(data, &[&axis.words()]);
    for value in &axis.values {
        rows.add(table_row(data, vec![value.clone()], |target| {
            panel.at(target, &[value])
        }));
    }
    rows
}

/// Rows of a published table over this axis, at what is fixed here.
fn beside<'t>(panel: &Panel, axis: &Axis, table: &'t Table) -> impl Iterator<Item = &'t Row> {
    let over = table.unit == panel.unit && table.variable.as_ref() == Some(&axis.name);
    let figure = panel.figure.to_owned();
    let fixed: SweepValues = panel.fixed.clone();
    table.series.iter().filter(move |row| {
        over && row.figures.contains(&figure)
            && row
                .with
                .iter()
                .all(|(name, value)| fixed.get(name) == Some(value))
    })
}

/// Rows of one value.
fn single<'t>(panel: &Panel, tables: &'t [Table]) -> Vec<&'t Row> {
    let of_unit = tables
        .iter()
        .filter(|table| table.variable.is_none() && table.unit == panel.unit);
    of_unit
        .flat_map(|table| &table.series)
        .filter(|row| row.figures.iter().any(|name| name == panel.figure))
        .collect()
}

/// As printed: rows of the figures that this workload has.
fn published_tables(series: &[&Series], tables: &[Table]) -> String {
    let mut out = String::new();
    for table in tables {
        let ours = |row: &&Row| {
            row.figures
                .iter()
                .any(|name| series.iter().any(|one| one.figure == *name))
        };
        let mut head = vec!["published".to_owned()];
        match &table.variable {
            Some(variable) => head.extend(table.at.iter().map(|at| format!("{variable}={at}"))),
            None => head.push(table.unit.clone()),
        }
        let mut rows = HtmlTable::new(head);
        for row in table.series.iter().filter(ours) {
            let with = crate::results::series::show(&row.with);
            let mut cells = vec![
                format!("{}, {} {with}", row.system, row.figures[0])
                    .trim_end()
                    .to_owned(),
            ];
            cells.extend(row.values.iter().map(|value| number(*value)));
            rows.add(cells);
        }
        if !rows.is_empty() {
            out += &format!(
                "<details><summary>Published: {}, {}</summary>{}{}</details>",
                escape(&table.title),
                escape(&table.unit),
                small(&format!("{}. {}", table.source, table.about)),
                rows.html()
            );
        }
    }
    out
}

#[test]
fn an_example_shows_what_one_would_type() {
    let words = "/opt/gupfs bench mptio --np 2 -d /srv/bench_2026_1/run_1 --json /tmp/x";
    let words: Vec<String> = words.split(' ').map(String::from).collect();
    assert_eq!(command(&words), "gupfs bench mptio --np 2 -d DIR");
}
