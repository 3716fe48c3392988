//! Names: what is on its way, and what waits for a directory's lock.

use gupfs_fuse::{Errno, NotifyError};

use super::{CACHED, FILE, both, one_file, word_waits};
use crate::fact::{Tried, given, is};
use crate::linux::{Flags, Linux, Tree, Word};
use crate::probe::SIZE;

/// The kernel does not know a node whose LOOKUP is not answered, and believes the answer afterwards.
pub async fn an_invalidation_that_passes_a_lookup_is_lost<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let gate = probe.hold("lookup");
    let meanwhile = async {
        gate.reached(1).await?;
        probe.change(FILE, 20_000, b'b');
        let told = tree.tell(Word::attributes(FILE)).await;
        is("the invalidation", told, Err(NotifyError::Unknown))?;
        gate.let_go(1);
        Ok(())
    };
    let seen = both(tree.size("file"), meanwhile).await?;
    given("size as it was asked for", seen, SIZE)?;
    is("size afterwards", tree.size("file").await?, SIZE)
}

pub async fn an_invalidated_name_is_looked_up_again<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    tree.size("file").await?;
    probe.asked();
    tree.size("file").await?;
    given(
        "looked up a known name",
        probe.asked_for("lookup", "file"),
        0,
    )?;
    tree.tell(Word::name("file")).await?;
    tree.size("file").await?;
    is("looked up the name", probe.asked_for("lookup", "file"), 1)
}

/// So who makes such a name elsewhere must take that back.
pub async fn that_a_name_is_absent_is_remembered<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let absent = |found: Result<u64, Errno>| given("size", found, Err(Errno::ENOENT));
    absent(tree.size("none").await)?;
    probe.asked();
    absent(tree.size("none").await)?;
    is("looked up the name", probe.asked_for("lookup", "none"), 0)?;
    tree.tell(Word::name("none")).await?;
    absent(tree.size("none").await)?;
    is("looked up afterwards", probe.asked_for("lookup", "none"), 1)
}

/// The create holds the directory's lock until it is answered; so nobody who must answer it may wait for the notification.
pub async fn an_invalidated_name_waits_for_a_create_in_its_directory<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    tree.size("file").await?;
    let gate = probe.hold("create");
    word_waits(&tree, Word::name("file"), &gate, tree.create("new")).await
}
