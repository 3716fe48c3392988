//! Probes of the page cache: what fills it, what empties it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use gupfs_fuse::InitFlags;

use super::{
    ALL_REQUESTS, CACHED, DIRECT, FILE, SHORT, SHORT_WAIT, notification_passes, notification_waits,
    one_file, open_one_file, run_both,
};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::{INITIAL_BYTE, ProbeServer};

/// With AUTO_INVAL_DATA a changed size or mtime drops the pages.
pub async fn new_attributes_drop_the_pages_of_a_cached_file<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.take_log();
    expect_before("first byte, again", file.read(0).await?, Some(INITIAL_BYTE))?;
    expect_before(
        "READs of cached bytes",
        server.count_requests("read", FILE),
        0,
    )?;
    server.change(FILE, 10_000, b'b');
    expect_equal(
        "first byte after a new mtime",
        file.read(0).await?,
        Some(b'b'),
    )?;
    server.change(FILE, 12_000, b'c');
    expect_equal(
        "first byte after a new size",
        file.read(0).await?,
        Some(b'c'),
    )?;
    expect_equal("size", mount.size("file").await?, 12_000)
}

async fn is_served_after_abort<L: KernelUnderTest>(
    kernel: &L,
    flags: InitFlagChanges,
) -> Result<bool, ProbeFailure> {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, flags).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    mount.abort().await?;
    tokio::time::sleep(2 * SHORT).await;
    Ok(file.read(0).await.is_ok())
}

pub async fn pages_of_an_aborted_connection_are_not_served_after_their_lifetime<
    L: KernelUnderTest,
>(
    kernel: &L,
) -> ProbeResult {
    let served = is_served_after_abort(kernel, InitFlagChanges::usual()).await?;
    expect_equal("served", served, false)
}

/// Why EXPLICIT_INVAL_DATA is never negotiated.
pub async fn with_explicit_inval_data_pages_outlive_an_aborted_connection<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let flags = InitFlagChanges::usual()
        .with(InitFlags::EXPLICIT_INVAL_DATA)
        .without(InitFlags::AUTO_INVAL_DATA);
    expect_equal("served", is_served_after_abort(kernel, flags).await?, true)
}

/// So a task that must reply to the READ must not wait for the notification.
pub async fn a_page_invalidation_waits_for_the_read_that_fills_the_page<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    let gate = server.hold_replies("read");
    notification_waits(&mount, KernelNotification::pages(FILE), &gate, file.read(0)).await
}

pub async fn an_attribute_invalidation_waits_for_no_read<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    let gate = server.hold_replies("read");
    let notification = KernelNotification::attributes(FILE);
    notification_passes(&mount, notification, &gate, file.read(0)).await?;
    Ok(())
}

pub async fn only_a_direct_read_carries_a_lock_owner<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = ProbeServer::default().file(8, "cached", CACHED);
    let server = Arc::new(server.file(FILE, "direct", DIRECT));
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let cached = mount.open("cached", ProbeOpenMode::Read).await?;
    let direct = mount.open("direct", ProbeOpenMode::Read).await?;
    server.take_log();
    cached.read(0).await?;
    direct.read(0).await?;
    let log = server.take_log();
    let reads = log.iter().filter(|request| request.starts_with("read "));
    expect_equal(
        "requests",
        reads.map(String::as_str).collect(),
        vec!["read 8 at 0", "read 9 at 0 with owner"],
    )
}

pub async fn splice_fills_the_page_cache_of_a_direct_file<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, _mount, file) = open_one_file(kernel, DIRECT, ProbeOpenMode::Read).await?;
    server.take_log();
    file.splice().await?;
    let log = server.take_log();
    let cached = |request: &&String| request.starts_with("read 9 ") && !request.contains("owner");
    expect_equal(
        "a READ for the page cache was sent",
        log.iter().filter(cached).count() > 0,
        true,
    )
}

pub async fn a_store_into_a_mapped_page_sends_no_request<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, _mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::ReadWrite).await?;
    file.store(b'x').await?;
    server.take_log();
    file.store(b'y').await?;
    let log = server.take_log();
    let about = log.iter().filter(|request| request.contains(" 9 "));
    expect_equal("requests", about.collect::<Vec<_>>(), Vec::new())
}

/// So the server must accept a WRITE while it waits for the notification.
pub async fn a_page_invalidation_writes_dirty_pages_first<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::ReadWrite).await?;
    file.store(b'x').await?;
    let gate = server.hold_replies("write");
    let has_returned = Cell::new(false);
    let notifying = async {
        mount.notify(KernelNotification::pages(FILE)).await?;
        has_returned.set(true);
        Ok::<(), ProbeFailure>(())
    };
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        tokio::time::sleep(SHORT_WAIT).await;
        expect_equal(
            "notification returned during the write-back",
            has_returned.get(),
            false,
        )?;
        gate.release_replies(1);
        Ok(())
    };
    run_both(notifying, concurrent_events).await
}

/// It needs no changed attributes to compare with.
pub async fn an_invalidation_drops_pages<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.change_content(FILE, b'b');
    expect_before("first byte, again", file.read(0).await?, Some(INITIAL_BYTE))?;
    mount.notify(KernelNotification::pages(FILE)).await?;
    expect_equal("first byte", file.read(0).await?, Some(b'b'))
}

/// So AUTO_INVAL_DATA alone is no coherence: a notification must drop the pages.
pub async fn new_content_under_the_same_size_and_mtime_is_not_noticed<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.change_content(FILE, b'b');
    expect_equal("first byte", file.read(0).await?, Some(INITIAL_BYTE))
}

/// The notification waits for the READ and drops the page that it filled.
pub async fn a_read_that_an_invalidation_overtakes_leaves_no_page<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    let gate = server.hold_replies("read");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        // The reply has the old bytes: the server made it before it waits.
        server.change_content(FILE, b'b');
        let release = async {
            tokio::time::sleep(SHORT_WAIT).await;
            gate.release_replies(ALL_REQUESTS);
            Ok::<(), ProbeFailure>(())
        };
        let notified = mount.notify(KernelNotification::pages(FILE));
        run_both(notified, release).await
    };
    run_both(file.read(0), concurrent_events).await?;
    expect_equal(
        "first byte of a later read",
        file.read(0).await?,
        Some(b'b'),
    )
}
