//! The page docs/kernel.md lists every behaviour, as the table of probes has it.

use gupfs_contract::{ALL, KernelBehaviour, RequirementLevel};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernel.md");

/// What gupfs does on a kernel without the behaviour.
fn without(behaviour: &KernelBehaviour) -> &'static str {
    match behaviour.requirement {
        RequirementLevel::Required => "does not mount",
        RequirementLevel::ForPageCache => "direct I/O",
        RequirementLevel::ForSharing if behaviour.caches.is_empty() => "not shared",
        RequirementLevel::ForSharing => "no such cache",
        RequirementLevel::Tolerated => "works",
    }
}

fn row(behaviour: &KernelBehaviour) -> String {
    let caches: Vec<String> = behaviour.caches.iter().map(ToString::to_string).collect();
    format!(
        "| {} | {} | {} | {} | {} |",
        behaviour.sentence(),
        behaviour.done,
        behaviour.seen,
        caches.join(", "),
        without(behaviour),
    )
}

#[test]
fn the_page_lists_every_behaviour() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| behaviour"))
        .collect();
    let rows: Vec<String> = ALL.iter().map(row).collect();
    assert_eq!(
        listed,
        rows,
        "docs/kernel.md must have these rows:\n{}",
        rows.join("\n")
    );
}
