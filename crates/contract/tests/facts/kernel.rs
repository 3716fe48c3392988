//! Every fact holds on this kernel.

use std::path::Path;

use gupfs_contract::{ALL, FactVerdict, RunningKernel, try_all};
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
fn every_fact_holds() {
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
    let findings = runtime.block_on(try_all(&kernel, |_| true));
    let mut differs = Vec::new();
    for finding in &findings {
        println!(
            "{:?}: {}: {:?}",
            finding.rule, finding.fact, finding.verdict
        );
        match &finding.verdict {
            FactVerdict::Holds => {}
            FactVerdict::Untried(why) => {
                skip(Need::Kernel, format!("{}: {why}", finding.fact));
            }
            FactVerdict::Differs(how) => differs.push(format!("{}: {how}", finding.fact)),
        }
    }
    assert_eq!(findings.len(), ALL.len());
    assert_eq!(differs, Vec::<String>::new());
}

#[test]
fn facts_have_distinct_names() {
    for fact in ALL {
        assert_eq!(
            ALL.iter().filter(|other| other.name == fact.name).count(),
            1
        );
    }
}
