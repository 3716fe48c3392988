//! Plans that are part of the program.

use clap::Args;

use super::Plan;

const TEXTS: [(&str, &str); 4] = [
    ("quick", include_str!("quick.toml")),
    ("seeds", include_str!("seeds.toml")),
    ("ior-milestone", include_str!("ior-milestone.toml")),
    ("io500-shape", include_str!("io500-shape.toml")),
];

pub fn find(name: &str) -> Option<&'static str> {
    TEXTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

pub fn names() -> Vec<&'static str> {
    TEXTS.iter().map(|(name, _)| *name).collect()
}

/// List the plans that ship, or print one to start one's own from
#[derive(Args, Clone, Debug)]
pub struct ListPlans {
    /// Print this plan
    #[arg(value_name = "PLAN", value_parser = names())]
    print: Option<String>,
}

impl ListPlans {
    pub fn run(&self) {
        if let Some(text) = self.print.as_deref().and_then(find) {
            print!("{text}");
            return;
        }
        for (name, text) in TEXTS {
            println!("{name:<14} {}", plan(name, text).about);
        }
    }
}

fn plan(name: &str, text: &str) -> Plan {
    Plan::parse(text, std::path::Path::new(name)).expect("a test reads each plan")
}

#[test]
fn each_plan_can_be_run_with_a_target() {
    use super::file::Target;
    let target = "name = 'here'\ndir = '/'";
    let target: Target = toml::from_str(target).unwrap();
    for (name, text) in TEXTS {
        let mut plan = plan(name, text);
        assert_eq!(plan.name, name);
        assert!(!plan.about.is_empty());
        plan.targets.push(target.clone());
        plan.resolve(&super::value::MachineNumbers {
            cpus: 4,
            memory: 16 << 30,
        })
        .unwrap();
        plan.check().unwrap();
    }
}

#[test]
fn the_seeds_have_every_program_but_the_one_that_needs_a_fault() {
    use std::collections::BTreeSet;
    let text = find("seeds").unwrap();
    let workloads = plan("seeds", text).workloads;
    let used: BTreeSet<&str> = workloads.iter().map(|one| &*one.program).collect();
    let missing: Vec<_> = crate::workload::NAMES
        .into_iter()
        .filter(|program| !used.contains(program))
        .collect();
    assert_eq!(missing, ["reliability"]);
    for one in &workloads {
        let names_source = ["section", "HEPiX", "OSC", "Table"];
        assert!(
            names_source.iter().any(|source| one.about.contains(source)),
            "{}: {}",
            one.name,
            one.about
        );
    }
}
