//! Every fact stands on this kernel.

use std::path::Path;

use gupfs_contract::{ALL, Running, Verdict, try_all};
use gupfs_fuse::Transport;
use gupfs_fuse::over_io_uring::{self, Support};

fn can_try() -> bool {
    let ring = matches!(over_io_uring::support(), Support::Ready);
    let can = Path::new("/dev/fuse").exists() && (crate::TRANSPORT == Transport::Device || ring);
    if !can {
        eprintln!("SKIPPED: this machine has no FUSE of that kind");
    }
    can
}

#[test]
fn every_fact_stands() {
    if !can_try() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let place = tempfile::tempdir().unwrap();
    let running = Running::new(crate::TRANSPORT, place.path().into());
    let findings = runtime.block_on(try_all(&running, |_| true));
    let mut differs = Vec::new();
    for finding in &findings {
        println!(
            "{:?}: {}: {:?}",
            finding.rule, finding.fact, finding.verdict
        );
        match &finding.verdict {
            Verdict::Stands => {}
            Verdict::Untried(why) => eprintln!("SKIPPED: {}: {why}", finding.fact),
            Verdict::Differs(how) => differs.push(format!("{}: {how}", finding.fact)),
        }
    }
    assert_eq!(findings.len(), ALL.len());
    assert_eq!(differs, Vec::<String>::new());
}

#[test]
fn facts_have_names_of_their_own() {
    for fact in ALL {
        assert_eq!(
            ALL.iter().filter(|other| other.name == fact.name).count(),
            1
        );
    }
}
