//! A section for each workload: charts, tables, and what was published of it.

use super::book::Book;
use super::charts::bars::{Group, bars};
use super::charts::curves::{Curve, curves};
use super::charts::heat::heat;
use super::charts::{Mark, colour, legend};
use super::html::{Rows, escape, figure};
use super::panel::{Axis, Panel};
use crate::published::{Row, Table};
use crate::results::compare::{number, ratio, spread};
use crate::results::spread::{Ratio, Spread};
use crate::results::{Series, Setting};

/// Greys of published figures; names stand in the legend.
const GREYS: [&str; 4] = ["#666666", "#999999", "#444444", "#b0a080"];

pub fn section(book: &Book, workload: &str) -> String {
    let series: Vec<&Series> = book
        .series
        .iter()
        .filter(|one| one.workload == workload)
        .collect();
    if series.is_empty() {
        return String::new();
    }
    let about = book.workload(workload).map_or("", |found| &found.about);
    let mut out = format!(
        "<section><h2>{}</h2><p>{}</p>",
        escape(workload),
        escape(about)
    );
    if let Some(run) = book
        .results
        .runs
        .iter()
        .find(|run| run.workload == workload)
    {
        out += &format!(
            "<p class=\"small\">For example: <code>{}</code></p>",
            escape(&command(&run.command))
        );
    }
    let tables = book.published(workload);
    out += "<div class=\"charts\">";
    let panels = Panel::all(&series);
    let (plain, swept): (Vec<&Panel>, Vec<&Panel>) =
        panels.iter().partition(|panel| panel.axes.is_empty());
    out += &plain_figures(book, &plain, &tables);
    for panel in swept {
        out += &swept_figure(book, panel, &tables);
    }
    out += "</div>";
    out += &published_tables(&series, &tables);
    out + "</section>\n"
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
fn plain_figures(book: &Book, panels: &[&Panel], tables: &[Table]) -> String {
    let mut units: Vec<&str> = Vec::new();
    for panel in panels {
        if !units.contains(&panel.unit) {
            units.push(panel.unit);
        }
    }
    let of_unit = |unit: &str| -> String {
        let some: Vec<&Panel> = panels
            .iter()
            .filter(|panel| panel.unit == unit)
            .copied()
            .collect();
        let mut names = names(book);
        let groups: Vec<Group> = some
            .iter()
            .map(|panel| {
                let mut group = group(book, panel.figure, |target| panel.at(target, &[]));
                for (row, grey, value) in single(panel, tables) {
                    group.bars.push((value, true));
                    add_name(&mut names, &row.system, grey);
                }
                group
            })
            .collect();
        let mut rows = table_head(book, &["figure"]);
        for panel in &some {
            rows.add(table_row(book, vec![panel.figure.to_owned()], |target| {
                panel.at(target, &[])
            }));
        }
        let title = format!(
            "{unit}, {}",
            if some[0].title().ends_with("less is better") {
                "less is better"
            } else {
                "more is better"
            }
        );
        figure(
            &title,
            &(bars(&title, &groups, &[]) + &legend(&names)),
            &rows,
        )
    };
    units.into_iter().map(of_unit).collect()
}

fn group<'a>(book: &Book, name: &str, at: impl Fn(&str) -> Option<&'a Series>) -> Group {
    let bars = book.targets.iter().filter_map(|target| {
        let series = at(target)?;
        Some((mark(book, series), false))
    });
    Group {
        name: name.into(),
        bars: bars.collect(),
    }
}

fn mark(book: &Book, series: &Series) -> Mark {
    Mark {
        spread: series.spread(),
        colour: colour(book.number(&series.target)),
    }
}

fn names(book: &Book) -> Vec<(String, &'static str, bool)> {
    let name = |(at, target): (usize, &String)| (target.clone(), colour(at), false);
    book.targets.iter().enumerate().map(name).collect()
}

fn add_name(names: &mut Vec<(String, &'static str, bool)>, system: &str, grey: &'static str) {
    let entry = (format!("{system} (published)"), grey, true);
    if !names.contains(&entry) {
        names.push(entry);
    }
}

fn swept_figure(book: &Book, panel: &Panel, tables: &[Table]) -> String {
    match panel.axes.as_slice() {
        [axis] if axis.is_numeric() => curve_figure(book, panel, axis, tables),
        [axis] => group_figure(book, panel, axis),
        [first, second] => {
            let mut out = heat_figure(book, panel, first, second);
            for value in &second.values {
                let slice = panel.slice(value);
                if first.is_numeric()
                    && tables
                        .iter()
                        .any(|table| beside(&slice, first, table).next().is_some())
                {
                    out += &curve_figure(book, &slice, first, tables);
                }
            }
            out
        }
        _ => unreachable!("a panel has at most two axes"),
    }
}

fn group_figure(book: &Book, panel: &Panel, axis: &Axis) -> String {
    let groups: Vec<Group> = axis
        .values
        .iter()
        .map(|value| {
            group(book, &format!("{}={value}", axis.name), |target| {
                panel.at(target, &[value])
            })
        })
        .collect();
    let title = panel.title();
    figure(
        &title,
        &(bars(&title, &groups, &[]) + &legend(&names(book))),
        &axis_table(book, panel, axis),
    )
}

fn curve_figure(book: &Book, panel: &Panel, axis: &Axis, tables: &[Table]) -> String {
    let mut names = names(book);
    let published: Vec<(&Table, &Row, &'static str)> = tables
        .iter()
        .flat_map(|table| beside(panel, axis, table).map(move |row| (table, row)))
        .enumerate()
        .map(|(at, (table, row))| (table, row, GREYS[at % GREYS.len()]))
        .collect();
    let more = published
        .iter()
        .flat_map(|(table, ..)| table.at.iter().cloned());
    let wide = Axis::new(&axis.name, axis.values.iter().cloned().chain(more));
    let place = |value: &String| wide.values.iter().position(|other| other == value);
    let mut all: Vec<Curve> = Vec::new();
    for (table, row, grey) in &published {
        let points = table.at.iter().zip(&row.values);
        let points = points.filter_map(|(at, value)| Some((place(at)?, known(*value, grey))));
        all.push(Curve {
            colour: grey,
            published: true,
            points: points.collect(),
        });
        add_name(&mut names, &row.system, grey);
    }
    for (row, grey, value) in single(panel, tables) {
        let points = (0..wide.values.len())
            .map(|at| (at, value.clone()))
            .collect();
        all.push(Curve {
            colour: grey,
            published: true,
            points,
        });
        add_name(&mut names, &row.system, grey);
    }
    for (at, target) in book.targets.iter().enumerate() {
        let points = axis.values.iter().filter_map(|value| {
            let series = panel.at(target, &[value])?;
            Some((place(value)?, mark(book, series)))
        });
        all.push(Curve {
            colour: colour(at),
            published: false,
            points: points.collect(),
        });
    }
    let title = panel.title();
    let picture = curves(&title, &axis.name, &wide.values, &all) + &legend(&names);
    figure(&title, &picture, &axis_table(book, panel, axis))
}

fn heat_figure(book: &Book, panel: &Panel, first: &Axis, second: &Axis) -> String {
    let medians = |target: &str| -> Vec<Vec<Option<f64>>> {
        let row = |down: &String| {
            let field = |across: &String| {
                panel
                    .at(target, &[across, down])
                    .map(|series| series.spread().median)
            };
            first.values.iter().map(field).collect()
        };
        second.values.iter().map(row).collect()
    };
    let all = panel.series.iter().map(|series| series.spread().median);
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    let mut picture = String::new();
    for target in &book.targets {
        let name = format!("{target}: {}", panel.title());
        let fields = heat(
            &name,
            (&first.values, &first.name),
            (&second.values, &second.name),
            &medians(target),
            most,
        );
        picture += &format!("<h4>{}</h4>{fields}", escape(target));
    }
    let mut rows = table_head(book, &[&first.name, &second.name]);
    for down in &second.values {
        for across in &first.values {
            rows.add(table_row(
                book,
                vec![across.clone(), down.clone()],
                |target| panel.at(target, &[across, down]),
            ));
        }
    }
    figure(&panel.title(), &picture, &rows)
}

fn table_head(book: &Book, names: &[&str]) -> Rows {
    let mut head: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    head.extend(book.targets.iter().cloned());
    head.extend(
        book.targets[1..]
            .iter()
            .map(|target| format!("{target} ÷ {} (95 %)", book.targets[0])),
    );
    Rows::new(head)
}

fn table_row<'a>(
    book: &Book,
    mut row: Vec<String>,
    at: impl Fn(&str) -> Option<&'a Series>,
) -> Vec<String> {
    for target in &book.targets {
        row.push(at(target).map_or("–".into(), |series| spread(&series.spread())));
    }
    for target in &book.targets[1..] {
        let found = at(target)
            .zip(at(&book.targets[0]))
            .and_then(|(series, first)| {
                let found = Ratio::of(&series.values, &first.values)?;
                Some(ratio(&found, series.better))
            });
        row.push(found.unwrap_or_else(|| "–".into()));
    }
    row
}

fn axis_table(book: &Book, panel: &Panel, axis: &Axis) -> Rows {
    let mut rows = table_head(book, &[&axis.name]);
    for value in &axis.values {
        rows.add(table_row(book, vec![value.clone()], |target| {
            panel.at(target, &[value])
        }));
    }
    rows
}

fn known(value: f64, colour: &'static str) -> Mark {
    Mark {
        spread: Spread::of(&[value]).expect("one value"),
        colour,
    }
}

/// Rows of a published table over this axis, at what is fixed here.
fn beside<'t>(panel: &Panel, axis: &Axis, table: &'t Table) -> impl Iterator<Item = &'t Row> {
    let over = table.unit == panel.unit && table.variable.as_ref() == Some(&axis.name);
    let figure = panel.figure.to_owned();
    let fixed: Setting = panel.fixed.clone();
    table.series.iter().filter(move |row| {
        over && row.figures.contains(&figure)
            && row
                .with
                .iter()
                .all(|(name, value)| fixed.get(name) == Some(value))
    })
}

/// Rows with one value, and that.
fn single<'t>(panel: &Panel, tables: &'t [Table]) -> Vec<(&'t Row, &'static str, Mark)> {
    let of_unit = tables
        .iter()
        .filter(|table| table.variable.is_none() && table.unit == panel.unit);
    let rows = of_unit
        .flat_map(|table| &table.series)
        .filter(|row| row.figures.iter().any(|name| name == panel.figure));
    rows.enumerate()
        .map(|(at, row)| {
            let grey = GREYS[at % GREYS.len()];
            (row, grey, known(row.values[0], grey))
        })
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
        let mut rows = Rows::new(head);
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
                "<h3>{}, {}</h3><p class=\"small\">{}. {}</p>{}",
                escape(&table.title),
                escape(&table.unit),
                escape(&table.source),
                escape(&table.about),
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
