//! The model of the kernel behaves as the contract says of Linux, and each probe detects a kernel that deviates.

use gupfs_contract::{ALL, ProbeOutcome, ProbeReport, probe_all};
use gupfs_sim::kernel::{Model, Quirk};
use quirks::QUIRKS;

mod above_gupfs;
mod mapped_files;
mod quirks;
mod random;
mod tree;
mod tree_server;

fn probe_model(quirk: Option<Quirk>) -> Vec<ProbeReport> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(probe_all(&Model { quirk }, |_| true))
}

#[test]
fn every_behaviour_holds_on_the_model() {
    let reports = probe_model(None);
    assert_eq!(reports.len(), ALL.len());
    for report in reports {
        assert_eq!(report.outcome, ProbeOutcome::Holds, "{}", report.behaviour);
    }
}

#[test]
fn each_probe_detects_a_kernel_that_deviates() {
    for (quirk, behaviours) in QUIRKS {
        let reports = probe_model(Some(*quirk));
        let broken = reports
            .iter()
            .filter(|report| report.outcome != ProbeOutcome::Holds);
        let broken: Vec<&str> = broken.map(|report| report.behaviour.as_str()).collect();
        assert_eq!(broken, *behaviours, "{quirk:?}");
    }
    for behaviour in ALL {
        let is_broken = |broken: &[&str]| broken.contains(&&*behaviour.sentence());
        let broken = QUIRKS.iter().any(|(_, behaviours)| is_broken(behaviours));
        assert!(broken, "nothing breaks: {}", behaviour.sentence());
    }
}
