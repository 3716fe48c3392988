//! Probes of names: lookups in flight, and notifications that wait for a directory's lock.

use gupfs_fuse::{Errno, NotifyError};

use super::{CACHED, FILE, notification_waits, one_file, run_both};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{InitFlagChanges, KernelNotification, KernelUnderTest, ProbeMount};
use crate::probe_server::INITIAL_SIZE;

/// The kernel does not have a node before its LOOKUP reply, and takes that reply afterwards.
pub async fn an_invalidation_during_a_lookup_is_lost<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
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
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
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
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
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
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
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
