//! Probes of replies with attributes that an invalidation overtakes: sent by the server before it, applied by the kernel after it.

use std::time::Duration;

use gupfs_fuse::InitFlags;

use super::{ALL_REQUESTS, CACHED, FILE, mount_one_file, one_file, open_one_file, run_both};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::{INITIAL_SIZE, LONG_TTL, ProbeServer};
use crate::request_gate::RequestGate;

const CHANGED: u64 = 20_000;

/// While a reply waits at `gate`, the file is changed elsewhere and the kernel is told.
async fn overtake(
    server: &ProbeServer,
    mount: &impl ProbeMount,
    gate: &RequestGate,
) -> Result<(), ProbeFailure> {
    gate.wait_until_waiting(1).await?;
    server.change(FILE, CHANGED, b'b');
    mount.notify(KernelNotification::attributes(FILE)).await?;
    gate.release_replies(ALL_REQUESTS);
    Ok(())
}

pub async fn a_getattr_reply_that_an_invalidation_overtakes_is_not_cached<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    mount.notify(KernelNotification::attributes(FILE)).await?;
    let gate = server.hold_replies("getattr");
    run_both(mount.size("file"), overtake(&server, &mount, &gate)).await?;
    expect_equal("size of a later stat", mount.size("file").await?, CHANGED)
}

/// The kernel discards the reply, and does not ask again.
pub async fn a_cached_read_ends_at_a_size_that_an_invalidation_has_made_old<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    let behind = INITIAL_SIZE + 100;
    expect_before("a byte behind the end", file.read(behind).await?, None)?;
    mount.notify(KernelNotification::attributes(FILE)).await?;
    let gate = server.hold_replies("getattr");
    let read = async { expect_equal("a byte of the larger file", file.read(behind).await?, None) };
    run_both(read, overtake(&server, &mount, &gate)).await?;
    expect_equal("the same byte later", file.read(behind).await?, Some(b'b'))
}

pub async fn a_lookup_reply_that_an_invalidation_overtakes_refreshes_no_known_inode<
    L: KernelUnderTest,
>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_name_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let _known = mount.open("file", crate::ProbeOpenMode::Read).await?;
    server.set_name_ttl(FILE, LONG_TTL);
    let gate = server.hold_replies("lookup");
    run_both(mount.size("file"), overtake(&server, &mount, &gate)).await?;
    expect_equal("size of a later stat", mount.size("file").await?, CHANGED)
}

pub async fn a_listing_that_an_invalidation_overtakes_refreshes_no_known_inode<
    L: KernelUnderTest,
>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    let gate = server.hold_replies("readdirplus");
    run_both(mount.list(), overtake(&server, &mount, &gate)).await?;
    expect_equal("size of a later stat", mount.size("file").await?, CHANGED)
}

pub async fn a_setattr_reply_that_an_invalidation_overtakes_is_not_cached<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    let gate = server.hold_replies("setattr");
    let change = mount.set_mode("file", 0o600);
    run_both(change, overtake(&server, &mount, &gate)).await?;
    expect_equal("size of a later stat", mount.size("file").await?, CHANGED)
}

/// Unless an invalidation overtakes it: so the lifetime of a SETATTR reply counts.
pub async fn a_setattr_reply_is_cached<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    mount.notify(KernelNotification::attributes(FILE)).await?;
    mount.set_mode("file", 0o600).await?;
    server.change(FILE, CHANGED, b'b');
    expect_equal(
        "size of a later stat",
        mount.size("file").await?,
        INITIAL_SIZE,
    )
}

pub async fn an_invalidation_of_an_unknown_inode_is_reported<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, mount) = mount_one_file(kernel, CACHED).await?;
    expect_equal(
        "an invalidation before the LOOKUP",
        mount.notify(KernelNotification::attributes(FILE)).await,
        Err(gupfs_fuse::NotifyError::Unknown),
    )?;
    mount.size("file").await?;
    expect_equal(
        "an invalidation after the LOOKUP",
        mount.notify(KernelNotification::attributes(FILE)).await,
        Ok(()),
    )
}
