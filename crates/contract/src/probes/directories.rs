//! Probes of names that programs stand in or have mounted on, and of FUSE_NOTIFY_DELETE.

use std::sync::Arc;

use gupfs_fuse::{Errno, NodeId, NotifyError};

use super::{CACHED, FILE, one_file};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeDirectory, ProbeFile, ProbeMount,
    ProbeOpenMode,
};
use crate::probe_server::{INITIAL_BYTE, INITIAL_SIZE, ProbeServer};

const DIRECTORY: u64 = 8;

/// A directory `dir` and a file `file`, which the server finds in every directory.
fn directory_and_file() -> Arc<ProbeServer> {
    let server = ProbeServer::default().with(DIRECTORY, "dir", 0o040_777, CACHED);
    Arc::new(server.file(FILE, "file", CACHED))
}

pub async fn a_working_directory_has_no_path_after_its_name_is_invalidated<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = directory_and_file();
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let program = mount.enter("dir").await?;
    expect_before("getcwd", program.name().await, Ok("dir".to_owned()))?;
    mount.notify(KernelNotification::name("dir")).await?;
    expect_equal("getcwd", program.name().await, Err(Errno::ENOENT))?;
    // Another program finds the directory by its name.
    mount.size("dir").await?;
    expect_equal(
        "getcwd after a LOOKUP",
        program.name().await,
        Ok("dir".to_owned()),
    )
}

pub async fn a_working_directory_works_after_its_name_is_invalidated<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = directory_and_file();
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let program = mount.enter("dir").await?;
    mount.notify(KernelNotification::name("dir")).await?;
    server.take_log();
    expect_equal(
        "size of a relative name",
        program.size("file").await,
        Ok(INITIAL_SIZE),
    )?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 1)
}

/// Also when another program looks its name up, which replaces the expired dentry.
pub async fn a_working_directory_keeps_its_path_through_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = directory_and_file();
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let program = mount.enter("dir").await?;
    mount.notify(KernelNotification::Epoch).await?;
    let expected = Ok("dir".to_owned());
    expect_equal(
        "getcwd after INC_EPOCH",
        program.name().await,
        expected.clone(),
    )?;
    mount.size("dir").await?;
    expect_equal("getcwd after a LOOKUP", program.name().await, expected)
}

pub async fn a_name_invalidation_unmounts_a_file_system_mounted_there<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = directory_and_file();
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    mount.cover("dir").await?;
    expect_before("covered", mount.is_covered("dir").await, true)?;
    mount.notify(KernelNotification::name("dir")).await?;
    expect_equal("covered", mount.is_covered("dir").await, false)
}

pub async fn a_file_that_is_open_survives_the_invalidation_of_its_name<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    mount.notify(KernelNotification::name("file")).await?;
    expect_equal("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.take_log();
    expect_equal("size", mount.size("file").await, Ok(INITIAL_SIZE))?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 1)
}

pub async fn a_deletion_notice_leaves_an_open_file_without_links<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("links", file.links().await?, 2)?;
    let notified = mount.notify_deletion(NodeId::ROOT, FILE, "file").await?;
    expect_equal("the notice", notified, Ok(()))?;
    expect_equal("links", file.links().await?, 0)?;
    expect_equal("first byte", file.read(0).await?, Some(INITIAL_BYTE))
}

pub async fn a_deletion_notice_of_another_inode_is_refused<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    mount.size("file").await?;
    let notified = mount
        .notify_deletion(NodeId::ROOT, FILE + 1, "file")
        .await?;
    expect_equal("the notice", notified, Err(NotifyError::Unknown))
}

pub async fn a_deletion_notice_ends_a_working_directory<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = directory_and_file();
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let program = mount.enter("dir").await?;
    let notified = mount.notify_deletion(NodeId::ROOT, DIRECTORY, "dir");
    expect_equal("the notice", notified.await?, Ok(()))?;
    server.take_log();
    expect_equal("getcwd", program.name().await, Err(Errno::ENOENT))?;
    expect_equal(
        "size of a relative name",
        program.size("file").await,
        Err(Errno::ENOENT),
    )?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 0)
}

/// Instead of being refused with EBUSY.
pub async fn a_deletion_notice_unmounts_a_file_system_mounted_there<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = directory_and_file();
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    mount.cover("dir").await?;
    expect_before("covered", mount.is_covered("dir").await, true)?;
    let notified = mount.notify_deletion(NodeId::ROOT, DIRECTORY, "dir");
    expect_equal("the notice", notified.await?, Ok(()))?;
    expect_equal("covered", mount.is_covered("dir").await, false)
}
