//! INC_EPOCH: all names become old at once.

use std::sync::Arc;

use gupfs_fuse::InitFlags;

use super::{ALL_OF_THEM, CACHED, FILE, both, one_file};
use crate::fact::{Tried, given, is};
use crate::linux::{Flags, Linux, Tree, Word};
use crate::probe::Probe;

pub async fn a_new_epoch_waits_for_nobody_and_makes_names_old<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    tree.size("file").await?;
    let gate = probe.hold("create");
    let meanwhile = async {
        gate.reached(1).await?;
        tree.tell(Word::Epoch).await?;
        tree.tell(Word::attributes(1)).await?;
        gate.let_go(1);
        Ok(())
    };
    both(tree.create("new"), meanwhile).await?;
    probe.asked();
    tree.size("file").await?;
    is("looked up the name", probe.asked_for("lookup", "file"), 1)
}

/// Names that a listing brings after the new epoch are of it, though they were read before.
pub async fn a_listing_under_way_survives_a_new_epoch<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let flags = Flags::usual().without(InitFlags::READDIRPLUS_AUTO);
    let tree = linux.mount(&probe, flags).await?;
    let gate = probe.hold("readdirplus");
    let meanwhile = async {
        gate.reached(1).await?;
        tree.tell(Word::Epoch).await?;
        gate.let_go(ALL_OF_THEM);
        Ok(())
    };
    let found = both(tree.list(), meanwhile).await?;
    given("names", found, vec!["file".to_owned()])?;
    probe.asked();
    tree.size("file").await?;
    is(
        "looked up what was listed",
        probe.asked_for("lookup", "file"),
        0,
    )?;
    tree.tell(Word::Epoch).await?;
    tree.size("file").await?;
    is(
        "looked up after one more",
        probe.asked_for("lookup", "file"),
        1,
    )
}

pub async fn a_new_epoch_unmounts_what_is_mounted_on_the_tree<L: Linux>(linux: &L) -> Tried {
    let probe = Arc::new(Probe::default().with(FILE, "dir", 0o040_777, CACHED));
    let tree = linux.mount(&probe, Flags::usual()).await?;
    tree.cover("dir").await?;
    given("covered", tree.is_covered("dir").await, true)?;
    tree.tell(Word::Epoch).await?;
    is("covered afterwards", tree.is_covered("dir").await, false)
}
