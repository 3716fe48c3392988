//! The probes. Each is a function that tests one behaviour of a kernel; its name is the statement.

mod attributes;
mod epoch;
mod locks;
mod names;
mod pages;
mod writes;

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::behaviour::{
    CoherenceRule, KernelBehaviour, ProbeFailure, ProbeReport, ProbeResult, RequirementLevel,
    expect_equal,
};
use crate::kernel_under_test::{KernelNotification, KernelUnderTest, ProbeMount};
use crate::probe_server::ProbeServer;
use crate::request_gate::RequestGate;
use gupfs_fuse::OpenReplyFlags;

/// A probe ends after this time; only one that hangs takes longer.
const TOO_LONG: Duration = Duration::from_secs(10);

/// How often a behaviour is probed before it counts as different.
const ATTEMPTS: usize = 3;

/// Long enough to observe that an operation waits.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// More requests than any probe sends.
const ALL_REQUESTS: usize = 100;

const CACHED: OpenReplyFlags = OpenReplyFlags::empty();
const DIRECT: OpenReplyFlags = OpenReplyFlags::DIRECT_IO;

/// The node of the file that most probes use.
const FILE: u64 = 9;

fn one_file(flags: OpenReplyFlags) -> Arc<ProbeServer> {
    Arc::new(ProbeServer::default().file(FILE, "file", flags))
}

/// Runs a program's operation and concurrent events; the first failure ends both.
async fn run_both<T, E: Into<ProbeFailure>>(
    program: impl Future<Output = Result<T, E>>,
    concurrent_events: impl Future<Output = ProbeResult>,
) -> Result<T, ProbeFailure> {
    let program = async { program.await.map_err(E::into) };
    Ok(tokio::try_join!(program, concurrent_events)?.0)
}

/// `program` sends the request that `gate` holds back; the notification, sent meanwhile, must return only after the request is
/// released.
async fn notification_waits<P, E: Into<ProbeFailure>>(
    mount: &impl ProbeMount,
    notification: KernelNotification,
    gate: &RequestGate,
    program: impl Future<Output = Result<P, E>>,
) -> ProbeResult {
    let has_returned = Cell::new(false);
    let notifying = async {
        gate.wait_until_waiting(1).await?;
        mount.notify(notification).await?;
        has_returned.set(true);
        Ok::<(), ProbeFailure>(())
    };
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        tokio::time::sleep(SHORT_WAIT).await;
        expect_equal(
            "notification returned while the reply was held back",
            has_returned.get(),
            false,
        )?;
        gate.release_replies(ALL_REQUESTS);
        Ok(())
    };
    run_both(run_both(program, concurrent_events), notifying).await?;
    expect_equal(
        "notification returned after the release",
        has_returned.get(),
        true,
    )
}

macro_rules! probes {
    ($($rule:ident, $requirement:ident: $module:ident::$probe:ident;)*) => {
        /// Every behaviour, in the order of the rules.
        pub const ALL: &[KernelBehaviour] = &[$(
            KernelBehaviour { rule: CoherenceRule::$rule, requirement: RequirementLevel::$requirement, name: stringify!($probe) },
        )*];

        async fn probe_one<L: KernelUnderTest>(kernel: &L, name: &str) -> ProbeResult {
            match name {
                $(stringify!($probe) => $module::$probe(kernel).await,)*
                _ => Err(ProbeFailure::Untested("unknown behaviour".into())),
            }
        }
    };
}

probes! {
    Features, Required: pages::new_attributes_drop_the_pages_of_a_cached_file;
    Features, Tolerated: attributes::with_a_writeback_cache_growth_on_the_server_is_not_seen;
    Features, Tolerated: pages::with_explicit_inval_data_pages_outlive_an_aborted_connection;
    Lifetimes, Required: attributes::attributes_with_lifetime_zero_are_requested_again;
    Lifetimes, Required: attributes::attributes_are_requested_again_after_their_lifetime;
    Lifetimes, ForSharing: pages::pages_of_an_aborted_connection_are_not_served_after_their_lifetime;
    Lifetimes, Tolerated: attributes::a_link_reply_replaces_newer_attributes;
    Lifetimes, Tolerated: attributes::a_create_reply_replaces_newer_attributes;
    Invalidations, ForSharing: attributes::an_invalidation_drops_cached_attributes;
    Invalidations, Tolerated: names::an_invalidation_during_a_lookup_is_lost;
    Names, ForSharing: names::an_invalidated_name_is_looked_up_again;
    Names, Tolerated: names::a_negative_dentry_is_cached;
    Names, ForSharing: epoch::inc_epoch_waits_for_no_lock_and_expires_all_names;
    Names, Tolerated: epoch::names_of_a_listing_in_flight_survive_inc_epoch;
    Names, Tolerated: epoch::inc_epoch_unmounts_file_systems_mounted_inside_the_mount;
    Notifications, Tolerated: names::a_name_invalidation_waits_for_a_create_in_its_directory;
    Notifications, Tolerated: pages::a_page_invalidation_waits_for_the_read_that_fills_the_page;
    Notifications, Tolerated: pages::a_page_invalidation_writes_dirty_pages_first;
    Notifications, ForSharing: pages::an_attribute_invalidation_waits_for_no_read;
    CachedAndDirect, ForPageCache: writes::a_direct_write_drops_the_pages_it_covers;
    CachedAndDirect, ForPageCache: writes::pages_filled_during_a_direct_write_are_dropped_after_it;
    CachedAndDirect, ForSharing: writes::a_cached_open_waits_for_no_later_direct_write;
    CachedAndDirect, ForSharing: pages::only_a_direct_read_carries_a_lock_owner;
    CachedAndDirect, Tolerated: pages::splice_fills_the_page_cache_of_a_direct_file;
    CachedAndDirect, Tolerated: pages::a_store_into_a_mapped_page_sends_no_request;
    CachedAndDirect, ForSharing: writes::direct_writes_within_the_file_run_in_parallel;
    CachedAndDirect, Tolerated: writes::direct_writes_that_extend_the_file_run_one_at_a_time;
    Appends, Tolerated: writes::the_offset_of_an_append_may_be_stale;
    Locks, ForSharing: locks::closing_a_file_releases_its_flock;
    Locks, ForSharing: locks::a_close_names_the_owner_whose_posix_locks_it_releases;
}

/// Probes the behaviours that `select` returns true for, one after the other.
pub async fn probe_all<L: KernelUnderTest>(
    kernel: &L,
    select: impl Fn(&KernelBehaviour) -> bool,
) -> Vec<ProbeReport> {
    let mut reports = Vec::new();
    for behaviour in ALL.iter().filter(|behaviour| select(behaviour)) {
        let result = probe_again(kernel, behaviour.name).await;
        reports.push(ProbeReport::of(behaviour, result));
    }
    reports
}

/// A single failure may be chance: under memory pressure the kernel drops caches, and a slow host is late. A behaviour
/// that is observed once holds; a failure must repeat.
async fn probe_again<L: KernelUnderTest>(kernel: &L, name: &str) -> ProbeResult {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        let once = tokio::time::timeout(TOO_LONG, probe_one(kernel, name)).await;
        let waits = |_| {
            ProbeFailure::Untested(
                "the test timed out: an operation hangs, or the host is too slow".into(),
            )
        };
        result = once.map_err(waits).flatten();
        if result.is_ok() {
            break;
        }
    }
    result
}
