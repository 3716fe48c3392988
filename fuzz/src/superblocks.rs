//! A target's superblock: whatever it holds, it is read or refused.

use gupfs_proto::{ClusterId, OstId};
use gupfs_store::object::{Objects, Whose};
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakeWorld};

const FILE: &str = "superblock";
/// Where the checksum of version 1 lies.
const SUM: usize = 124;

/// The first byte says whether the checksum is set right; the rest are the first bytes of the file.
pub fn superblock(input: &[u8]) {
    let Some((how, bytes)) = input.split_first() else {
        return;
    };
    crate::simulate(async {
        let platform = FakeWorld::new(1);
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        let whose = Whose {
            cluster: ClusterId(1),
            ost: OstId(2),
        };
        Objects::init(&disk.disk(), &platform.platform(), whose)
            .await
            .expect("an empty disk takes a target");
        let fits = bytes.len().min(SUM + 4);
        disk.vandalize(FILE, 0, &bytes[..fits]);
        if how & 1 == 1 {
            let sum = crc32c::crc32c(&disk.bytes(FILE)[..SUM]);
            disk.vandalize(FILE, SUM as u64, &sum.to_le_bytes());
        }
        let _ = Objects::peek(&disk.disk()).await;
    });
}

pub fn seeds() -> Vec<Vec<u8>> {
    let head = |version: u32| {
        [
            &[1][..],
            b"gupfsost",
            &version.to_le_bytes(),
            &[128, 0, 0, 0],
        ]
        .concat()
    };
    vec![
        vec![0],
        head(1),
        head(2),
        [&head(1)[..], &[0xff; 16]].concat(),
    ]
}
