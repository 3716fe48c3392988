//! Tests of the client against small in-memory servers (`fake`), which check every request; and against the real servers over
//! fake disks (`real_servers`), through kills and power losses.

mod allocations;
mod concurrency;
mod concurrent_writes;
mod fake;
mod faults;
mod leases;
mod locks;
mod locks_random;
mod mapped_pages;
mod messages;
mod mirrored_reads;
mod model;
mod names;
mod new_files;
mod numbered_writes;
mod orphans;
mod real_servers;
mod sessions;
mod shard_groups;
mod shared_cluster;
mod sharing;
mod sharing_model;
mod take_over;
mod target_down;
mod times;
mod user;
mod write_behind;
mod write_leases;
