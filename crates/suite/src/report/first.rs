//! The first page: what was compared, what came of it in sentences, one table.

use std::fmt::Write;

use super::book::{Beside, Book};
use super::ceiling::way_of;
use super::charts::Ink;
use super::charts::ratios::{self, ratios};
use super::html::{Rows, escape, slug, small};
use super::panel::Panel;
use super::plot::{Keys, Part, Plot};
use crate::figure::Better;
use crate::results::compare::{legend, number};
use crate::results::series::show;
use crate::results::spread::Verdict;
use crate::results::{Cache, Ran, Series, Way};

pub fn parts(book: &Book) -> Vec<Part> {
    let mut top = format!(
        "<header><h1>{}</h1>{}</header>\n{}<section id=\"verdict\"><h2>What came of it</h2><ul class=\"verdict\">",
        escape(&title(book)),
        small(&subtitle(book)),
        warnings(book)
    );
    for sentence in verdict(book) {
        let _ = write!(top, "<li>{}</li>", escape(&sentence));
    }
    top += "</ul>";
    let mut parts = vec![Part::Html(top)];
    match book.targets.len() {
        1 => parts.push(Part::Html(overview(book).html())),
        _ => parts.extend(glance(book).map(Part::Plot)),
    }
    let mut bottom = small(&how_to_read());
    let _ = write!(
        bottom,
        "</section>\n<section id=\"compared\"><h2>What was compared</h2>{}{}</section>\n",
        compared(book).html(),
        contents(book)
    );
    parts.push(Part::Html(bottom));
    parts
}

fn subtitle(book: &Book) -> String {
    let runs = &book.results.runs;
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let mut days: Vec<&str> = runs.iter().filter_map(|run| run.date.get(..10)).collect();
    days.sort_unstable();
    days.dedup();
    let when = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first == last => format!(", {first}"),
        (Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    let plans: Vec<&str> = book.plans().map(|plan| plan.name.as_str()).collect();
    let mut unique: Vec<&str> = Vec::new();
    plans.iter().for_each(|name| {
        if !unique.contains(name) {
            unique.push(name);
        }
    });
    format!(
        "{}{} runs, {} minutes of measuring{when}",
        match unique.is_empty() {
            true => String::new(),
            false => format!("Plan {}: ", unique.join(", ")),
        },
        runs.len(),
        number(seconds / 60.0)
    )
}

fn contents(book: &Book) -> String {
    let has = |name: &&String| book.series.iter().any(|one| one.workload == **name);
    let links = book.workloads.iter().filter(has).map(|name| {
        let (to, name) = (slug(name), escape(name));
        format!("<a href=\"#{to}\">{name}</a>")
    });
    let links: Vec<String> = links.collect();
    format!(
        "<nav aria-label=\"workloads\">Workloads: {}</nav>",
        links.join(" · ")
    )
}

pub fn title(book: &Book) -> String {
    match book.targets.split_last() {
        Some((last, [])) => format!("How fast is {last}?"),
        Some((last, others)) => format!("{} and {last} compared", others.join(", ")),
        None => String::new(),
    }
}

fn warnings(book: &Book) -> String {
    let mut all = Vec::new();
    match book.missing() {
        0 => {}
        missing => all.push(format!(
            "This is not the whole: {missing} of the runs that the plans want are not in these results. Run them with --resume."
        )),
    }
    for failed in &book.results.failed {
        all.push(format!(
            "Failed: {} {} on {}: {}",
            failed.workload,
            show(&failed.setting),
            failed.target,
            failed.why.lines().last().unwrap_or_default()
        ));
    }
    let undropped = |run: &Ran| run.cache == Cache::Undropped;
    if book.results.runs.iter().any(undropped) {
        all.push("Caches were not dropped before some runs, since that needs root: their reads may come from memory.".into());
    }
    let mut machines = book.results.headers.iter().map(|header| &header.machine);
    let first = machines.next();
    if machines.any(|machine| Some(machine) != first) {
        all.push("The runs are of several machines or kernels: differences between targets may be theirs.".into());
    }
    let unknown = |target: &&String| !book.targets.contains(target);
    let mut ceilings = book.results.ceilings.iter().map(|top| &top.target);
    if let Some(target) = ceilings.find(unknown) {
        all.push(format!(
            "Ceilings were measured for '{target}', and no run is of a target with that name: give `baseline` a --target that is in the plan."
        ));
    }
    all.iter()
        .map(|text| format!("<p class=\"warning\">{}</p>", escape(text)))
        .collect()
}

fn compared(book: &Book) -> Rows {
    let mut rows = Rows::new(["target", "file system", "version", "machine", "when"]);
    for name in &book.targets {
        let header = book
            .results
            .headers
            .iter()
            .rev()
            .find(|header| header.places.contains_key(name));
        let Some(header) = header else { continue };
        let place = &header.places[name];
        let machine = &header.machine;
        rows.add([
            name.clone(),
            format!("{} ({})", place.file_system, place.source),
            place.version.clone().unwrap_or_else(|| "–".into()),
            format!(
                "{}: {} × {}, {:.1} GB, {}",
                machine.host,
                machine.cpus,
                machine.processor,
                machine.memory_mb as f64 / 1024.0,
                machine.kernel
            ),
            header.date.clone(),
        ]);
    }
    rows
}

/// What a director reads.
fn verdict(book: &Book) -> Vec<String> {
    let first = &book.targets[0];
    let mut said = Vec::new();
    for target in &book.targets[1..] {
        let all = book.beside_first(target);
        let Some(mean) = mean(&all) else {
            said.push(format!("{target} and {first} have no figure in common."));
            continue;
        };
        let count = |better: bool| all.iter().filter(|one| says(one) == Some(better)).count();
        let open = all
            .iter()
            .filter(|one| one.verdict == Verdict::TooFewRuns)
            .count();
        let mut text = format!(
            "{target} against {first}: of {} comparisons {target} is better in {}, worse in {}",
            all.len(),
            count(true),
            count(false)
        );
        match open {
            0 => {
                let noise = all.len() - count(true) - count(false);
                let _ = write!(text, ", and in {noise} the difference is within the noise.");
            }
            _ => {
                let _ = write!(text, "; {open} have too few runs to tell.");
            }
        }
        let _ = write!(text, " Over all it is {}.", times(mean, first));
        for (unit, what) in [
            ("MB/s", "moving data"),
            ("op/s", "working on names and attributes"),
        ] {
            let some: Vec<&Beside> = all.iter().filter(|one| one.series.unit == unit).collect();
            if let Some(mean) = mean_of(&some)
                && some.len() < all.len()
            {
                let _ = write!(text, " In {what} it is {}.", times(mean, first));
            }
        }
        text += &extremes(&all);
        said.push(text);
    }
    if said.is_empty() {
        said.push(format!(
            "Only {first} was measured; there is nothing to compare it with."
        ));
    }
    for share in book.best_shares() {
        let way = match way_of(&share.series.figure) {
            Some(Way::Write) => "writing",
            _ => "reading",
        };
        said.push(format!(
            "{}, {way}, at best reaches this share of the ceiling: {} ({}).",
            share.series.target,
            share.said(),
            name(share.series)
        ));
    }
    said
}

fn says(one: &Beside) -> Option<bool> {
    match (one.verdict, one.series.better) {
        (Verdict::More, Better::More) | (Verdict::Less, Better::Less) => Some(true),
        (Verdict::Less, Better::More) | (Verdict::More, Better::Less) => Some(false),
        (Verdict::Noise | Verdict::TooFewRuns, _) => None,
    }
}

fn mean(all: &[Beside]) -> Option<f64> {
    mean_of(&all.iter().collect::<Vec<_>>())
}

/// The geometric mean: twice and half as fast are as far from equal.
fn mean_of(all: &[&Beside]) -> Option<f64> {
    let sum: f64 = all.iter().map(|one| one.advantage.ln()).sum();
    (!all.is_empty()).then(|| (sum / all.len() as f64).exp())
}

fn times(factor: f64, first: &str) -> String {
    match factor {
        factor if factor >= 1.05 => format!("{factor:.2} times as fast as {first}"),
        factor if factor <= 0.95 => format!("{:.0} % as fast as {first}", 100.0 * factor),
        _ => format!("about as fast as {first}"),
    }
}

fn name(series: &Series) -> String {
    let setting = show(&series.setting);
    let parts = [series.workload.as_str(), &series.figure, &setting];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn extremes(all: &[Beside]) -> String {
    let told = |better: bool| all.iter().filter(move |one| says(one) == Some(better));
    let mut text = String::new();
    if let Some(best) = told(true).max_by(|a, b| a.advantage.total_cmp(&b.advantage)) {
        let _ = write!(
            text,
            " Furthest ahead: {}, {:.2} times.",
            name(best.series),
            best.advantage
        );
    }
    if let Some(worst) = told(false).min_by(|a, b| a.advantage.total_cmp(&b.advantage)) {
        let _ = write!(
            text,
            " Furthest behind: {}, {:.0} %.",
            name(worst.series),
            100.0 * worst.advantage
        );
    }
    text
}

/// Workloads and figures, with all their series.
fn figures(book: &Book) -> Vec<(&str, Vec<&Series>)> {
    let mut all = Vec::new();
    for workload in &book.workloads {
        let of = book.series.iter().filter(|one| one.workload == *workload);
        let series: Vec<&Series> = of.collect();
        let mut seen: Vec<&str> = Vec::new();
        for panel in Panel::all(&series) {
            if !seen.contains(&panel.figure) {
                seen.push(panel.figure);
                let of = series.iter().filter(|one| one.figure == panel.figure);
                all.push((workload.as_str(), of.copied().collect()));
            }
        }
    }
    all
}

/// All that was measured, as ratios to the first target. None if they have no figure in common.
fn glance(book: &Book) -> Option<Plot> {
    let mut rows = Vec::new();
    for (workload, series) in figures(book) {
        let mut row = ratios::Row {
            name: format!("{workload}: {}", series[0].figure),
            lines: Vec::new(),
        };
        for target in &book.targets[1..] {
            let beside = beside(book, &series, target);
            let Some(mean) = mean(&beside) else { continue };
            let sure = beside.iter().any(|one| says(one).is_some());
            row.lines.push(ratios::Line {
                ink: Ink::Target(book.number(target)),
                mean,
                points: beside
                    .iter()
                    .map(|one| (one.advantage, says(one).is_some()))
                    .collect(),
                said: match (sure, beside.iter().all(|one| one.verdict == Verdict::Noise)) {
                    (true, _) => format!("{mean:.2}×"),
                    (false, true) => "noise".into(),
                    (false, false) => format!("{mean:.2}× ?"),
                },
            });
        }
        if !row.lines.is_empty() {
            rows.push(row);
        }
    }
    (!rows.is_empty()).then(|| Plot {
        title: format!("How many times as good as {}", book.targets[0]),
        drawing: ratios(&rows),
        keys: Keys::some(book, book.targets[1..].iter()),
        table: overview(book),
    })
}

fn beside<'a>(book: &'a Book, series: &[&'a Series], target: &str) -> Vec<Beside<'a>> {
    let of = series.iter().filter(|one| one.target == target);
    of.filter_map(|one| Beside::of(one, book.at(one, &book.targets[0])?))
        .collect()
}

/// A row a figure: the best median of each target, and how the others do in all settings.
fn overview(book: &Book) -> Rows {
    let others = &book.targets[1..];
    let mut head = vec!["best median of all settings".to_owned()];
    head.extend(book.targets.iter().cloned());
    let against = |target: &String| format!("{target} ÷ {}", book.targets[0]);
    head.extend(others.iter().map(against));
    let mut rows = Rows::new(head);
    for (workload, series) in figures(book) {
        rows.add(overview_row(book, workload, &series));
    }
    rows
}

fn overview_row(book: &Book, workload: &str, of: &[&Series]) -> Vec<String> {
    let mut row = vec![format!("{workload}: {}, {}", of[0].figure, of[0].unit)];
    for target in &book.targets {
        let best = best(of.iter().filter(|one| one.target == *target).copied());
        row.push(best.map_or("–".into(), |series| number(series.spread().median)));
    }
    for target in &book.targets[1..] {
        let beside = beside(book, of, target);
        let Some(mean) = mean(&beside) else {
            row.push("–".into());
            continue;
        };
        let count = |better: bool| {
            beside
                .iter()
                .filter(|one| says(one) == Some(better))
                .count()
        };
        let verdict = match (count(true), count(false), beside.len()) {
            _ if beside.iter().all(|one| one.verdict == Verdict::TooFewRuns) => {
                "too few runs".into()
            }
            (0, 0, _) => "within the noise".into(),
            (better, 0, all) if better == all => "better".into(),
            (0, worse, all) if worse == all => "worse".into(),
            (better, worse, all) => format!("{better} better, {worse} worse of {all}"),
        };
        let ratio = match of[0].better {
            Better::More => mean,
            Better::Less => mean.recip(),
        };
        row.push(format!("{ratio:.2}, {verdict}"));
    }
    row
}

/// Of several settings, the one with the best median.
pub fn best<'a>(all: impl Iterator<Item = &'a Series>) -> Option<&'a Series> {
    all.max_by(|a, b| {
        let order = a.spread().median.total_cmp(&b.spread().median);
        match a.better {
            Better::More => order,
            Better::Less => order.reverse(),
        }
    })
}

fn how_to_read() -> String {
    format!(
        "How to read it: marks and bars are medians, thin lines reach from the smallest to the largest run. A ratio over several settings \
         is their geometric mean; small circles are single settings, hollow where the difference is within the noise or too few runs \
         can tell. Figures called published were measured by others, on other machines, decades ago: they show shapes, not rivals. {}",
        legend()
    )
}
