//! Probes of direct writes and appends.

use gupfs_fuse::OpenReplyFlags;

use super::{CACHED, DIRECT, FILE, SHORT_WAIT, mount_one_file, open_one_file, run_both};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode};
use crate::probe_server::{INITIAL_BYTE, INITIAL_SIZE, ProbeServer};

const PARALLEL: OpenReplyFlags = DIRECT.union(OpenReplyFlags::PARALLEL_DIRECT_WRITES);

/// Two writes from offset `at` on, of which `together` must be in flight at the same time.
async fn two_writes<L: KernelUnderTest>(kernel: &L, at: u64, together: usize) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, PARALLEL).await?;
    let files = [
        mount.open("file", ProbeOpenMode::ReadWrite).await?,
        mount.open("file", ProbeOpenMode::ReadWrite).await?,
    ];
    let gate = server.hold_replies("write");
    let concurrent_events = async {
        gate.wait_until_waiting(together).await?;
        tokio::time::sleep(SHORT_WAIT).await;
        expect_equal("concurrent WRITEs", gate.waiting(), together)?;
        gate.release_replies(2);
        Ok::<(), ProbeFailure>(())
    };
    let second = async { Ok(files[1].write(at + 4096, b"xxxx").await?) };
    run_both(
        run_both(files[0].write(at, b"xxxx"), concurrent_events),
        second,
    )
    .await
}

pub async fn direct_writes_within_the_file_run_in_parallel<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    two_writes(kernel, 0, 2).await
}

pub async fn direct_writes_that_extend_the_file_run_one_at_a_time<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    two_writes(kernel, 50_000, 1).await
}

/// Opens one file for a cached reader and a direct writer.
async fn open_cached_and_direct<T: ProbeMount>(
    mount: &T,
    server: &ProbeServer,
) -> Result<(T::File, T::File), ProbeFailure> {
    server.set_open_flags(FILE, OpenReplyFlags::KEEP_CACHE);
    let reader = mount.open("file", ProbeOpenMode::Read).await?;
    server.set_open_flags(FILE, PARALLEL);
    Ok((reader, mount.open("file", ProbeOpenMode::ReadWrite).await?))
}

pub async fn a_direct_write_drops_the_pages_it_covers<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let (reader, writer) = open_cached_and_direct(&mount, &server).await?;
    expect_before("first byte", reader.read(0).await?, Some(INITIAL_BYTE))?;
    writer.write(0, b"xxxx").await?;
    expect_equal(
        "first byte after the write",
        reader.read(0).await?,
        Some(b'x'),
    )
}

pub async fn pages_filled_during_a_direct_write_are_dropped_after_it<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let (reader, writer) = open_cached_and_direct(&mount, &server).await?;
    let gate = server.hold_replies("write");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        expect_before(
            "first byte during the write",
            reader.read(0).await?,
            Some(INITIAL_BYTE),
        )?;
        gate.release_replies(1);
        Ok(())
    };
    run_both(writer.write(0, b"xxxx"), concurrent_events).await?;
    expect_equal(
        "first byte after the write",
        reader.read(0).await?,
        Some(b'x'),
    )
}

/// The open waits for writes in flight. If it waited for later ones as well, it could wait without end.
pub async fn a_cached_open_waits_for_no_later_direct_write<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, writer) = open_one_file(kernel, PARALLEL, ProbeOpenMode::ReadWrite).await?;
    server.set_open_flags(FILE, OpenReplyFlags::KEEP_CACHE);
    let gate = server.hold_replies("write");
    let later = async {
        gate.wait_until_waiting(1).await?;
        tokio::time::sleep(SHORT_WAIT).await;
        Ok::<(), ProbeFailure>(writer.write(4096, b"yyyy").await?)
    };
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        let cached_open =
            tokio::time::timeout(SHORT_WAIT * 100, mount.open("file", ProbeOpenMode::Read));
        let release_gate = async {
            tokio::time::sleep(2 * SHORT_WAIT).await;
            gate.release_replies(1);
        };
        let (opened, ()) = tokio::join!(cached_open, release_gate);
        expect_equal("opened before a later write", opened.is_ok(), true)?;
        gate.release_replies(1);
        Ok::<(), ProbeFailure>(())
    };
    run_both(run_both(writer.write(0, b"xxxx"), concurrent_events), later).await
}

/// The offset is the size that the kernel has cached, so the server must not use it.
pub async fn the_offset_of_an_append_may_be_stale<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, _mount, file) = open_one_file(kernel, DIRECT, ProbeOpenMode::Append).await?;
    server.change(FILE, 20_000, b'b');
    server.take_log();
    file.append(b"x").await?;
    let old = format!("write {FILE} at {INITIAL_SIZE}");
    expect_equal("requests", server.take_log().contains(&old), true)
}
