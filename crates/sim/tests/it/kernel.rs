//! The model of the kernel behaves as the contract says of Linux, and each probe detects a kernel that deviates.

use gupfs_contract::{ALL, ProbeOutcome, ProbeReport, probe_all};
use gupfs_sim::kernel::{Model, Quirk};

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

/// The behaviours that each quirk breaks; all others hold.
const QUIRKS: &[(Quirk, &[&str])] = &[
    (
        Quirk::AttributesNeverExpire,
        &[
            "new attributes drop the pages of a cached file",
            "with a writeback cache growth on the server is not seen",
            "attributes with lifetime zero are requested again",
            "attributes are requested again after their lifetime",
            "pages of an aborted connection are not served after their lifetime",
            "a link reply replaces newer attributes",
            "an invalidation drops cached attributes",
        ],
    ),
    (
        Quirk::LinkHasVersion,
        &["a link reply replaces newer attributes"],
    ),
    (
        Quirk::LookupHasVersion,
        &["an invalidation during a lookup is lost"],
    ),
    (
        Quirk::InodeInvalidationIgnored,
        &[
            "a link reply replaces newer attributes",
            "an invalidation drops cached attributes",
        ],
    ),
    (
        Quirk::DentriesSurviveInvalidation,
        &[
            "an invalidated name is looked up again",
            "a negative dentry is cached",
        ],
    ),
    (
        Quirk::EntryInvalidationTakesNoLock,
        &["a name invalidation waits for a create in its directory"],
    ),
    (
        Quirk::EpochWaitsForDirectory,
        &[
            "inc epoch waits for no lock and expires all names",
            "names of a listing in flight survive inc epoch",
        ],
    ),
    (
        Quirk::ListingKeepsRequestEpoch,
        &["names of a listing in flight survive inc epoch"],
    ),
    (
        Quirk::CoveringMountStays,
        &["inc epoch unmounts file systems mounted inside the mount"],
    ),
    (
        Quirk::PagesSurviveAttributes,
        &["new attributes drop the pages of a cached file"],
    ),
    (
        Quirk::PageInvalidationTakesNoLock,
        &[
            "a page invalidation waits for the read that fills the page",
            "a page invalidation writes dirty pages first",
        ],
    ),
    (
        Quirk::AttributeInvalidationWaitsForPages,
        &["an attribute invalidation waits for no read"],
    ),
    (
        Quirk::CachedReadsCarryOwner,
        &[
            "only a direct read carries a lock owner",
            "splice fills the page cache of a direct file",
        ],
    ),
    (
        Quirk::SpliceBypassesPageCache,
        &["splice fills the page cache of a direct file"],
    ),
    (
        Quirk::MappedStoresWriteThrough,
        &[
            "a page invalidation writes dirty pages first",
            "a store into a mapped page sends no request",
        ],
    ),
    (
        Quirk::PagesSurviveWrites,
        &[
            "a direct write drops the pages it covers",
            "pages filled during a direct write are dropped after it",
        ],
    ),
    (
        Quirk::PagesDropBefore,
        &["pages filled during a direct write are dropped after it"],
    ),
    (
        Quirk::OpensDoNotStopParallelWrites,
        &["a cached open waits for no later direct write"],
    ),
    (
        Quirk::CreateHasVersion,
        &["a create reply replaces newer attributes"],
    ),
    (
        Quirk::NegativeDentriesNotCached,
        &["a negative dentry is cached"],
    ),
    (
        Quirk::DirtyPagesDropped,
        &["a page invalidation writes dirty pages first"],
    ),
    (
        Quirk::DirectWritesSerialized,
        &["direct writes within the file run in parallel"],
    ),
    (
        Quirk::ExtendingWritesParallel,
        &["direct writes that extend the file run one at a time"],
    ),
    (
        Quirk::AppendRevalidatesSize,
        &["the offset of an append may be stale"],
    ),
    (Quirk::FlockUnlockedBeforeRelease, &[]),
    (
        Quirk::FlockReleaseNotReported,
        &["closing a file releases its flock"],
    ),
    (
        Quirk::FlushWithoutOwner,
        &["a close names the owner whose posix locks it releases"],
    ),
    (
        Quirk::WritebackTakesServerSize,
        &["with a writeback cache growth on the server is not seen"],
    ),
    (
        Quirk::PagesDroppedOnAbort,
        &["with explicit inval data pages outlive an aborted connection"],
    ),
];

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
