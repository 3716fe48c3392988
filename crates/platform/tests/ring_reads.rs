//! Reads over a ring return the bytes of the file, whether the ring completes, fails or loses them.
#![allow(clippy::disallowed_methods)] // tests use real disks

use bytes::BytesMut;
use gupfs_platform::{Disk, DiskFile, OnCacheMiss, OpenHow};
use gupfs_skips::{Need, skip};
use gupfs_uring::ThreadRing;
use io_uring::IoUring;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Why a test of reads from a disk does not run.
const IN_MEMORY: &str = "the files of this directory are always in memory";

struct Fixture {
    file: DiskFile,
    bytes: Vec<u8>,
    /// The same file, to drop its pages from the page cache.
    evict: File,
    _dir: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let file = disk.open("file", OpenHow::write().create()).await.unwrap();
    let bytes: Vec<u8> = (0..500_001u32).map(|n| (n * 7 % 251) as u8).collect();
    file.write_at(&bytes, 0).await.unwrap();
    file.sync_data().await.unwrap();
    let evict = File::open(dir.path().join("file")).unwrap();
    Fixture {
        file,
        bytes,
        evict,
        _dir: dir,
    }
}

impl Fixture {
    async fn read(&self, number: usize) {
        fadvise(&self.evict, 0, None, Advice::DontNeed).unwrap();
        let (at, len) = ((number * 77_777) % 510_000, 1 + (number * 9_973) % 100_000);
        let had = BytesMut::from(&b"had "[..]);
        let read = self
            .file
            .read_append(had, len, at as u64, OnCacheMiss::HandOff);
        let read = read.await.unwrap();
        let end = self.bytes.len();
        assert_eq!(&read[..4], b"had ");
        let expected = &self.bytes[at.min(end)..(at + len).min(end)];
        assert!(read[4..] == *expected, "read {number}: {at} + {len}");
    }
}

/// Checks that enough reads used the ring; on a file system in memory no read waits.
fn check_ring_reads(submitted: usize) {
    match submitted {
        0 => skip(Need::FileSystem, IN_MEMORY),
        submitted => assert!(submitted > 100, "only {submitted} reads used the ring"),
    }
}

#[tokio::test]
async fn reads_return_the_files_bytes_when_the_ring_fails_or_closes() {
    let fixture = fixture().await;
    let mut uring = IoUring::new(8).unwrap();
    let mut submitted = 0;
    for turn in 0..200 {
        let mut here = Some(ThreadRing::install());
        let mut read = pin!(fixture.read(turn));
        let mut cx = Context::from_waker(Waker::noop());
        // The read is complete, or waits for the ring or the pool.
        while read.as_mut().poll(&mut cx).is_pending() {
            let next = here.as_mut().and_then(ThreadRing::next_to_submit);
            let (Some((number, command)), Some(ring)) = (next, &mut here) else {
                read.as_mut().await;
                break;
            };
            submitted += 1;
            if submitted % 5 == 0 {
                // Close the ring before it executes the read.
                here = None;
                continue;
            }
            // SAFETY: `ring` keeps the buffer until `complete`, below.
            unsafe { uring.submission().push(&command) }.unwrap();
            uring.submit_and_wait(1).unwrap();
            let got = uring.completion().next().unwrap().result();
            let result = match submitted % 5 {
                1 => -libc::EIO,
                2 => got.min(1 + got / 3),
                _ => got,
            };
            fadvise(&fixture.evict, 0, None, Advice::DontNeed).unwrap();
            // SAFETY: the kernel has completed the read.
            unsafe { ring.complete(number, result) };
        }
    }
    check_ring_reads(submitted);
}

#[tokio::test]
async fn a_runtime_reads_over_one_ring() {
    let fixture = fixture().await;
    let mut serving = pin!(gupfs_uring::serve());
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(error) = serving.as_mut().poll(&mut cx) {
        panic!("no ring: {error}");
    }
    // Together with the reads of the other tests fewer than the limit of a process.
    let all = futures_of(&fixture, 20);
    tokio::select! {
        error = serving.as_mut() => panic!("the ring was closed: {error}"),
        () = all => {}
    }
}

/// The thread of this test keeps its blocking permit until it ends.
#[test]
fn a_thread_with_a_blocking_permit_reads_a_small_part_itself_and_hands_off_a_large_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let _in_runtime = runtime.enter();
    let fixture = runtime.block_on(fixture());
    let polled = |len: usize| {
        let mut cx = Context::from_waker(Waker::noop());
        fadvise(&fixture.evict, 0, None, Advice::DontNeed).unwrap();
        let read = fixture
            .file
            .read_append(BytesMut::new(), len, 0, OnCacheMiss::HandOff);
        let mut read = pin!(read);
        match read.as_mut().poll(&mut cx) {
            Poll::Ready(read) => assert!(read.unwrap() == fixture.bytes[..len]),
            Poll::Pending => return false,
        }
        true
    };
    let (little, much) = (64 << 10, 256 << 10);
    // On another thread: a ring read of this thread would prevent it from blocking.
    let without_permit = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _in_runtime = runtime.enter();
            polled(little)
        });
        other.join().unwrap()
    });
    gupfs_uring::BlockingThreads::new(1).join();
    assert!(
        polled(little),
        "the thread blocks until the read is complete"
    );
    match (without_permit, polled(much)) {
        (true, _) => skip(Need::FileSystem, IN_MEMORY),
        (false, at_once) => assert!(!at_once, "the pool reads parts in parallel"),
    }
}

/// Runs `many` reads at a time, five times.
async fn futures_of(fixture: &Fixture, many: usize) {
    for round in 0..5 {
        let mut reads: Vec<_> = (0..many)
            .map(|turn| Some(Box::pin(fixture.read(round * many + turn))))
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
