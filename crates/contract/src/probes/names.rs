//! Probes of names: lookups in flight, and notifications that wait for a directory's lock.

use std::time::Duration;

use gupfs_fuse::{Errno, InitFlags, NotifyError};

use super::{CACHED, FILE, SHORT, mount_one_file, notification_waits, one_file, run_both};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{InitFlagChanges, KernelNotification, KernelUnderTest, ProbeMount};
use crate::probe_server::INITIAL_SIZE;

/// The kernel does not have a node before its LOOKUP reply, and takes that reply afterwards.
pub async fn an_invalidation_during_a_lookup_is_lost<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let gate = server.hold_replies("lookup");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        server.change(FILE, 20_000, b'b');
        let result = mount.notify(KernelNotification::attributes(FILE)).await;
        expect_equal("the invalidation", result, Err(NotifyError::Unknown))?;
        gate.release_replies(1);
        Ok(())
    };
    let seen = run_both(mount.size("file"), concurrent_events).await?;
    expect_before("size in the LOOKUP reply", seen, INITIAL_SIZE)?;
    expect_equal(
        "size after the LOOKUP",
        mount.size("file").await?,
        INITIAL_SIZE,
    )
}

pub async fn an_invalidated_name_is_looked_up_again<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    mount.size("file").await?;
    server.take_log();
    mount.size("file").await?;
    expect_before(
        "LOOKUPs of a cached name",
        server.count_requests("lookup", "file"),
        0,
    )?;
    mount.notify(KernelNotification::name("file")).await?;
    mount.size("file").await?;
    expect_equal(
        "LOOKUPs of the name",
        server.count_requests("lookup", "file"),
        1,
    )
}

/// So a client that creates such a name elsewhere requires an invalidation here.
pub async fn a_negative_dentry_is_cached<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let absent = |found: Result<u64, Errno>| expect_before("size", found, Err(Errno::ENOENT));
    absent(mount.size("none").await)?;
    server.take_log();
    absent(mount.size("none").await)?;
    expect_equal(
        "LOOKUPs of the name",
        server.count_requests("lookup", "none"),
        0,
    )?;
    mount.notify(KernelNotification::name("none")).await?;
    absent(mount.size("none").await)?;
    expect_equal(
        "LOOKUPs after the invalidation",
        server.count_requests("lookup", "none"),
        1,
    )
}

/// The create holds the directory's lock until its reply; so a task that must send this reply must not wait for the
/// notification.
pub async fn a_name_invalidation_waits_for_a_create_in_its_directory<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    mount.size("file").await?;
    let gate = server.hold_replies("create");
    notification_waits(
        &mount,
        KernelNotification::name("file"),
        &gate,
        mount.create("new"),
    )
    .await
}

pub async fn a_name_invalidation_waits_for_a_lookup_in_its_directory<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    mount.size("file").await?;
    let gate = server.hold_replies("lookup");
    let program = async {
        let found = mount.size("none").await;
        expect_before("size", found, Err(Errno::ENOENT))
    };
    notification_waits(&mount, KernelNotification::name("file"), &gate, program).await
}

pub async fn a_name_invalidation_waits_for_a_listing_of_its_directory<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    mount.size("file").await?;
    let gate = server.hold_replies("readdirplus");
    notification_waits(
        &mount,
        KernelNotification::name("file"),
        &gate,
        mount.list(),
    )
    .await
}

pub async fn an_invalidation_of_an_unknown_name_is_reported<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, mount) = mount_one_file(kernel, CACHED).await?;
    expect_equal(
        "an invalidation before the LOOKUP",
        mount.notify(KernelNotification::name("file")).await,
        Err(NotifyError::Unknown),
    )?;
    mount.size("file").await?;
    expect_equal(
        "an invalidation after the LOOKUP",
        mount.notify(KernelNotification::name("file")).await,
        Ok(()),
    )?;
    expect_equal(
        "another invalidation",
        mount.notify(KernelNotification::name("file")).await,
        Err(NotifyError::Unknown),
    )
}

pub async fn an_inode_invalidation_of_a_directory_keeps_its_names<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    mount.size("file").await?;
    mount.notify(KernelNotification::pages(1)).await?;
    server.take_log();
    mount.size("file").await?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 0)
}

pub async fn names_are_looked_up_again_after_their_lifetime<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    for ttl in [SHORT, Duration::ZERO] {
        let server = one_file(CACHED);
        server.set_name_ttl(FILE, ttl);
        let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
        mount.size("file").await?;
        tokio::time::sleep(2 * ttl).await;
        server.take_log();
        mount.size("file").await?;
        expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 1)?;
    }
    Ok(())
}

pub async fn absent_names_are_looked_up_again_after_their_lifetime<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    for ttl in [SHORT, Duration::ZERO] {
        let server = one_file(CACHED);
        server.set_absent_ttl(ttl);
        let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
        expect_before("size", mount.size("none").await, Err(Errno::ENOENT))?;
        tokio::time::sleep(2 * ttl).await;
        server.take_log();
        expect_before("size", mount.size("none").await, Err(Errno::ENOENT))?;
        expect_equal("LOOKUPs", server.count_requests("lookup", "none"), 1)?;
    }
    Ok(())
}

/// Of a listing with attributes (READDIRPLUS).
pub async fn names_of_a_listing_are_looked_up_again_after_their_lifetime<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_name_ttl(FILE, SHORT);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    mount.list().await?;
    tokio::time::sleep(2 * SHORT).await;
    server.take_log();
    mount.size("file").await?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 1)
}

pub async fn names_of_an_aborted_connection_are_not_served_after_their_lifetime<
    L: KernelUnderTest,
>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_name_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    mount.size("file").await?;
    mount.abort().await?;
    tokio::time::sleep(2 * SHORT).await;
    expect_equal("served", mount.size("file").await.is_ok(), false)
}
