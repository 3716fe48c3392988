//! Every behaviour: its rule, how gupfs depends on it, the caches that depend on it, its probe, what the probe does and must see.

use super::{
    acl, attributes, directories, epoch, forgets, locks, mappings, names, opens, overtaken, pages,
    splice, writes,
};
use crate::behaviour::{
    CoherenceRule, KernelBehaviour, KernelCache, ProbeFailure, ProbeResult, RequirementLevel,
};
use crate::kernel_under_test::KernelUnderTest;

macro_rules! probes {
    ($($rule:ident, $requirement:ident, [$($cache:ident)*]: $module:ident::$probe:ident: $done:literal => $seen:literal;)*) => {
        /// Every behaviour, in the order of the rules.
        pub const ALL: &[KernelBehaviour] = &[$(
            KernelBehaviour {
                rule: CoherenceRule::$rule,
                requirement: RequirementLevel::$requirement,
                name: stringify!($probe),
                caches: &[$(KernelCache::$cache),*],
                done: $done,
                seen: $seen,
            },
        )*];

        pub(super) async fn probe_one<L: KernelUnderTest>(kernel: &L, name: &str) -> ProbeResult {
            match name {
                $(stringify!($probe) => $module::$probe(kernel).await,)*
                _ => Err(ProbeFailure::Untested("unknown behaviour".into())),
            }
        }
    };
}

probes! {
    Features, Required, [Pages]: pages::new_attributes_drop_the_pages_of_a_cached_file:
        "read; change mtime, then size, attributes with lifetime 0; read" => "the new bytes each time";
    Features, Tolerated, [Attributes]: attributes::with_a_writeback_cache_growth_on_the_server_is_not_seen:
        "WRITEBACK_CACHE; grow the file elsewhere; INVAL_INODE; stat" => "GETATTR is sent, the old size is shown";
    Features, Tolerated, [Pages]: pages::with_explicit_inval_data_pages_outlive_an_aborted_connection:
        "EXPLICIT_INVAL_DATA; read; abort; wait for the lifetime; read" => "the old bytes";
    Features, Tolerated, [Pages]: pages::new_content_under_the_same_size_and_mtime_is_not_noticed:
        "read; change the bytes alone, attributes with lifetime 0; read" => "the old bytes";
    Features, ForSharing, [Pages Attributes]: opens::an_open_with_o_trunc_is_one_request_and_drops_pages_and_size:
        "read; open with O_TRUNC; stat; read" => "OPEN with O_TRUNC and no SETATTR; size 0; no bytes";
    Features, ForSharing, [Mappings]: mappings::a_file_open_for_direct_io_can_be_mapped_shared:
        "DIRECT_IO_ALLOW_MMAP; open with direct I/O; mmap shared; store" => "the store succeeds";
    Features, Tolerated, [Mappings]: mappings::without_direct_io_allow_mmap_it_cannot_be_mapped:
        "the same without DIRECT_IO_ALLOW_MMAP" => "ENODEV";
    Lifetimes, Required, [Attributes]: attributes::attributes_with_lifetime_zero_are_requested_again:
        "stat with lifetime 0; change; stat" => "the new size";
    Lifetimes, Required, [Attributes]: attributes::attributes_are_requested_again_after_their_lifetime:
        "stat; change; wait for the lifetime; stat" => "the new size";
    Lifetimes, ForSharing, [Names]: names::names_are_looked_up_again_after_their_lifetime:
        "stat; wait for the name's lifetime (50 ms, 0); stat" => "one LOOKUP";
    Lifetimes, ForSharing, [Names]: names::absent_names_are_looked_up_again_after_their_lifetime:
        "stat of an absent name; wait for its lifetime (50 ms, 0); stat" => "one LOOKUP";
    Lifetimes, Tolerated, [Names Attributes]: attributes::names_and_attributes_of_a_listing_are_cached:
        "READDIRPLUS; change; stat" => "no LOOKUP, the listed size";
    Lifetimes, ForSharing, [Names]: names::names_of_a_listing_are_looked_up_again_after_their_lifetime:
        "READDIRPLUS; wait for the names' lifetime; stat" => "one LOOKUP";
    Lifetimes, ForSharing, [Attributes]: attributes::attributes_of_a_listing_are_requested_again_after_their_lifetime:
        "READDIRPLUS; change; wait for the attributes' lifetime; stat" => "the new size";
    Lifetimes, ForSharing, [Names]: names::names_of_an_aborted_connection_are_not_served_after_their_lifetime:
        "stat; abort; wait for the name's lifetime; stat" => "an error";
    Lifetimes, ForSharing, [Attributes]: attributes::attributes_of_an_aborted_connection_are_not_served_after_their_lifetime:
        "stat; abort; wait for the attributes' lifetime; stat" => "an error";
    Lifetimes, ForSharing, [Pages]: pages::pages_of_an_aborted_connection_are_not_served_after_their_lifetime:
        "read; abort; wait for the attributes' lifetime; read" => "an error";
    Lifetimes, Tolerated, [Mappings]: mappings::mapped_pages_of_an_aborted_connection_outlive_their_lifetime:
        "mapped load; abort; wait for the attributes' lifetime; load" => "the old byte";
    Lifetimes, Tolerated, [Splice]: splice::spliced_pages_of_an_aborted_connection_outlive_their_lifetime:
        "splice; abort; wait for the attributes' lifetime; splice" => "the old byte";
    Lifetimes, Tolerated, [Mappings]: mappings::a_mapped_load_asks_for_no_attributes:
        "mapped load; change, attributes with lifetime 0; load" => "no request, the old byte";
    Lifetimes, Tolerated, [Splice]: splice::splice_asks_for_no_attributes:
        "splice; change, attributes with lifetime 0; splice" => "no request, the old byte";
    Lifetimes, Tolerated, [Splice]: splice::splice_of_a_direct_file_asks_for_no_attributes:
        "the same, the file open with direct I/O" => "no request, the old byte";
    Lifetimes, Tolerated, [Attributes]: attributes::a_link_reply_replaces_newer_attributes:
        "hold LINK; change; INVAL_INODE; reply; stat" => "the size of the LINK reply";
    Lifetimes, Tolerated, [Attributes]: attributes::a_create_reply_replaces_newer_attributes:
        "hold CREATE of a known inode; change; INVAL_INODE; reply; stat" => "the size of the CREATE reply";
    Lifetimes, Tolerated, [Attributes]: overtaken::a_setattr_reply_is_cached:
        "INVAL_INODE; SETATTR (chmod); change; stat" => "the size of the SETATTR reply";
    Invalidations, ForSharing, [Attributes]: attributes::an_invalidation_drops_cached_attributes:
        "stat; change; INVAL_INODE; stat" => "the new size";
    Invalidations, Tolerated, [Attributes]: acl::a_cached_acl_is_served_without_a_request:
        "getxattr of the ACL; change it; getxattr" => "the old ACL";
    Invalidations, ForSharing, [Attributes]: acl::an_invalidation_drops_a_cached_acl:
        "getxattr of the ACL; change it; INVAL_INODE; getxattr" => "the new ACL";
    Invalidations, Tolerated, [Attributes]: acl::a_cached_acl_outlives_the_attributes:
        "getxattr of the ACL; change it; wait for the attributes' lifetime; getxattr" => "the old ACL";
    Invalidations, ForSharing, [Attributes]: acl::new_attributes_drop_a_cached_acl:
        "getxattr of the ACL; change it; stat with lifetime 0; getxattr" => "the new ACL";
    Invalidations, ForSharing, [Attributes]: overtaken::an_invalidation_of_an_unknown_inode_is_reported:
        "INVAL_INODE before and after the first LOOKUP" => "ENOENT, then success";
    Invalidations, Tolerated, [Attributes]: names::an_invalidation_during_a_lookup_is_lost:
        "hold the first LOOKUP; change; INVAL_INODE; reply; stat" => "ENOENT, then the old size";
    Invalidations, ForSharing, [Attributes]: overtaken::a_getattr_reply_that_an_invalidation_overtakes_is_not_cached:
        "hold GETATTR; change; INVAL_INODE; reply; stat" => "the new size";
    Invalidations, Tolerated, [Pages]: overtaken::a_cached_read_ends_at_a_size_that_an_invalidation_has_made_old:
        "hold the GETATTR of a cached read behind the end; grow the file; INVAL_INODE; reply; read again" => "no byte, then the byte";
    Invalidations, ForSharing, [Attributes]: overtaken::a_lookup_reply_that_an_invalidation_overtakes_refreshes_no_known_inode:
        "hold LOOKUP of a known inode; change; INVAL_INODE; reply; stat" => "the new size";
    Invalidations, ForSharing, [Attributes]: overtaken::a_listing_that_an_invalidation_overtakes_refreshes_no_known_inode:
        "hold READDIRPLUS; change; INVAL_INODE; reply; stat" => "the new size";
    Invalidations, ForSharing, [Attributes]: overtaken::a_setattr_reply_that_an_invalidation_overtakes_is_not_cached:
        "hold SETATTR (chmod); change; INVAL_INODE; reply; stat" => "the new size";
    Invalidations, ForSharing, [Pages]: pages::an_invalidation_drops_pages:
        "read; change the bytes alone; INVAL_INODE; read" => "the new bytes";
    Invalidations, ForSharing, [Pages]: pages::a_read_that_an_invalidation_overtakes_leaves_no_page:
        "hold READ; change the bytes; INVAL_INODE; reply; read" => "the new bytes";
    Invalidations, ForSharing, [Mappings]: mappings::an_invalidation_unmaps_pages:
        "mapped load; change the bytes; INVAL_INODE; load" => "READ is sent, the new byte";
    Invalidations, ForSharing, [Mappings]: mappings::a_store_after_an_invalidation_reads_the_page_again:
        "store; INVAL_INODE; store" => "WRITE, then READ";
    Invalidations, Tolerated, [Mappings]: mappings::an_attribute_invalidation_leaves_mapped_pages:
        "mapped load; change; INVAL_INODE without pages; load" => "the old byte";
    Invalidations, ForSharing, [Splice]: splice::splice_reads_again_after_an_invalidation:
        "splice from a cached, from a direct descriptor; change the bytes; INVAL_INODE; splice" => "the new byte";
    Invalidations, ForSharing, [Splice]: splice::sendfile_reads_again_after_an_invalidation:
        "the same with sendfile" => "the new byte";
    Invalidations, Tolerated, [Splice]: splice::a_pipe_keeps_bytes_that_were_spliced_before_an_invalidation:
        "splice; change the bytes; INVAL_INODE; read the pipe" => "the old byte";
    Invalidations, ForSharing, [Names Attributes]: forgets::a_forget_counts_every_reply_that_named_the_inode:
        "LOOKUP twice, READDIRPLUS, LINK; INVAL_ENTRY of both names" => "FORGET of all of these lookups";
    Invalidations, ForSharing, [Names Attributes]: forgets::an_open_file_is_not_forgotten:
        "open; INVAL_ENTRY; close" => "FORGET after the close only";
    Names, ForSharing, [Names]: names::an_invalidated_name_is_looked_up_again:
        "stat; INVAL_ENTRY; stat" => "one LOOKUP";
    Names, ForSharing, [Names]: names::an_invalidation_of_an_unknown_name_is_reported:
        "INVAL_ENTRY before and after LOOKUP, and again" => "ENOENT, success, ENOENT";
    Names, Tolerated, [Names]: names::a_negative_dentry_is_cached:
        "stat of an absent name twice; INVAL_ENTRY; stat" => "no second LOOKUP; one after the notification";
    Names, Tolerated, [Names]: names::an_inode_invalidation_of_a_directory_keeps_its_names:
        "stat; INVAL_INODE of the directory; stat" => "no LOOKUP";
    Names, ForSharing, [Names]: directories::a_file_that_is_open_survives_the_invalidation_of_its_name:
        "open; INVAL_ENTRY; read; stat" => "the bytes; one LOOKUP";
    Names, Tolerated, [Names]: directories::a_working_directory_has_no_path_after_its_name_is_invalidated:
        "chdir; INVAL_ENTRY; getcwd; stat of the directory by another program; getcwd" => "ENOENT, then the path";
    Names, ForSharing, [Names]: directories::a_working_directory_works_after_its_name_is_invalidated:
        "chdir; INVAL_ENTRY; stat of a relative name" => "one LOOKUP, the file";
    Names, Tolerated, [Names]: directories::a_name_invalidation_unmounts_a_file_system_mounted_there:
        "mount on a directory; INVAL_ENTRY" => "nothing is mounted there";
    Names, ForSharing, [Names]: epoch::inc_epoch_waits_for_no_lock_and_expires_all_names:
        "stat; hold CREATE; INC_EPOCH; reply; stat" => "INC_EPOCH returns at once; one LOOKUP";
    Names, ForSharing, [Names]: epoch::inc_epoch_passes_a_name_invalidation_that_waits:
        "hold CREATE; INVAL_ENTRY, which waits; INC_EPOCH" => "INC_EPOCH returns at once";
    Names, ForSharing, [Names]: epoch::names_of_a_lookup_in_flight_expire_with_inc_epoch:
        "hold LOOKUP of a file, of an absent name; INC_EPOCH; reply; stat" => "one more LOOKUP";
    Names, ForSharing, [Names]: epoch::the_name_of_a_create_in_flight_expires_with_inc_epoch:
        "hold CREATE; INC_EPOCH; reply; stat" => "one LOOKUP";
    Names, ForSharing, [Names]: epoch::the_name_of_a_link_in_flight_expires_with_inc_epoch:
        "hold LINK; INC_EPOCH; reply; stat" => "one LOOKUP";
    Names, ForSharing, [Names]: epoch::the_name_of_a_mkdir_in_flight_expires_with_inc_epoch:
        "hold MKDIR; INC_EPOCH; reply; stat" => "one LOOKUP";
    Names, Tolerated, [Names]: epoch::names_of_a_listing_in_flight_survive_inc_epoch:
        "hold READDIRPLUS; INC_EPOCH; reply; stat; INC_EPOCH; stat" => "no LOOKUP; one after another INC_EPOCH";
    Names, ForSharing, [Names]: directories::a_working_directory_keeps_its_path_through_inc_epoch:
        "chdir; INC_EPOCH; getcwd; stat of the directory by another program; getcwd" => "the path, both times";
    Names, Tolerated, [Names]: epoch::inc_epoch_keeps_attributes_and_pages:
        "open; read; INC_EPOCH; read" => "no request";
    Names, Tolerated, [Names]: epoch::inc_epoch_unmounts_file_systems_mounted_inside_the_mount:
        "mount on a directory; INC_EPOCH; stat" => "nothing is mounted there";
    Names, ForSharing, [Names]: directories::a_deletion_notice_of_another_inode_is_refused:
        "stat; FUSE_NOTIFY_DELETE of the name with another inode" => "ENOENT";
    Names, Tolerated, [Names]: directories::a_deletion_notice_leaves_an_open_file_without_links:
        "open; FUSE_NOTIFY_DELETE; fstat; read" => "0 links; the bytes";
    Names, Tolerated, [Names]: directories::a_deletion_notice_ends_a_working_directory:
        "chdir; FUSE_NOTIFY_DELETE; getcwd; stat of a relative name" => "ENOENT, without a LOOKUP";
    Names, Tolerated, [Names]: directories::a_deletion_notice_unmounts_a_file_system_mounted_there:
        "mount on a directory; FUSE_NOTIFY_DELETE" => "success, not EBUSY; nothing is mounted there";
    Notifications, Tolerated, [Names]: names::a_name_invalidation_waits_for_a_create_in_its_directory:
        "hold CREATE; INVAL_ENTRY of another name" => "it returns after the reply";
    Notifications, Tolerated, [Names]: names::a_name_invalidation_waits_for_a_lookup_in_its_directory:
        "hold LOOKUP; INVAL_ENTRY of another name" => "it returns after the reply";
    Notifications, Tolerated, [Names]: names::a_name_invalidation_waits_for_a_listing_of_its_directory:
        "hold READDIRPLUS; INVAL_ENTRY of a name" => "it returns after the reply";
    Notifications, Tolerated, [Pages Mappings Splice]: pages::a_page_invalidation_waits_for_the_read_that_fills_the_page:
        "hold READ; INVAL_INODE" => "it returns after the reply";
    Notifications, Tolerated, [Mappings]: pages::a_page_invalidation_writes_dirty_pages_first:
        "store; hold WRITE; INVAL_INODE" => "WRITE is sent; INVAL_INODE returns after its reply";
    Notifications, ForSharing, [Attributes]: pages::an_attribute_invalidation_waits_for_no_read:
        "hold READ; INVAL_INODE without pages" => "it returns at once";
    CachedAndDirect, ForPageCache, [Pages]: writes::a_direct_write_drops_the_pages_it_covers:
        "cached read; direct write; cached read" => "the written bytes";
    CachedAndDirect, ForPageCache, [Pages]: writes::pages_filled_during_a_direct_write_are_dropped_after_it:
        "hold a direct WRITE; cached read; reply; cached read" => "the written bytes";
    CachedAndDirect, ForSharing, [Pages]: writes::a_cached_open_waits_for_no_later_direct_write:
        "hold a direct WRITE; open cached; another direct write" => "the open returns before the second write";
    CachedAndDirect, ForSharing, [Pages Mappings Splice]: pages::only_a_direct_read_carries_a_lock_owner:
        "cached read; direct read" => "READ without, READ with LOCKOWNER";
    CachedAndDirect, ForSharing, [Pages]: opens::an_open_without_keep_cache_drops_the_pages:
        "read; change the bytes alone; open without KEEP_CACHE; read" => "the new bytes";
    CachedAndDirect, Tolerated, [Pages]: opens::an_open_with_keep_cache_keeps_the_pages:
        "read; change the bytes alone; open with KEEP_CACHE; read" => "the old bytes";
    CachedAndDirect, ForSharing, [Attributes]: attributes::a_direct_read_is_not_cut_at_the_cached_size:
        "open with direct I/O; grow the file elsewhere; read behind the cached size" => "the new bytes";
    CachedAndDirect, Tolerated, [Splice]: pages::splice_fills_the_page_cache_of_a_direct_file:
        "open with direct I/O; splice" => "READ without LOCKOWNER";
    CachedAndDirect, Tolerated, [Mappings]: pages::a_store_into_a_mapped_page_sends_no_request:
        "store; store" => "no request for the second";
    CachedAndDirect, ForSharing, [Mappings]: mappings::a_direct_read_writes_dirty_mapped_pages_first:
        "open with direct I/O; store; read" => "the stored byte";
    CachedAndDirect, ForSharing, [Mappings]: mappings::a_direct_write_drops_the_mapped_pages_it_covers:
        "open with direct I/O; mapped load; write; load" => "the written byte";
    CachedAndDirect, ForSharing, []: writes::direct_writes_within_the_file_run_in_parallel:
        "hold two direct WRITEs within the file" => "both are sent";
    CachedAndDirect, Tolerated, []: writes::direct_writes_that_extend_the_file_run_one_at_a_time:
        "hold a direct WRITE behind the end; write again" => "one is sent";
    Appends, Tolerated, [Attributes]: writes::the_offset_of_an_append_may_be_stale:
        "open with O_APPEND; grow the file elsewhere; write" => "WRITE at the cached size";
    Locks, ForSharing, []: locks::closing_a_file_releases_its_flock:
        "flock; close" => "an unlock, or RELEASE with FLOCK_UNLOCK";
    Locks, ForSharing, []: locks::a_close_names_the_owner_whose_posix_locks_it_releases:
        "fcntl lock; close" => "FLUSH with the lock's owner";
}
