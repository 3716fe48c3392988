//! Probes of names that programs stand in or have mounted on, and of FUSE_NOTIFY_DELETE.

use std::sync::Arc;

use gupfs_fuse::{Errno, NodeId, NotifyError};

use super::{CACHED, FILE, mount_one_file, open_one_file};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeDirectory, ProbeFile, ProbeMount,
    ProbeOpenMode,
};
use crate::probe_server::{INITIAL_BYTE, INITIAL_SIZE, ProbeServer};

const DIRECTORY: u64 = 8;

/// A directory `dir` and a file `file`, which the server finds in every directory; mounted with the usual flags.
async fn mount_directory_and_file<L: KernelUnderTest>(
    kernel: &L,
) -> Result<(Arc<ProbeServer>, L::Mount), ProbeFailure> {
    let server = ProbeServer::default().with(DIRECTORY, "dir", 0o040_777, CACHED);
    let server = Arc::new(server.file(FILE, "file", CACHED));
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    Ok((server, mount))
}

type WorkingDirectory<L> = <<L as KernelUnderTest>::Mount as ProbeMount>::Directory;

/// The same, and a program whose working directory `dir` is.
async fn enter_directory<L: KernelUnderTest>(
    kernel: &L,
) -> Result<(Arc<ProbeServer>, L::Mount, WorkingDirectory<L>), ProbeFailure> {
    let (server, mount) = mount_directory_and_file(kernel).await?;
    let program = mount.enter("dir").await?;
    Ok((server, mount, program))
}

/// The same without the program; another file system is mounted on `dir`.
pub(super) async fn mount_covered_directory<L: KernelUnderTest>(
    kernel: &L,
) -> Result<L::Mount, ProbeFailure> {
    let (_, mount) = mount_directory_and_file(kernel).await?;
    mount.cover("dir").await?;
    expect_before("covered", mount.is_covered("dir").await, true)?;
    Ok(mount)
}

pub async fn a_working_directory_has_no_path_after_its_name_is_invalidated<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, mount, program) = enter_directory(kernel).await?;
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
    let (server, mount, program) = enter_directory(kernel).await?;
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
    let (_, mount, program) = enter_directory(kernel).await?;
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
    let mount = mount_covered_directory(kernel).await?;
    mount.notify(KernelNotification::name("dir")).await?;
    expect_equal("covered", mount.is_covered("dir").await, false)
}

pub async fn a_file_that_is_open_survives_the_invalidation_of_its_name<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    mount.notify(KernelNotification::name("file")).await?;
    expect_equal("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.take_log();
    expect_equal("size", mount.size("file").await, Ok(INITIAL_SIZE))?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "file"), 1)
}

pub async fn a_deletion_notice_leaves_an_open_file_without_links<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    expect_before("links", file.links().await?, 2)?;
    let notified = mount.notify_deletion(NodeId::ROOT, FILE, "file").await?;
    expect_equal("the notice", notified, Ok(()))?;
    expect_equal("links", file.links().await?, 0)?;
    expect_equal("first byte", file.read(0).await?, Some(INITIAL_BYTE))
}

pub async fn a_deletion_notice_of_another_inode_is_refused<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, mount) = mount_one_file(kernel, CACHED).await?;
    mount.size("file").await?;
    let notified = mount
        .notify_deletion(NodeId::ROOT, FILE + 1, "file")
        .await?;
    expect_equal("the notice", notified, Err(NotifyError::Unknown))
}

pub async fn a_deletion_notice_ends_a_working_directory<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, program) = enter_directory(kernel).await?;
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
    let mount = mount_covered_directory(kernel).await?;
    let notified = mount.notify_deletion(NodeId::ROOT, DIRECTORY, "dir");
    expect_equal("the notice", notified.await?, Ok(()))?;
    expect_equal("covered", mount.is_covered("dir").await, false)
}
