//! The model of the kernel does what the contract says of Linux; and each fact notices a kernel that does otherwise.

use gupfs_contract::{ALL, Finding, Verdict, try_all};
use gupfs_sim::kernel::{Model, Quirk};

fn tried(quirk: Option<Quirk>) -> Vec<Finding> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(try_all(&Model { quirk }, |_| true))
}

#[test]
fn every_fact_stands_on_the_model() {
    let findings = tried(None);
    assert_eq!(findings.len(), ALL.len());
    for finding in findings {
        assert_eq!(finding.verdict, Verdict::Stands, "{}", finding.fact);
    }
}

/// What each quirk breaks, and nothing else.
const QUIRKS: &[(Quirk, &[&str])] = &[
    (
        Quirk::AttributesNeverAgain,
        &[
            "new attributes drop the pages of a cached file",
            "with a write back cache growth elsewhere is not seen",
            "what is believed for no time is asked for again",
            "what is believed for a time is asked for after it",
            "pages of a dead server are not served after their lifetime",
            "the answer to a link brings old attributes back",
            "an invalidation makes attributes unknown",
        ],
    ),
    (
        Quirk::LinkHasVersion,
        &["the answer to a link brings old attributes back"],
    ),
    (
        Quirk::LookupHasVersion,
        &["an invalidation that passes a lookup is lost"],
    ),
    (
        Quirk::InvalidationIgnored,
        &[
            "the answer to a link brings old attributes back",
            "an invalidation makes attributes unknown",
        ],
    ),
    (
        Quirk::NamesSurvive,
        &[
            "an invalidated name is looked up again",
            "that a name is absent is remembered",
        ],
    ),
    (
        Quirk::NamesWithoutLock,
        &["an invalidated name waits for a create in its directory"],
    ),
    (
        Quirk::EpochWaits,
        &[
            "a new epoch waits for nobody and makes names old",
            "a listing under way survives a new epoch",
        ],
    ),
    (
        Quirk::ListingHasEpoch,
        &["a listing under way survives a new epoch"],
    ),
    (
        Quirk::CoverStays,
        &["a new epoch unmounts what is mounted on the tree"],
    ),
    (
        Quirk::PagesSurviveAttributes,
        &["new attributes drop the pages of a cached file"],
    ),
    (
        Quirk::PagesWithoutLock,
        &[
            "invalidated pages wait for the read that fills them",
            "invalidated pages are written first if they are dirty",
        ],
    ),
    (
        Quirk::AttributesWaitForPages,
        &["invalidated attributes wait for no read"],
    ),
    (
        Quirk::OwnerEverywhere,
        &[
            "only a read past the page cache names its owner",
            "splice fills pages whatever the file is",
        ],
    ),
    (
        Quirk::SpliceDirect,
        &["splice fills pages whatever the file is"],
    ),
    (
        Quirk::StoresAreWritten,
        &[
            "invalidated pages are written first if they are dirty",
            "a store into a mapped page asks nobody",
        ],
    ),
    (
        Quirk::PagesSurviveWrites,
        &[
            "a write past the page cache drops the pages it covers",
            "pages that are filled while they are written are dropped afterwards",
        ],
    ),
    (
        Quirk::PagesDropBefore,
        &["pages that are filled while they are written are dropped afterwards"],
    ),
    (
        Quirk::OpensWaitForAll,
        &["an open for the page cache waits for no later write"],
    ),
    (
        Quirk::CreateHasVersion,
        &["the answer to a create brings old attributes back"],
    ),
    (
        Quirk::AbsenceForgotten,
        &["that a name is absent is remembered"],
    ),
    (
        Quirk::DirtyPagesVanish,
        &["invalidated pages are written first if they are dirty"],
    ),
    (
        Quirk::WritesOneByOne,
        &["writes within a file go beside each other"],
    ),
    (
        Quirk::ExtendingTogether,
        &["writes that extend a file go one by one"],
    ),
    (Quirk::AppendAsks, &["the offset of an append may be old"]),
    (Quirk::FlockUnlocks, &[]),
    (
        Quirk::FlockStays,
        &["a flock is given back at the release of its file"],
    ),
    (Quirk::FlushByNobody, &["a close tells whose records go"]),
    (
        Quirk::WritebackBelieves,
        &["with a write back cache growth elsewhere is not seen"],
    ),
    (
        Quirk::PagesDieWithServer,
        &["explicit invalidation serves the pages of a dead server"],
    ),
];

#[test]
fn each_fact_notices_a_kernel_that_does_otherwise() {
    for (quirk, facts) in QUIRKS {
        let findings = tried(Some(*quirk));
        let broken = findings
            .iter()
            .filter(|finding| finding.verdict != Verdict::Stands);
        let broken: Vec<&str> = broken.map(|finding| finding.fact.as_str()).collect();
        assert_eq!(broken, *facts, "{quirk:?}");
    }
    for fact in ALL {
        let notices = |broken: &[&str]| broken.contains(&&*fact.says());
        let broken = QUIRKS.iter().any(|(_, facts)| notices(facts));
        assert!(broken, "nothing breaks: {}", fact.says());
    }
}
