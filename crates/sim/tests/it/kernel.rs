//! The model of the kernel behaves as the contract says of Linux, and each probe detects a kernel that deviates.

use gupfs_contract::{ALL, NOT_MODELLED, ProbeOutcome, ProbeReport, probe_all};
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
        if !is_modelled(&report) {
            continue;
        }
        assert_eq!(report.outcome, ProbeOutcome::Holds, "{}", report.behaviour);
    }
}

/// Whether the model has the operations that the probe needs. The other behaviours are probed on the running kernel only.
fn is_modelled(report: &ProbeReport) -> bool {
    match &report.outcome {
        ProbeOutcome::Untested(why) => !why.starts_with(NOT_MODELLED),
        _ => true,
    }
}

#[test]
fn the_model_lacks_only_these_operations() {
    let mut lacks: Vec<String> = probe_model(None)
        .into_iter()
        .filter_map(|report| match report.outcome {
            ProbeOutcome::Untested(why) => Some(why),
            _ => None,
        })
        .collect();
    lacks.sort();
    lacks.dedup();
    let lacking = [
        "ACLs",
        "FORGET",
        "FUSE_NOTIFY_DELETE",
        "O_TRUNC",
        "chmod",
        "link counts",
        "mapped loads",
        "mkdir",
        "sendfile",
        "the bytes of splice",
        "working directories",
    ];
    assert_eq!(lacks, lacking.map(|what| format!("{NOT_MODELLED} {what}")));
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
            "attributes of a listing are requested again after their lifetime",
            "attributes of an aborted connection are not served after their lifetime",
            "pages of an aborted connection are not served after their lifetime",
            "a link reply replaces newer attributes",
            "an invalidation drops cached attributes",
            "a getattr reply that an invalidation overtakes is not cached",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a listing that an invalidation overtakes refreshes no known inode",
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
            "a getattr reply that an invalidation overtakes is not cached",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a listing that an invalidation overtakes refreshes no known inode",
        ],
    ),
    (
        Quirk::DentriesSurviveInvalidation,
        &[
            "an invalidated name is looked up again",
            "an invalidation of an unknown name is reported",
            "a negative dentry is cached",
            "a file that is open survives the invalidation of its name",
            "a name invalidation unmounts a file system mounted there",
        ],
    ),
    (
        Quirk::EntryInvalidationTakesNoLock,
        &[
            "a name invalidation waits for a create in its directory",
            "a name invalidation waits for a lookup in its directory",
            "a name invalidation waits for a listing of its directory",
        ],
    ),
    (
        Quirk::EpochWaitsForDirectory,
        &[
            "inc epoch waits for no lock and expires all names",
            "inc epoch passes a name invalidation that waits",
            "names of a lookup in flight expire with inc epoch",
            "the name of a create in flight expires with inc epoch",
            "the name of a link in flight expires with inc epoch",
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
        &[
            "a page invalidation writes dirty pages first",
            "a direct read writes dirty mapped pages first",
        ],
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
    (
        Quirk::NamesNeverExpire,
        &[
            "names are looked up again after their lifetime",
            "absent names are looked up again after their lifetime",
            "names of a listing are looked up again after their lifetime",
            "names of an aborted connection are not served after their lifetime",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a forget counts every reply that named the inode",
        ],
    ),
    (
        Quirk::NoIncEpoch,
        &[
            "inc epoch waits for no lock and expires all names",
            "inc epoch passes a name invalidation that waits",
            "names of a lookup in flight expire with inc epoch",
            "the name of a create in flight expires with inc epoch",
            "the name of a link in flight expires with inc epoch",
            "names of a listing in flight survive inc epoch",
            "inc epoch keeps attributes and pages",
            "inc epoch unmounts file systems mounted inside the mount",
        ],
    ),
    (
        Quirk::EpochSparesRepliesInFlight,
        &[
            "names of a lookup in flight expire with inc epoch",
            "the name of a create in flight expires with inc epoch",
            "the name of a link in flight expires with inc epoch",
        ],
    ),
    (
        Quirk::EpochDropsPages,
        &["inc epoch keeps attributes and pages"],
    ),
    (
        Quirk::InodeInvalidationDropsNames,
        &["an inode invalidation of a directory keeps its names"],
    ),
    (
        Quirk::UnknownInodeAccepted,
        &[
            "an invalidation of an unknown inode is reported",
            "an invalidation during a lookup is lost",
        ],
    ),
    (
        Quirk::UnknownNameAccepted,
        &["an invalidation of an unknown name is reported"],
    ),
    (
        Quirk::RepliesHaveNoVersion,
        &[
            "a getattr reply that an invalidation overtakes is not cached",
            "a lookup reply that an invalidation overtakes refreshes no known inode",
            "a listing that an invalidation overtakes refreshes no known inode",
        ],
    ),
    (
        Quirk::ListingsNotCached,
        &[
            "names and attributes of a listing are cached",
            "names of a listing in flight survive inc epoch",
        ],
    ),
    (
        Quirk::OpensKeepPages,
        &["an open without keep cache drops the pages"],
    ),
    (
        Quirk::OpensDropPages,
        &["an open with keep cache keeps the pages"],
    ),
    (
        Quirk::PagesSurviveInvalidation,
        &[
            "an invalidation drops pages",
            "a read that an invalidation overtakes leaves no page",
            "a page invalidation waits for the read that fills the page",
            "a page invalidation writes dirty pages first",
        ],
    ),
    (
        Quirk::AttributesDropPages,
        &[
            "new attributes drop the pages of a cached file",
            "new content under the same size and mtime is not noticed",
        ],
    ),
    (
        Quirk::DirectFilesNotMapped,
        &[
            "a file open for direct io can be mapped shared",
            "a direct read writes dirty mapped pages first",
        ],
    ),
    (
        Quirk::DirectFilesAlwaysMapped,
        &["without direct io allow mmap it cannot be mapped"],
    ),
    (
        Quirk::DirectReadsIgnoreDirtyPages,
        &["a direct read writes dirty mapped pages first"],
    ),
    (
        Quirk::DirectReadsCutAtCachedSize,
        &["a direct read is not cut at the cached size"],
    ),
];

#[test]
fn each_probe_detects_a_kernel_that_deviates() {
    for (quirk, behaviours) in QUIRKS {
        let reports = probe_model(Some(*quirk));
        let broken = reports
            .iter()
            .filter(|report| is_modelled(report) && report.outcome != ProbeOutcome::Holds);
        let broken: Vec<&str> = broken.map(|report| report.behaviour.as_str()).collect();
        assert_eq!(broken, *behaviours, "{quirk:?}");
    }
    let modelled = probe_model(None)
        .iter()
        .map(is_modelled)
        .collect::<Vec<_>>();
    for (behaviour, _) in ALL.iter().zip(modelled).filter(|(_, modelled)| *modelled) {
        let is_broken = |broken: &[&str]| broken.contains(&&*behaviour.sentence());
        let broken = QUIRKS.iter().any(|(_, behaviours)| is_broken(behaviours));
        assert!(broken, "nothing breaks: {}", behaviour.sentence());
    }
}
