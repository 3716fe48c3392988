//! A cluster of real daemons on this host: one metadata server, two object servers, several mounts.

#![allow(clippy::disallowed_methods)] // real processes are waited for, in real time

#[path = "../running/mod.rs"]
mod running;

mod cached_reads;
mod call_deadlines;
#[allow(dead_code)] // the arbiter's tests use the rest
#[path = "../../../platform/tests/arbiter/certificates.rs"]
mod certificates;
mod checked;
mod clocks;
mod converted;
mod copies;
mod crowd;
mod drained_osts;
mod encrypted;
#[allow(dead_code)] // the arbiter's tests use the rest
#[path = "../../../platform/tests/arbiter/members.rs"]
mod etcd_members;
mod failing;
mod failing_disk;
mod failure_domains;
mod full_disk;
mod growing_files;
#[path = "../power_cut/images.rs"]
mod images;
mod jobs;
mod joining_oss;
mod keys;
mod library;
mod load;
mod locks;
mod lost_osts;
mod many_names;
mod many_sessions;
mod mapped_files;
mod metadata_leases;
mod mirrored_files;
mod mount_end;
mod mount_kills;
mod names_storm;
mod networks;
mod panics;
mod partitions;
mod planted_panic;
mod posix;
mod power;
mod programs;
mod random;
mod rebalanced;
mod refused;
mod relayed_writes;
mod restored;
mod rights;
mod root_squash;
mod scrubbed;
mod server_kills;
mod shared_writes;
mod test_cluster;
mod two_mounts;
mod verified;
mod verified_faults;
mod write_behind;
