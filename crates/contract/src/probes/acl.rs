//! Probes of access ACLs, which the kernel caches beside the attributes.

use std::time::Duration;

use super::{CACHED, FILE, SHORT, mount_one_file, one_file};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{InitFlagChanges, KernelNotification, KernelUnderTest, ProbeMount};
use crate::probe_server::INITIAL_ACL_USER;

const OTHER_USER: u32 = INITIAL_ACL_USER + 1;

pub async fn a_cached_acl_is_served_without_a_request<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let first = mount.acl_user("file").await?;
    expect_before("user of the ACL", first, Some(INITIAL_ACL_USER))?;
    server.set_acl_user(FILE, OTHER_USER);
    expect_equal(
        "user of the ACL after a change on the server",
        mount.acl_user("file").await?,
        Some(INITIAL_ACL_USER),
    )
}

pub async fn an_invalidation_drops_a_cached_acl<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let first = mount.acl_user("file").await?;
    expect_before("user of the ACL", first, Some(INITIAL_ACL_USER))?;
    server.set_acl_user(FILE, OTHER_USER);
    mount.notify(KernelNotification::attributes(FILE)).await?;
    expect_equal(
        "user of the ACL after the invalidation",
        mount.acl_user("file").await?,
        Some(OTHER_USER),
    )
}

/// The lifetime of the attributes does not end it by itself: only a new request for attributes, or a notification.
pub async fn a_cached_acl_outlives_the_attributes<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let first = mount.acl_user("file").await?;
    expect_before("user of the ACL", first, Some(INITIAL_ACL_USER))?;
    server.set_acl_user(FILE, OTHER_USER);
    tokio::time::sleep(2 * SHORT).await;
    expect_equal(
        "user of the ACL after the lifetime of the attributes",
        mount.acl_user("file").await?,
        Some(INITIAL_ACL_USER),
    )
}

/// stat(2) that asks for attributes, and LOOKUP, drop the ACL.
pub async fn new_attributes_drop_a_cached_acl<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let first = mount.acl_user("file").await?;
    expect_before("user of the ACL", first, Some(INITIAL_ACL_USER))?;
    server.set_acl_user(FILE, OTHER_USER);
    mount.size("file").await?;
    expect_equal(
        "user of the ACL after a stat",
        mount.acl_user("file").await?,
        Some(OTHER_USER),
    )
}
