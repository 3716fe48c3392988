//! Writes past the page cache, appends, locks.

use gupfs_door::OpenedFlags;

use super::names::A_WHILE;
use super::{CACHED, DIRECT, FILE, both, one_file};
use crate::fact::{Otherwise, Tried, is};
use crate::linux::{Flags, How, Linux, OpenFile, Tree};
use crate::probe::SIZE;

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

/// Without an unlock before it.
pub async fn a_flock_goes_with_the_release_of_its_file<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Read).await?;
    file.flock().await?;
    probe.asked();
    let gate = probe.hold("release");
    file.close().await;
    gate.reached(1).await?;
    let asked = probe.asked();
    gate.let_go(1);
    let about_locks = asked.iter().filter(|what| !what.starts_with("flush"));
    let expected = format!("release {FILE} ReleaseFlags(FLOCK_UNLOCK)");
    is("asked for", about_locks.collect(), vec![&expected])
}
