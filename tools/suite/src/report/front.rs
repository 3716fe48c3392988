//! The first page: the targets, the verdict in sentences, one table.

use std::fmt::Write;

use gupfs_kit::html::escape;

use super::data::ReportData;
use super::html::{HtmlTable, paragraph, slug, small};
use super::plot::PageItem;
use super::{overview, verdict};
use crate::results::compare::{legend, number};
use crate::results::series::show;
use crate::results::{Cache, FinishedRun, Machine};

pub fn parts(data: &ReportData) -> Vec<PageItem> {
    let mut top = format!(
        "<header><h1>{}</h1>{}</header>\n{}<section id=\"verdict\"><h2>What came of it</h2>",
        escape(&title(data)),
        small(&subtitle(data)),
        warnings(data)
    );
    top += &verdict::html(data);
    let mut parts = vec![PageItem::Html(top)];
    match data.targets.len() {
        1 => parts.push(PageItem::Html(overview::overview(data).html())),
        _ => parts.extend(overview::plot(data).map(PageItem::Front)),
    }
    let mut bottom = small(&how_to_read());
    let _ = write!(
        bottom,
        "</section>\n<section id=\"compared\"><h2>What was compared</h2>{}{}</section>\n",
        compared(data),
        contents(data)
    );
    parts.push(PageItem::Html(bottom));
    parts
}

fn subtitle(data: &ReportData) -> String {
    let runs = &data.results.runs;
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let mut days: Vec<&str> = runs.iter().filter_map(|run| run.date.get(..10)).collect();
    days.sort_unstable();
    days.dedup();
    let when = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first == last => format!(", {first}"),
        (Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    let plans: Vec<&str> = data.plans().map(|plan| plan.name.as_str()).collect();
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
        number((seconds / 60.0).ceil())
    )
}

fn contents(data: &ReportData) -> String {
    let has = |name: &&String| data.series.iter().any(|one| one.workload == **name);
    let links = data.workloads.iter().filter(has).map(|name| {
        let (to, name) = (slug(name), escape(name));
        format!("<a href=\"#{to}\">{name}</a>")
    });
    let links: Vec<String> = links.collect();
    format!(
        "<nav aria-label=\"workloads\">Workloads: {}</nav>",
        links.join(" · ")
    )
}

pub fn title(data: &ReportData) -> String {
    match data.targets.split_last() {
        Some((last, [])) => format!("How fast is {last}?"),
        Some((last, others)) => format!("{} and {last} compared", others.join(", ")),
        None => String::new(),
    }
}

fn warnings(data: &ReportData) -> String {
    let mut all = Vec::new();
    match data.missing() {
        0 => {}
        missing => all.push(format!(
            "This is not the whole: {missing} of the runs that the plans want are not in these results. Run them with --resume."
        )),
    }
    for failed in &data.results.failed {
        all.push(format!(
            "Failed: {} {} on {}: {}",
            failed.workload,
            show(&failed.setting),
            failed.target,
            failed.why.lines().last().unwrap_or_default()
        ));
    }
    let undropped = |run: &FinishedRun| run.cache == Cache::Undropped;
    if data.results.runs.iter().any(undropped) {
        all.push("Caches were not dropped before some runs, since that needs root: their reads may come from memory.".into());
    }
    let mut machines = data.results.headers.iter().map(|header| &header.machine);
    let first = machines.next();
    if machines.any(|machine| Some(machine) != first) {
        all.push("The runs are of several machines or kernels: differences between targets may be theirs.".into());
    }
    let unknown = |target: &&String| !data.targets.contains(target);
    let mut ceilings = data.results.ceilings.iter().map(|top| &top.target);
    if let Some(target) = ceilings.find(unknown) {
        all.push(format!(
            "Ceilings were measured for '{target}', and no run is of a target with that name: give `baseline` a --target that is in the plan."
        ));
    }
    all.iter()
        .map(|text| format!("<p class=\"warning\">{}</p>", escape(text)))
        .collect()
}

fn compared(data: &ReportData) -> String {
    let mut machines: Vec<String> = data
        .results
        .headers
        .iter()
        .map(|header| machine(&header.machine))
        .collect();
    machines.sort_unstable();
    machines.dedup();
    let mut head = vec!["target", "file system", "version", "when"];
    if machines.len() > 1 {
        head.push("machine");
    }
    let mut rows = HtmlTable::new(head);
    for name in &data.targets {
        let mut headers = data.results.headers.iter().rev();
        let Some(header) = headers.find(|header| header.places.contains_key(name)) else {
            continue;
        };
        let place = &header.places[name];
        let mut row = vec![
            name.clone(),
            format!("{} ({})", place.file_system, place.source),
            place.version.clone().unwrap_or_else(|| "–".into()),
            moment(&header.date),
        ];
        if machines.len() > 1 {
            row.push(machine(&header.machine));
        }
        rows.add(row);
    }
    match machines.as_slice() {
        [one] => paragraph(&format!("All programs ran on {one}.")) + &rows.html(),
        _ => rows.html(),
    }
}

fn machine(machine: &Machine) -> String {
    let memory = machine.memory_mb as f64 / 1024.0;
    format!(
        "{}: {} × {}, {memory:.1} GB, {}",
        machine.host, machine.cpus, machine.processor, machine.kernel
    )
}

/// Without seconds and without the letters between.
pub fn moment(date: &str) -> String {
    date.get(..16).unwrap_or(date).replace('T', " ")
}

fn how_to_read() -> String {
    format!(
        "How to read it: marks and bars are medians, thin lines reach from the smallest to the largest run. A ratio over several settings \
         is their geometric mean; small circles are single settings, hollow where the difference is within the noise or too few runs \
         can tell. Figures called published were measured by others, on other machines, decades ago: they show shapes, not rivals. {}",
        legend()
    )
}
