//! Every behaviour is that of this kernel.

use std::path::Path;

use gupfs_contract::{ALL, ProbeOutcome, RunningKernel, probe_all};
use gupfs_fuse::FuseTransport;
use gupfs_fuse::over_io_uring::{self, UringSupport};
use gupfs_skips::{Need, skip};

fn can_try() -> bool {
    if !Path::new("/dev/fuse").exists() {
        skip(Need::Fuse, "there is no /dev/fuse on this host");
        return false;
    }
    let support = over_io_uring::support();
    let ring = matches!(support, UringSupport::Ready);
    let can = crate::TRANSPORT == FuseTransport::Device || ring;
    if !can {
        skip(
            Need::FuseOverIoUring,
            format!("no FUSE over io_uring on this host: {support:?}"),
        );
    }
    can
}

#[test]
fn every_behaviour_holds() {
    if !can_try() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kernel = RunningKernel::new(crate::TRANSPORT, directory.path().into());
    let reports = runtime.block_on(probe_all(&kernel, |_| true));
    let mut differs = Vec::new();
    for report in &reports {
        println!(
            "{:?}: {}: {:?}",
            report.rule, report.behaviour, report.outcome
        );
        match &report.outcome {
            ProbeOutcome::Holds => {}
            ProbeOutcome::Untested(why) => {
                skip(Need::Kernel, format!("{}: {why}", report.behaviour));
            }
            ProbeOutcome::Differs(how) => differs.push(format!("{}: {how}", report.behaviour)),
        }
    }
    assert_eq!(reports.len(), ALL.len());
    assert_eq!(differs, Vec::<String>::new());
}

#[test]
fn behaviours_have_distinct_names() {
    for behaviour in ALL {
        assert_eq!(
            ALL.iter()
                .filter(|other| other.name == behaviour.name)
                .count(),
            1
        );
    }
}
