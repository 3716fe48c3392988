//! The model of the kernel behaves as the contract says of Linux, and each probe detects a kernel that deviates.

use gupfs_contract::{ALL, ProbeOutcome, ProbeReport, probe_all};
use gupfs_sim::kernel::{Model, Quirk};

fn tried(quirk: Option<Quirk>) -> Vec<ProbeReport> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(probe_all(&Model { quirk }, |_| true))
}

#[test]
fn every_behaviour_holds_on_the_model() {
    let findings = tried(None);
    assert_eq!(findings.len(), ALL.len());
    for finding in findings {
        assert_eq!(
            finding.outcome,
            ProbeOutcome::Holds,
            "{}",
            finding.behaviour
        );
    }
}

/// The behaviours that each quirk breaks; all others hold.
const QUIRKS: &[(Quirk, &[&str])] = &[
    (
        Quirk::AttributesNeverAgain,
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
        Quirk::InvalidationIgnored,
        &[
            "a link reply replaces newer attributes",
            "an invalidation drops cached attributes",
        ],
    ),
    (
        Quirk::NamesSurvive,
        &[
            "an invalidated name is looked up again",
            "a negative dentry is cached",
        ],
    ),
    (
        Quirk::NamesWithoutLock,
        &["a name invalidation waits for a create in its directory"],
    ),
    (
        Quirk::EpochWaits,
        &[
            "inc epoch waits for no lock and expires all names",
            "names of a listing in flight survive inc epoch",
        ],
    ),
    (
        Quirk::ListingHasEpoch,
        &["names of a listing in flight survive inc epoch"],
    ),
    (
        Quirk::CoverStays,
        &["inc epoch unmounts file systems mounted inside the mount"],
    ),
    (
        Quirk::PagesSurviveAttributes,
        &["new attributes drop the pages of a cached file"],
    ),
    (
        Quirk::PagesWithoutLock,
        &[
            "a page invalidation waits for the read that fills the page",
            "a page invalidation writes dirty pages first",
        ],
    ),
    (
        Quirk::AttributesWaitForPages,
        &["an attribute invalidation waits for no read"],
    ),
    (
        Quirk::OwnerEverywhere,
        &[
            "only a direct read carries a lock owner",
            "splice fills the page cache of a direct file",
        ],
    ),
    (
        Quirk::SpliceDirect,
        &["splice fills the page cache of a direct file"],
    ),
    (
        Quirk::StoresAreWritten,
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
        Quirk::OpensWaitForAll,
        &["a cached open waits for no later direct write"],
    ),
    (
        Quirk::CreateHasVersion,
        &["a create reply replaces newer attributes"],
    ),
    (Quirk::AbsenceForgotten, &["a negative dentry is cached"]),
    (
        Quirk::DirtyPagesVanish,
        &["a page invalidation writes dirty pages first"],
    ),
    (
        Quirk::WritesOneByOne,
        &["direct writes within the file run in parallel"],
    ),
    (
        Quirk::ExtendingTogether,
        &["direct writes that extend the file run one at a time"],
    ),
    (Quirk::AppendAsks, &["the offset of an append may be stale"]),
    (Quirk::FlockUnlocks, &[]),
    (Quirk::FlockStays, &["closing a file releases its flock"]),
    (
        Quirk::FlushByNobody,
        &["a close names the owner whose posix locks it releases"],
    ),
    (
        Quirk::WritebackBelieves,
        &["with a writeback cache growth on the server is not seen"],
    ),
    (
        Quirk::PagesDieWithServer,
        &["with explicit inval data pages outlive an aborted connection"],
    ),
];

#[test]
fn each_probe_detects_a_kernel_that_deviates() {
    for (quirk, facts) in QUIRKS {
        let findings = tried(Some(*quirk));
        let broken = findings
            .iter()
            .filter(|finding| finding.outcome != ProbeOutcome::Holds);
        let broken: Vec<&str> = broken.map(|finding| finding.behaviour.as_str()).collect();
        assert_eq!(broken, *facts, "{quirk:?}");
    }
    for fact in ALL {
        let notices = |broken: &[&str]| broken.contains(&&*fact.sentence());
        let broken = QUIRKS.iter().any(|(_, facts)| notices(facts));
        assert!(broken, "nothing breaks: {}", fact.sentence());
    }
}
