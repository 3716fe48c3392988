//! Attributes: how long they are believed, and what makes them unknown.

use std::time::Duration;

use gupfs_fuse::InitFlags;

use super::{CACHED, FILE, both, one_file};
use crate::fact::{Tried, given, is};
use crate::linux::{Flags, How, Linux, Tree, Word};
use crate::probe::{LONG, SIZE};

const SHORT: Duration = Duration::from_millis(50);

pub async fn what_is_believed_for_no_time_is_asked_for_again<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    probe.believed_for(FILE, Duration::ZERO);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    given("size", tree.size("file").await?, SIZE)?;
    probe.change(FILE, 20_000, b'b');
    is("size after it changed", tree.size("file").await?, 20_000)
}

pub async fn what_is_believed_for_a_time_is_asked_for_after_it<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    probe.believed_for(FILE, SHORT);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    given("size", tree.size("file").await?, SIZE)?;
    probe.change(FILE, 20_000, b'b');
    tokio::time::sleep(2 * SHORT).await;
    is("size after its time", tree.size("file").await?, 20_000)
}

/// What it brings is taken, however old it is: so it must not be believed.
pub async fn the_answer_to_a_link_brings_old_attributes_back<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    given("size", tree.size("file").await?, SIZE)?;
    let gate = probe.hold("link");
    let meanwhile = async {
        gate.reached(1).await?;
        probe.change(FILE, 20_000, b'b');
        tree.tell(Word::attributes(FILE)).await?;
        is("size after it changed", tree.size("file").await?, 20_000)?;
        gate.let_go(1);
        Ok(())
    };
    both(tree.link("file", "other"), meanwhile).await?;
    is("size after the link", tree.size("file").await?, SIZE)
}

/// As that to a link: an exclusive create finds no file, but another may find one that somebody else has made.
pub async fn the_answer_to_a_create_brings_old_attributes_back<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    probe.names_for(FILE, Duration::ZERO);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let _known = tree.open("file", How::Read).await?;
    given("size", tree.size("file").await?, SIZE)?;
    probe.hide(FILE);
    probe.names_for(FILE, LONG);
    let gate = probe.hold("create");
    let meanwhile = async {
        gate.reached(1).await?;
        probe.change(FILE, 20_000, b'b');
        tree.tell(Word::attributes(FILE)).await?;
        gate.let_go(1);
        Ok(())
    };
    both(tree.create("file"), meanwhile).await?;
    is("size after the create", tree.size("file").await?, SIZE)
}

pub async fn an_invalidation_makes_attributes_unknown<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    given("size", tree.size("file").await?, SIZE)?;
    probe.change(FILE, 20_000, b'b');
    given("size that is believed", tree.size("file").await?, SIZE)?;
    tree.tell(Word::attributes(FILE)).await?;
    is("size", tree.size("file").await?, 20_000)
}

/// The kernel is the authority on size and time then: this is why it is never agreed on.
pub async fn with_a_write_back_cache_growth_elsewhere_is_not_seen<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    probe.believed_for(FILE, Duration::ZERO);
    let flags = Flags::usual().with(InitFlags::WRITEBACK_CACHE);
    let tree = linux.mount(&probe, flags).await?;
    let _open = tree.open("file", How::Read).await?;
    given("size", tree.size("file").await?, SIZE)?;
    probe.change(FILE, 20_000, b'b');
    tree.tell(Word::pages(FILE)).await?;
    probe.asked();
    is("size after it changed", tree.size("file").await?, SIZE)?;
    is("asked for it", probe.asked_for("getattr", FILE) > 0, true)
}
