//! Probes of shared mappings.

use std::time::Duration;

use gupfs_fuse::{Errno, InitFlags};

use super::{CACHED, DIRECT, FILE, SHORT, expect_no_requests, one_file, open_one_file};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::INITIAL_BYTE;

pub async fn an_invalidation_unmaps_pages<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::ReadWrite).await?;
    expect_before("mapped byte", file.load().await?, INITIAL_BYTE)?;
    server.change_content(FILE, b'b');
    expect_before("mapped byte, again", file.load().await?, INITIAL_BYTE)?;
    mount.notify(KernelNotification::pages(FILE)).await?;
    server.take_log();
    expect_equal("mapped byte", file.load().await?, b'b')?;
    let reads = server.count_requests("read", FILE);
    expect_equal("a READ was sent", reads > 0, true)
}

/// So INVAL_INODE without pages revokes no data.
pub async fn an_attribute_invalidation_leaves_mapped_pages<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::ReadWrite).await?;
    expect_before("mapped byte", file.load().await?, INITIAL_BYTE)?;
    server.change(FILE, 10_000, b'b');
    mount.notify(KernelNotification::attributes(FILE)).await?;
    expect_equal("mapped byte", file.load().await?, INITIAL_BYTE)
}

/// No lifetime ends a mapped page: only a notification does.
pub async fn a_mapped_load_asks_for_no_attributes<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::ReadWrite).await?;
    expect_before("mapped byte", file.load().await?, INITIAL_BYTE)?;
    server.change(FILE, 10_000, b'b');
    server.take_log();
    expect_equal("mapped byte", file.load().await?, INITIAL_BYTE)?;
    expect_no_requests(&server)
}

pub async fn mapped_pages_of_an_aborted_connection_outlive_their_lifetime<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::ReadWrite).await?;
    expect_before("mapped byte", file.load().await?, INITIAL_BYTE)?;
    mount.abort().await?;
    tokio::time::sleep(2 * SHORT).await;
    expect_equal("mapped byte", file.load().await?, INITIAL_BYTE)
}

pub async fn a_store_after_an_invalidation_reads_the_page_again<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::ReadWrite).await?;
    expect_before("mapped byte", file.load().await?, INITIAL_BYTE)?;
    file.store(b'x').await?;
    mount.notify(KernelNotification::pages(FILE)).await?;
    let writes = server.count_requests("write", FILE);
    expect_equal("the store was written", writes > 0, true)?;
    file.store(b'y').await?;
    let reads = server.count_requests("read", FILE);
    expect_equal("a READ was sent", reads > 0, true)
}

pub async fn a_file_open_for_direct_io_can_be_mapped_shared<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, _mount, file) = open_one_file(kernel, DIRECT, ProbeOpenMode::ReadWrite).await?;
    expect_equal("the mapping", file.store(b'x').await, Ok(()))
}

pub async fn without_direct_io_allow_mmap_it_cannot_be_mapped<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(DIRECT);
    let flags = InitFlagChanges::usual().without(InitFlags::DIRECT_IO_ALLOW_MMAP);
    let mount = kernel.mount(&server, flags).await?;
    let file = mount.open("file", ProbeOpenMode::ReadWrite).await?;
    let mapped = file.store(b'x').await;
    expect_equal("the mapping", mapped, Err(Errno::ENODEV))
}

pub async fn a_direct_read_writes_dirty_mapped_pages_first<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, _mount, file) = open_one_file(kernel, DIRECT, ProbeOpenMode::ReadWrite).await?;
    file.store(b'x').await?;
    expect_equal("first byte", file.read(0).await?, Some(b'x'))
}

pub async fn a_direct_write_drops_the_mapped_pages_it_covers<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (_, _mount, file) = open_one_file(kernel, DIRECT, ProbeOpenMode::ReadWrite).await?;
    expect_before("mapped byte", file.load().await?, INITIAL_BYTE)?;
    file.write(0, b"xxxx").await?;
    expect_equal("mapped byte after the write", file.load().await?, b'x')
}
