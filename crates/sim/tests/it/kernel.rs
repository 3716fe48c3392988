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

/// Which facts a quirk breaks; at least the first.
const QUIRKS: &[(Quirk, &str)] = &[
    (
        Quirk::AttributesNeverAgain,
        "what is believed for no time is asked for again",
    ),
    (
        Quirk::AttributesNeverAgain,
        "what is believed for a time is asked for after it",
    ),
    (
        Quirk::AttributesNeverAgain,
        "pages of a dead server are not served after their lifetime",
    ),
    (
        Quirk::LinkHasVersion,
        "the answer to a link brings old attributes back",
    ),
    (
        Quirk::LookupHasVersion,
        "an invalidation that passes a lookup is lost",
    ),
    (
        Quirk::InvalidationIgnored,
        "an invalidation makes attributes unknown",
    ),
    (
        Quirk::NamesSurvive,
        "an invalidated name is looked up again",
    ),
    (
        Quirk::NamesWithoutLock,
        "an invalidated name waits for a create in its directory",
    ),
    (
        Quirk::EpochWaits,
        "a new epoch waits for nobody and makes names old",
    ),
    (
        Quirk::ListingHasEpoch,
        "a listing under way survives a new epoch",
    ),
    (
        Quirk::CoverStays,
        "a new epoch unmounts what is mounted on the tree",
    ),
    (
        Quirk::PagesSurviveAttributes,
        "new attributes drop the pages of a cached file",
    ),
    (
        Quirk::PagesWithoutLock,
        "invalidated pages wait for the read that fills them",
    ),
    (
        Quirk::AttributesWaitForPages,
        "invalidated attributes wait for no read",
    ),
    (
        Quirk::OwnerEverywhere,
        "only a read past the page cache names its owner",
    ),
    (
        Quirk::SpliceDirect,
        "splice fills pages whatever the file is",
    ),
    (
        Quirk::StoresAreWritten,
        "a store into a mapped page asks nobody",
    ),
    (
        Quirk::WritesOneByOne,
        "writes within a file go beside each other",
    ),
    (
        Quirk::ExtendingTogether,
        "writes that extend a file go one by one",
    ),
    (Quirk::AppendAsks, "the offset of an append may be old"),
    (
        Quirk::FlockUnlocks,
        "a flock goes with the release of its file",
    ),
    (
        Quirk::WritebackBelieves,
        "with a write back cache growth elsewhere is not seen",
    ),
    (
        Quirk::PagesDieWithServer,
        "explicit invalidation serves the pages of a dead server",
    ),
];

#[test]
fn each_fact_notices_a_kernel_that_does_otherwise() {
    for (quirk, fact) in QUIRKS {
        let findings = tried(Some(*quirk));
        let of = findings.iter().find(|finding| finding.fact == *fact);
        let verdict = &of.unwrap().verdict;
        assert!(
            matches!(verdict, Verdict::Differs(_)),
            "{quirk:?}: {verdict:?}"
        );
        let differ = findings
            .iter()
            .filter(|finding| finding.verdict != Verdict::Stands);
        println!(
            "{quirk:?}: {:?}",
            differ.map(|finding| &finding.fact).collect::<Vec<_>>()
        );
    }
    for fact in ALL {
        let broken = QUIRKS.iter().any(|(_, broken)| fact.says() == *broken);
        assert!(broken, "nothing breaks: {}", fact.says());
    }
}
