//! What a large machine pays for a mount that nobody uses.

use std::fs::{File, read_to_string};
use std::process::Command;

use super::*;
use crate::Config;
use crate::transport::ring::{payload_size, unavailable};

const QUEUES: usize = 128;
const MOST: usize = 64 << 20;

/// Of each thread, in the kernel.
const STACK: usize = 16 << 10;

/// What this process has of the machine's memory, as far as it can be counted.
#[derive(Default, Debug)]
struct Memory {
    /// Pages of the process, but for those of the rings.
    resident: usize,
    /// Pages that the kernel has made for the rings, touched or not.
    rings: usize,
    page_tables: usize,
    stacks: usize,
}

/// The number behind a name, in a file of lines like `VmRSS:   123 kB`.
fn number(text: &str, name: &str) -> usize {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap()
}

impl Memory {
    fn now() -> Memory {
        let status = read_to_string("/proc/self/status").unwrap();
        let maps = read_to_string("/proc/self/smaps").unwrap();
        // What follows the name of a mapping are its figures, up to the next one.
        let maps = maps.split("anon_inode:").skip(1);
        let rings: Vec<_> = maps.filter(|map| map.starts_with("[io_uring]")).collect();
        let sum = |figure| -> usize { rings.iter().map(|map| number(map, figure)).sum() };
        Memory {
            resident: (number(&status, "VmRSS") - sum("Rss")) << 10,
            rings: sum("Size") << 10,
            page_tables: number(&status, "VmPTE") << 10,
            stacks: number(&status, "Threads") * STACK,
        }
    }

    fn since(&self, before: &Memory) -> Memory {
        Memory {
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

/// Alone in its process: it looks at all of the process's memory.
const ALONE: &str = "GUPFS_TEST_ALONE";

#[test]
fn an_idle_mount_of_128_cpus_costs_less_than_64_mib() {
    if let Some(error) = unavailable() {
        eprintln!("SKIPPED: no io_uring on this machine: {error}");
        return;
    }
    if std::env::var_os(ALONE).is_none() {
        let name = "rings::tests::an_idle_mount_of_128_cpus_costs_less_than_64_mib";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args([name, "--exact", "--nocapture"]).env(ALONE, "1");
        assert!(alone.status().unwrap().success());
        return;
    }
    let config = Config::new("nothing", "rings");
    let payload = payload_size(config.max_write, config.max_pages);
    // It stands for the device, whose queues nobody but the kernel can make.
    let device = File::open("/dev/null").unwrap();
    let before = Memory::now();
    let rings = Rings::prepare(device.as_fd(), QUEUES, payload, false).unwrap();
    assert_eq!(rings.count(), QUEUES);
    let memory = Memory::now().since(&before);
    let kib = memory.all() >> 10;
    eprintln!("rings of {QUEUES} CPUs, idle: {kib} KiB, {memory:?}");
    assert!(memory.rings > 0, "the rings were not counted");
    assert!(memory.all() < MOST, "{kib} KiB");
}
