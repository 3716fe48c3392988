//! The first page: what was compared, what came of it in sentences, one table.

use std::fmt::Write;

use super::book::{Beside, Book};
use super::html::{Rows, escape};
use super::panel::Panel;
use crate::figure::Better;
use crate::results::compare::number;
use crate::results::series::show;
use crate::results::spread::Verdict;
use crate::results::{Cache, Series};

pub fn first(book: &Book) -> String {
    let mut out = format!(
        "<header><h1>{}</h1>{}</header>\n<section><h2>What was compared</h2>{}",
        escape(&title(book)),
        warnings(book),
        compared(book).html()
    );
    out += "</section>\n<section><h2>What came of it</h2>";
    for sentence in verdict(book) {
        let _ = write!(out, "<p>{}</p>", escape(&sentence));
    }
    out += &overview(book).html();
    out += &notes(book);
    out + "</section>\n"
}

pub fn title(book: &Book) -> String {
    match book.targets.split_last() {
        Some((last, [])) => format!("How fast is {last}?"),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
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
    let undropped = |run: &&crate::results::Ran| run.cache == Cache::Undropped;
    if book.results.runs.iter().any(|run| undropped(&run)) {
        all.push("Caches were not dropped before some runs, since that needs root: their reads may come from memory.".into());
    }
    let mut machines = book.results.headers.iter().map(|header| &header.machine);
    let first = machines.next();
    if machines.any(|machine| Some(machine) != first) {
        all.push("The runs are of several machines or kernels: differences between targets may be theirs.".into());
    }
    let lines: String = all
        .iter()
        .map(|text| format!("<p class=\"warning\">{}</p>", escape(text)))
        .collect();
    lines
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

fn extremes(all: &[Beside]) -> String {
    let told = |better: bool| all.iter().filter(move |one| says(one) == Some(better));
    let name = |one: &Beside| {
        let setting = show(&one.series.setting);
        let parts = [one.series.workload.as_str(), &one.series.figure, &setting];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut text = String::new();
    if let Some(best) = told(true).max_by(|a, b| a.advantage.total_cmp(&b.advantage)) {
        let _ = write!(
            text,
            " Furthest ahead: {}, {:.2} times.",
            name(best),
            best.advantage
        );
    }
    if let Some(worst) = told(false).min_by(|a, b| a.advantage.total_cmp(&b.advantage)) {
        let _ = write!(
            text,
            " Furthest behind: {}, {:.0} %.",
            name(worst),
            100.0 * worst.advantage
        );
    }
    text
}

/// A row a figure: the best median of each target, and how the others do in all settings.
fn overview(book: &Book) -> Rows {
    let others = &book.targets[1..];
    let mut head = vec!["best median of all settings".to_owned()];
    head.extend(book.targets.iter().cloned());
    head.extend(
        others
            .iter()
            .map(|target| format!("{target} ÷ {}", book.targets[0])),
    );
    let mut rows = Rows::new(head);
    for workload in &book.workloads {
        let series: Vec<&Series> = book
            .series
            .iter()
            .filter(|one| one.workload == *workload)
            .collect();
        let mut seen: Vec<&str> = Vec::new();
        for panel in Panel::all(&series) {
            if seen.contains(&panel.figure) {
                continue;
            }
            seen.push(panel.figure);
            let of: Vec<&Series> = series
                .iter()
                .filter(|one| one.figure == panel.figure)
                .copied()
                .collect();
            rows.add(overview_row(book, workload, &of));
        }
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
        let beside: Vec<Beside> = of
            .iter()
            .filter(|one| one.target == *target)
            .filter_map(|one| Beside::of(one, book.at(one, &book.targets[0])?))
            .collect();
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

fn notes(book: &Book) -> String {
    let runs = book.results.runs.len();
    let seconds: f64 = book.results.runs.iter().map(|run| run.seconds).sum();
    format!(
        "<p class=\"small\">{runs} runs, {} minutes. Bars and points are medians, the thin lines reach from the smallest to the largest \
         run. Ratios are geometric means over all settings. {}</p>",
        number(seconds / 60.0),
        escape(&crate::results::compare::legend())
    )
}
