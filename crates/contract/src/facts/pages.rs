//! The page cache: who fills it, what empties it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use gupfs_fuse::InitFlags;

use super::{A_WHILE, ALL_OF_THEM, CACHED, DIRECT, FILE, both, one_file, word_waits};
use crate::fact::{Otherwise, Tried, given, is};
use crate::linux::{Flags, How, Linux, OpenFile, Tree, Word};
use crate::probe::{BYTE, Probe};

const SHORT: Duration = Duration::from_millis(50);

/// With AUTO_INVAL_DATA, by size or by time.
pub async fn new_attributes_drop_the_pages_of_a_cached_file<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    probe.believed_for(FILE, Duration::ZERO);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Read).await?;
    given("first byte", file.read(0).await?, Some(BYTE))?;
    probe.asked();
    given("first byte, again", file.read(0).await?, Some(BYTE))?;
    given("reads of what is cached", probe.asked_for("read", FILE), 0)?;
    probe.change(FILE, 10_000, b'b');
    is(
        "first byte, with a new time",
        file.read(0).await?,
        Some(b'b'),
    )?;
    probe.change(FILE, 12_000, b'c');
    is(
        "first byte, with a new size",
        file.read(0).await?,
        Some(b'c'),
    )?;
    is("size", tree.size("file").await?, 12_000)
}

async fn served_by_a_dead_server<L: Linux>(linux: &L, flags: Flags) -> Result<bool, Otherwise> {
    let probe = one_file(CACHED);
    probe.believed_for(FILE, SHORT);
    let tree = linux.mount(&probe, flags).await?;
    let file = tree.open("file", How::Read).await?;
    given("first byte", file.read(0).await?, Some(BYTE))?;
    tree.abort().await?;
    tokio::time::sleep(2 * SHORT).await;
    Ok(file.read(0).await.is_ok())
}

pub async fn pages_of_a_dead_server_are_not_served_after_their_lifetime<L: Linux>(
    linux: &L,
) -> Tried {
    let served = served_by_a_dead_server(linux, Flags::usual()).await?;
    is("served", served, false)
}

/// Why EXPLICIT_INVAL_DATA is never agreed on.
pub async fn explicit_invalidation_serves_the_pages_of_a_dead_server<L: Linux>(linux: &L) -> Tried {
    let flags = Flags::usual()
        .with(InitFlags::EXPLICIT_INVAL_DATA)
        .without(InitFlags::AUTO_INVAL_DATA);
    is("served", served_by_a_dead_server(linux, flags).await?, true)
}

/// So nobody who must answer the READ may wait for the notification.
pub async fn invalidated_pages_wait_for_the_read_that_fills_them<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Read).await?;
    let gate = probe.hold("read");
    word_waits(&tree, Word::pages(FILE), &gate, file.read(0)).await
}

pub async fn invalidated_attributes_wait_for_no_read<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Read).await?;
    let gate = probe.hold("read");
    let meanwhile = async {
        gate.reached(1).await?;
        tree.tell(Word::attributes(FILE)).await?;
        gate.let_go(ALL_OF_THEM);
        Ok(())
    };
    both(file.read(0), meanwhile).await.map(drop)
}

pub async fn only_a_read_past_the_page_cache_names_its_owner<L: Linux>(linux: &L) -> Tried {
    let probe = Probe::default().file(8, "cached", CACHED);
    let probe = Arc::new(probe.file(FILE, "direct", DIRECT));
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let cached = tree.open("cached", How::Read).await?;
    let direct = tree.open("direct", How::Read).await?;
    probe.asked();
    cached.read(0).await?;
    direct.read(0).await?;
    let asked = probe.asked();
    let reads = asked.iter().filter(|what| what.starts_with("read "));
    is(
        "asked for",
        reads.map(String::as_str).collect(),
        vec!["read 8 at 0", "read 9 at 0 with owner"],
    )
}

pub async fn splice_fills_pages_whatever_the_file_is<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(DIRECT);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Read).await?;
    probe.asked();
    file.splice().await?;
    let asked = probe.asked();
    let cached = |what: &&String| what.starts_with("read 9 ") && !what.contains("owner");
    is(
        "reads for the page cache",
        asked.iter().filter(cached).count() > 0,
        true,
    )
}

pub async fn a_store_into_a_mapped_page_asks_nobody<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::ReadWrite).await?;
    file.store(b'x').await?;
    probe.asked();
    file.store(b'y').await?;
    let asked = probe.asked();
    let about = asked.iter().filter(|what| what.contains(" 9 "));
    is("asked for", about.collect::<Vec<_>>(), Vec::new())
}

/// So the server must take a WRITE while it waits for the notification.
pub async fn invalidated_pages_are_written_first_if_they_are_dirty<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::ReadWrite).await?;
    file.store(b'x').await?;
    let gate = probe.hold("write");
    let told = Cell::new(false);
    let telling = async {
        tree.tell(Word::pages(FILE)).await?;
        told.set(true);
        Ok::<(), Otherwise>(())
    };
    let meanwhile = async {
        gate.reached(1).await?;
        tokio::time::sleep(A_WHILE).await;
        is("told while they are written", told.get(), false)?;
        gate.let_go(1);
        Ok(())
    };
    both(telling, meanwhile).await
}
