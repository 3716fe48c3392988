//! The memory that leases take, in a process of its own.

use gupfs_namespace::leases::LeaseTable;
use gupfs_namespace::leases::limits::{LEASE_BYTES_MAX, LEASES_OF_SESSION};
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::{InodeId, SessionId};
use std::time::Duration;

/// Memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<usize>().unwrap() << 10
}

/// Keys in the order in which a walk over a tree gets them; or, with `stride`, all over the table.
fn key(number: u64, stride: u64) -> LeaseKey {
    let number = number.wrapping_mul(stride);
    let ino = InodeId(number / 2);
    match number % 2 {
        0 => LeaseKey::Attributes(ino),
        _ => LeaseKey::Name {
            dir: InodeId(ino.0 / 64),
            hash: ino.0 % (1 << 55),
        },
    }
}

#[test]
fn a_lease_takes_at_most_its_bytes() {
    // In order, the nodes of the trees are half full; at random, two thirds. Both the same key by several sessions, and keys of one.
    for (sessions, stride) in [(8, 1), (8, 0x9e37_79b9_7f4a_7c15), (1, 1)] {
        let before = resident();
        let mut table = LeaseTable::new();
        let mut granted = 0;
        for session in 1..=sessions {
            table.accept(SessionId(session));
        }
        for number in 0..LEASES_OF_SESSION as u64 {
            for session in 1..=sessions {
                // 100,000 grants a second of each session.
                let now = Duration::from_micros(10 * number);
                let lease = table.grant(SessionId(session), key(number, stride), now);
                granted += usize::from(lease.is_some());
            }
        }
        assert!(granted > LEASES_OF_SESSION * sessions as usize * 9 / 10);
        let each = (resident() - before) / table.counts(Duration::ZERO).leases;
        assert!(
            each <= LEASE_BYTES_MAX,
            "{each} bytes, {sessions} sessions, stride {stride}"
        );
        assert!(each > 40, "{each} bytes: nothing was measured");
        std::mem::forget(table);
    }
}
