//! Memory use of an idle mount on a host with many CPUs.

use std::fs::{File, read_to_string};
use std::process::Command;

use super::*;
use crate::MountConfig;
use crate::transport::ring::{creation_error, payload_size};

const QUEUES: usize = 128;
const MEMORY_MAX: usize = 64 << 20;

/// Kernel stack of one thread.
const STACK: usize = 16 << 10;

/// Memory use of this process, as far as procfs shows it.
#[derive(Default, Debug)]
struct MemoryUse {
    /// Resident pages of the process without those of the rings.
    resident: usize,
    /// Pages that the kernel has allocated for the rings, whether touched or not.
    rings: usize,
    page_tables: usize,
    stacks: usize,
}

/// The number after a name, in a file of lines like `VmRSS:   123 kB`.
fn number(text: &str, name: &str) -> usize {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap()
}

impl MemoryUse {
    fn now() -> MemoryUse {
        let status = read_to_string("/proc/self/status").unwrap();
        let maps = read_to_string("/proc/self/smaps").unwrap();
        // The figures of a mapping follow its name, up to the next mapping.
        let maps = maps.split("anon_inode:").skip(1);
        let rings: Vec<_> = maps.filter(|map| map.starts_with("[io_uring]")).collect();
        let sum = |figure| -> usize { rings.iter().map(|map| number(map, figure)).sum() };
        MemoryUse {
            resident: (number(&status, "VmRSS") - sum("Rss")) << 10,
            rings: sum("Size") << 10,
            page_tables: number(&status, "VmPTE") << 10,
            stacks: number(&status, "Threads") * STACK,
        }
    }

    fn since(&self, before: &MemoryUse) -> MemoryUse {
        MemoryUse {
            resident: self.resident.saturating_sub(before.resident),
            rings: self.rings - before.rings,
            page_tables: self.page_tables.saturating_sub(before.page_tables),
            stacks: self.stacks - before.stacks,
        }
    }

    fn all(&self) -> usize {
        self.resident + self.rings + self.page_tables + self.stacks
    }
}

/// Set in the child process that runs the test alone, because the test measures the memory of the entire process.
const ALONE: &str = "GUPFS_TEST_ALONE";

#[test]
fn an_idle_mount_of_128_cpus_costs_less_than_64_mib() {
    if let Some(error) = creation_error() {
        gupfs_skips::skip(
            gupfs_skips::Need::IoUring,
            format!("no io_uring on this host: {error}"),
        );
        return;
    }
    if std::env::var_os(ALONE).is_none() {
        let name = "ring_threads::tests::an_idle_mount_of_128_cpus_costs_less_than_64_mib";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args([name, "--exact", "--nocapture"]).env(ALONE, "1");
        assert!(alone.status().unwrap().success());
        return;
    }
    let config = MountConfig::new("nothing", "rings");
    let payload = payload_size(config.max_write, config.max_pages);
    // Stands in for the device; only the kernel can create real queues.
    let device = File::open("/dev/null").unwrap();
    let before = MemoryUse::now();
    let rings = RingThreads::prepare(device.as_fd(), QUEUES, payload, false).unwrap();
    assert_eq!(rings.count(), QUEUES);
    let memory = MemoryUse::now().since(&before);
    let kib = memory.all() >> 10;
    eprintln!("rings of {QUEUES} CPUs, idle: {kib} KiB, {memory:?}");
    assert!(memory.rings > 0, "the memory of the rings was not counted");
    assert!(memory.all() < MEMORY_MAX, "{kib} KiB");
}
