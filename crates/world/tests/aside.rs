//! Reads aside: whatever that way does, the bytes are the file's.
#![allow(clippy::disallowed_methods)] // tests stand outside the simulated world

use bytes::{BufMut, BytesMut};
use gupfs_world::{Disk, OpenFile, OpenHow, ReadAside, ReadHow, ReadingAside, read_aside_with};
use rustix::fs::{Advice, fadvise};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Refuses, fails and reads less than it could, in turns.
struct Fickle {
    asked: AtomicUsize,
}

static FICKLE: Fickle = Fickle {
    asked: AtomicUsize::new(0),
};

impl ReadAside for Fickle {
    fn read(
        &self,
        file: &OpenFile,
        mut into: BytesMut,
        len: usize,
        offset: u64,
    ) -> Result<ReadingAside, BytesMut> {
        assert!(into.is_empty() && into.capacity() >= len);
        let less = match self.asked.fetch_add(1, SeqCst) % 4 {
            0 => return Err(into),
            1 => {
                return Ok(Box::pin(async {
                    Err(std::io::ErrorKind::Interrupted.into())
                }));
            }
            2 => len.div_ceil(3),
            _ => len,
        };
        let mut bytes = vec![0; less];
        let got = rustix::io::pread(file, &mut bytes[..], offset).unwrap();
        into.put_slice(&bytes[..got]);
        // And what it read is no longer in memory: the next piece comes aside as well.
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        Ok(Box::pin(async { Ok(into) }))
    }
}

#[tokio::test]
async fn whatever_the_way_aside_does_the_bytes_are_the_files() {
    read_aside_with(&FICKLE);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let file = disk.open("file", OpenHow::write().create()).await.unwrap();
    let bytes: Vec<u8> = (0..500_001u32).map(|n| (n * 7 % 251) as u8).collect();
    file.write_at(&bytes, 0).await.unwrap();
    file.sync_data().await.unwrap();
    let evict = std::fs::File::open(dir.path().join("file")).unwrap();
    for turn in 0..200 {
        fadvise(&evict, 0, None, Advice::DontNeed).unwrap();
        let (at, len) = ((turn * 77_777) % 510_000, 1 + (turn * 9_973) % 100_000);
        let had = BytesMut::from(&b"had "[..]);
        let read = file.read_append(had, len, at as u64, ReadHow::MayWait);
        let read = read.await.unwrap();
        let expected = &bytes[at.min(bytes.len())..(at + len).min(bytes.len())];
        assert_eq!(&read[..4], b"had ");
        assert!(&read[4..] == expected, "turn {turn}: {at} + {len}");
    }
    match FICKLE.asked.load(SeqCst) {
        0 => eprintln!("SKIPPED: what lies in this directory is always in memory"),
        asked => assert!(asked > 100, "hardly anything was aside: {asked}"),
    }
}
