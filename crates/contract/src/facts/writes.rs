//! Writes past the page cache, appends, locks.

use gupfs_fuse::OpenedFlags;

use super::{A_WHILE, CACHED, DIRECT, FILE, both, one_file};
use crate::fact::{Otherwise, Tried, given, is};
use crate::linux::{Flags, How, Linux, OpenFile, Tree};
use crate::probe::{BYTE, Probe, SIZE};

const PARALLEL: OpenedFlags = DIRECT.union(OpenedFlags::PARALLEL_DIRECT_WRITES);

/// Two writes from `at` on, of which `together` are asked for at the same time.
async fn two_writes<L: Linux>(linux: &L, at: u64, together: usize) -> Tried {
    let probe = one_file(PARALLEL);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let files = [
        tree.open("file", How::ReadWrite).await?,
        tree.open("file", How::ReadWrite).await?,
    ];
    let gate = probe.hold("write");
    let meanwhile = async {
        gate.reached(together).await?;
        tokio::time::sleep(A_WHILE).await;
        is("writes at a time", gate.waiting(), together)?;
        gate.let_go(2);
        Ok::<(), Otherwise>(())
    };
    let second = async { Ok(files[1].write(at + 4096, b"xxxx").await?) };
    both(both(files[0].write(at, b"xxxx"), meanwhile), second).await
}

pub async fn writes_within_a_file_go_beside_each_other<L: Linux>(linux: &L) -> Tried {
    two_writes(linux, 0, 2).await
}

pub async fn writes_that_extend_a_file_go_one_by_one<L: Linux>(linux: &L) -> Tried {
    two_writes(linux, 50_000, 1).await
}

/// A reader through the page cache and a writer past it, of one file.
async fn two_doors<T: Tree>(tree: &T, probe: &Probe) -> Result<(T::File, T::File), Otherwise> {
    probe.opens(FILE, OpenedFlags::KEEP_CACHE);
    let reader = tree.open("file", How::Read).await?;
    probe.opens(FILE, PARALLEL);
    Ok((reader, tree.open("file", How::ReadWrite).await?))
}

pub async fn a_write_past_the_page_cache_drops_the_pages_it_covers<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let (reader, writer) = two_doors(&tree, &probe).await?;
    given("first byte", reader.read(0).await?, Some(BYTE))?;
    writer.write(0, b"xxxx").await?;
    is("first byte afterwards", reader.read(0).await?, Some(b'x'))
}

pub async fn pages_that_are_filled_while_they_are_written_are_dropped_afterwards<L: Linux>(
    linux: &L,
) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let (reader, writer) = two_doors(&tree, &probe).await?;
    let gate = probe.hold("write");
    let meanwhile = async {
        gate.reached(1).await?;
        given("first byte meanwhile", reader.read(0).await?, Some(BYTE))?;
        gate.let_go(1);
        Ok(())
    };
    both(writer.write(0, b"xxxx"), meanwhile).await?;
    is("first byte afterwards", reader.read(0).await?, Some(b'x'))
}

/// It waits for those under way. Were it to wait for later ones, too, it could wait for ever.
pub async fn an_open_for_the_page_cache_waits_for_no_later_write<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(PARALLEL);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let writer = tree.open("file", How::ReadWrite).await?;
    probe.opens(FILE, OpenedFlags::KEEP_CACHE);
    let gate = probe.hold("write");
    let later = async {
        gate.reached(1).await?;
        tokio::time::sleep(A_WHILE).await;
        Ok::<(), Otherwise>(writer.write(4096, b"yyyy").await?)
    };
    let meanwhile = async {
        gate.reached(1).await?;
        let opening = tokio::time::timeout(A_WHILE * 100, tree.open("file", How::Read));
        let letting = async {
            tokio::time::sleep(2 * A_WHILE).await;
            gate.let_go(1);
        };
        let (opened, ()) = tokio::join!(opening, letting);
        is("opened before a later write", opened.is_ok(), true)?;
        gate.let_go(1);
        Ok::<(), Otherwise>(())
    };
    both(both(writer.write(0, b"xxxx"), meanwhile), later).await
}

/// It is the size that the kernel believes, so we must not.
pub async fn the_offset_of_an_append_may_be_old<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(DIRECT);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Append).await?;
    probe.change(FILE, 20_000, b'b');
    probe.asked();
    file.append(b"x").await?;
    let old = format!("write {FILE} at {SIZE}");
    is("asked for", probe.asked().contains(&old), true)
}
