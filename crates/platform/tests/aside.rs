//! Reads over a ring: whatever that does, the bytes are the file's.
#![allow(clippy::disallowed_methods)] // tests stand outside the simulated world

use bytes::BytesMut;
use gupfs_platform::{Disk, DiskFile, OpenHow, ReadHow};
use gupfs_uring::Here;
use io_uring::IoUring;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

struct Rig {
    file: DiskFile,
    bytes: Vec<u8>,
    /// The same file, to have its pages forgotten.
    evict: File,
    _dir: tempfile::TempDir,
}

async fn rig() -> Rig {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let file = disk.open("file", OpenHow::write().create()).await.unwrap();
    let bytes: Vec<u8> = (0..500_001u32).map(|n| (n * 7 % 251) as u8).collect();
    file.write_at(&bytes, 0).await.unwrap();
    file.sync_data().await.unwrap();
    let evict = File::open(dir.path().join("file")).unwrap();
    Rig {
        file,
        bytes,
        evict,
        _dir: dir,
    }
}

impl Rig {
    async fn read(&self, turn: usize) {
        fadvise(&self.evict, 0, None, Advice::DontNeed).unwrap();
        let (at, len) = ((turn * 77_777) % 510_000, 1 + (turn * 9_973) % 100_000);
        let had = BytesMut::from(&b"had "[..]);
        let read = self.file.read_append(had, len, at as u64, ReadHow::MayWait);
        let read = read.await.unwrap();
        let end = self.bytes.len();
        assert_eq!(&read[..4], b"had ");
        let expected = &self.bytes[at.min(end)..(at + len).min(end)];
        assert!(read[4..] == *expected, "turn {turn}: {at} + {len}");
    }
}

/// Of what is on a disk; in memory nothing ever waits.
fn is_enough(asked: usize) {
    match asked {
        0 => eprintln!("SKIPPED: what lies in this directory is always in memory"),
        asked => assert!(asked > 100, "hardly anything was asked for: {asked}"),
    }
}

#[tokio::test]
async fn whatever_a_ring_does_the_bytes_are_the_files() {
    let rig = rig().await;
    let mut uring = IoUring::new(8).unwrap();
    let mut asked = 0;
    for turn in 0..200 {
        let mut here = Some(Here::begin());
        let mut read = pin!(rig.read(turn));
        let mut cx = Context::from_waker(Waker::noop());
        // It is done, or it waits for the ring, or for the pool.
        while read.as_mut().poll(&mut cx).is_pending() {
            let next = here.as_mut().and_then(Here::to_submit);
            let (Some((number, command)), Some(ring)) = (next, &mut here) else {
                read.as_mut().await;
                break;
            };
            asked += 1;
            if asked % 5 == 0 {
                // The ring is closed before it has seen the read.
                here = None;
                continue;
            }
            // SAFETY: `ring` keeps the buffer until it is told, below.
            unsafe { uring.submission().push(&command) }.unwrap();
            uring.submit_and_wait(1).unwrap();
            let got = uring.completion().next().unwrap().result();
            let said = match asked % 5 {
                1 => -libc::EIO,
                2 => got.min(1 + got / 3),
                _ => got,
            };
            fadvise(&rig.evict, 0, None, Advice::DontNeed).unwrap();
            // SAFETY: the kernel has completed it.
            unsafe { ring.completed(number, said) };
        }
    }
    is_enough(asked);
}

#[tokio::test]
async fn a_runtime_reads_over_one_ring() {
    let rig = rig().await;
    let mut serving = pin!(gupfs_uring::serve());
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(why) = serving.as_mut().poll(&mut cx) {
        panic!("no ring: {why}");
    }
    // With those of the other tests fewer than may be under way in a process.
    let all = futures_of(&rig, 20);
    tokio::select! {
        why = serving.as_mut() => panic!("it ended: {why}"),
        () = all => {}
    }
}

/// In a thread of its own: it may wait for the rest of its life.
#[test]
fn a_thread_that_may_wait_reads_a_little_at_once_and_leaves_much_to_others() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let _in_runtime = runtime.enter();
    let rig = runtime.block_on(rig());
    let polled = |len: usize| {
        let mut cx = Context::from_waker(Waker::noop());
        fadvise(&rig.evict, 0, None, Advice::DontNeed).unwrap();
        let read = rig
            .file
            .read_append(BytesMut::new(), len, 0, ReadHow::MayWait);
        let mut read = pin!(read);
        match read.as_mut().poll(&mut cx) {
            Poll::Ready(read) => assert!(read.unwrap() == rig.bytes[..len]),
            Poll::Pending => return false,
        }
        true
    };
    let (little, much) = (64 << 10, 256 << 10);
    // Elsewhere: what a ring reads for this thread would keep it from waiting.
    let anybody = std::thread::scope(|scope| {
        let anybody = scope.spawn(|| {
            let _in_runtime = runtime.enter();
            polled(little)
        });
        anybody.join().unwrap()
    });
    gupfs_uring::Waiters::new(1).join();
    assert!(polled(little), "it waited");
    match (anybody, polled(much)) {
        (true, _) => eprintln!("SKIPPED: what lies in this directory is always in memory"),
        (false, at_once) => assert!(!at_once, "nobody else reads pieces beside it"),
    }
}

/// So many reads at a time, five times.
async fn futures_of(rig: &Rig, many: usize) {
    for round in 0..5 {
        let mut reads: Vec<_> = (0..many)
            .map(|turn| Some(Box::pin(rig.read(round * many + turn))))
            .collect();
        std::future::poll_fn(|cx| {
            for slot in &mut reads {
                if let Some(read) = slot
                    && read.as_mut().poll(cx).is_ready()
                {
                    *slot = None;
                }
            }
            match reads.iter().all(Option::is_none) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}
