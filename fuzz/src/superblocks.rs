//! Reads a target's superblock with arbitrary bytes: it is read or refused.

use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
use gupfs_proto::{ClusterId, OstId};
use gupfs_store::object::{Objects, TargetId};

const FILE: &str = "superblock";
/// Offset of the checksum in version 1.
const SUM: usize = 124;

/// The first byte of `input` says whether the checksum is corrected; the rest are the first bytes of the file.
pub fn superblock(input: &[u8]) {
    let Some((how, bytes)) = input.split_first() else {
        return;
    };
    crate::simulate(async {
        let platform = FakePlatform::new(1);
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        let id = TargetId {
            cluster: ClusterId(1),
            ost: OstId(2),
        };
        Objects::init(&disk.disk(), &platform.platform(), id)
            .await
            .expect("a target is initialized on an empty disk");
        let fits = bytes.len().min(SUM + 4);
        disk.overwrite(FILE, 0, &bytes[..fits]);
        if how & 1 == 1 {
            let sum = crc32c::crc32c(&disk.bytes(FILE)[..SUM]);
            disk.overwrite(FILE, SUM as u64, &sum.to_le_bytes());
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
