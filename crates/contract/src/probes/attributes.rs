//! Probes of attributes: how long the kernel caches them, and what invalidates them.

use std::time::Duration;

use gupfs_fuse::InitFlags;

use super::{CACHED, DIRECT, FILE, SHORT, mount_one_file, one_file, open_one_file, run_both};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::{INITIAL_SIZE, LONG_TTL};

pub async fn attributes_with_lifetime_zero_are_requested_again<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    server.change(FILE, 20_000, b'b');
    expect_equal(
        "size after a change on the server",
        mount.size("file").await?,
        20_000,
    )
}

pub async fn attributes_are_requested_again_after_their_lifetime<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    server.change(FILE, 20_000, b'b');
    tokio::time::sleep(2 * SHORT).await;
    expect_equal("size after the lifetime", mount.size("file").await?, 20_000)
}

/// The kernel takes the attributes of the reply, however old they are: so the reply must carry lifetime zero.
pub async fn a_link_reply_replaces_newer_attributes<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    let gate = server.hold_replies("link");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        server.change(FILE, 20_000, b'b');
        mount.notify(KernelNotification::attributes(FILE)).await?;
        expect_equal(
            "size after a change on the server",
            mount.size("file").await?,
            20_000,
        )?;
        gate.release_replies(1);
        Ok(())
    };
    run_both(mount.link("file", "other"), concurrent_events).await?;
    expect_equal(
        "size after the link",
        mount.size("file").await?,
        INITIAL_SIZE,
    )
}

/// As with link: an exclusive create finds no file, but another create may find a file that another client has made.
pub async fn a_create_reply_replaces_newer_attributes<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_name_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let _known = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    server.hide(FILE);
    server.set_name_ttl(FILE, LONG_TTL);
    let gate = server.hold_replies("create");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        server.change(FILE, 20_000, b'b');
        mount.notify(KernelNotification::attributes(FILE)).await?;
        gate.release_replies(1);
        Ok(())
    };
    run_both(mount.create("file"), concurrent_events).await?;
    expect_equal(
        "size after the create",
        mount.size("file").await?,
        INITIAL_SIZE,
    )
}

pub async fn an_invalidation_drops_cached_attributes<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    server.change(FILE, 20_000, b'b');
    expect_before("cached size", mount.size("file").await?, INITIAL_SIZE)?;
    mount.notify(KernelNotification::attributes(FILE)).await?;
    expect_equal("size", mount.size("file").await?, 20_000)
}

/// With the writeback cache the kernel keeps its own size and times: this is why WRITEBACK_CACHE is never negotiated.
pub async fn with_a_writeback_cache_growth_on_the_server_is_not_seen<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let flags = InitFlagChanges::usual().with(InitFlags::WRITEBACK_CACHE);
    let mount = kernel.mount(&server, flags).await?;
    let _open = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    server.change(FILE, 20_000, b'b');
    mount.notify(KernelNotification::pages(FILE)).await?;
    server.take_log();
    expect_equal(
        "size after a change on the server",
        mount.size("file").await?,
        INITIAL_SIZE,
    )?;
    expect_equal(
        "GETATTR was sent",
        server.count_requests("getattr", FILE) > 0,
        true,
    )
}

pub async fn attributes_of_an_aborted_connection_are_not_served_after_their_lifetime<
    L: KernelUnderTest,
>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    expect_before("size", mount.size("file").await?, INITIAL_SIZE)?;
    mount.abort().await?;
    tokio::time::sleep(2 * SHORT).await;
    expect_equal("served", mount.size("file").await.is_ok(), false)
}

/// Of a listing with attributes (READDIRPLUS).
pub async fn attributes_of_a_listing_are_requested_again_after_their_lifetime<
    L: KernelUnderTest,
>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    mount.list().await?;
    server.change(FILE, 20_000, b'b');
    tokio::time::sleep(2 * SHORT).await;
    expect_equal("size after the lifetime", mount.size("file").await?, 20_000)
}

/// Within the lifetime a listing saves the requests for its names and attributes.
pub async fn names_and_attributes_of_a_listing_are_cached<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    mount.list().await?;
    server.take_log();
    server.change(FILE, 20_000, b'b');
    expect_equal("size", mount.size("file").await?, INITIAL_SIZE)?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 0)
}

/// A read past the cached end asks the server at once.
pub async fn a_direct_read_is_not_cut_at_the_cached_size<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, _mount, file) = open_one_file(kernel, DIRECT, ProbeOpenMode::Read).await?;
    server.change(FILE, 20_000, b'b');
    expect_equal(
        "a byte behind the cached size",
        file.read(15_000).await?,
        Some(b'b'),
    )
}
