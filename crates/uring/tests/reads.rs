//! Reads over rings, of one thread and of a runtime.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use gupfs_uring::{File, Here, Reading, Waiters, may_wait_here, read, serve};

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

fn poll(reading: &mut Reading) -> Poll<io::Result<BytesMut>> {
    Pin::new(reading).poll(&mut Context::from_waker(Waker::noop()))
}

fn interrupted(reading: &mut Reading) -> bool {
    matches!(poll(reading), Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted)
}

/// Tests of one process share its runtime's ring: all of it in one.
#[tokio::test]
async fn reads_of_a_runtime_come_over_one_ring_as_long_as_it_is_served() {
    let file = file(b"0123456789");
    let had = BytesMut::from(&b"had "[..]);
    let back = read(&file, had.clone(), 5, 0).err().unwrap();
    assert_eq!(&back[..], b"had ", "nobody serves: the buffer comes back");

    let serving = tokio::spawn(serve());
    let (never, mut writes) = io::pipe().unwrap();
    let never: File = Arc::new(never);
    tokio::task::yield_now().await;
    assert!(!serving.is_finished(), "no ring");
    let mut slow = read(&never, BytesMut::new(), 5, 0).ok().unwrap();
    for (len, offset, expected) in [(4, 2, "had 2345"), (100, 7, "had 789"), (4, 10, "had ")] {
        let read = read(&file, had.clone(), len, offset).ok().unwrap().await;
        assert_eq!(&read.unwrap()[..], expected.as_bytes());
    }
    let second = serve().await;
    assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
    let directory: File = Arc::new(std::fs::File::open("/").unwrap());
    let refused = read(&directory, had.clone(), 4, 0).ok().unwrap().await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::IsADirectory);

    assert!(poll(&mut slow).is_pending());
    writes.write_all(b"late").unwrap();
    assert_eq!(&slow.await.unwrap()[..], b"late");

    let mut cut = read(&never, BytesMut::new(), 5, 0).ok().unwrap();
    serving.abort();
    assert!(serving.await.is_err());
    assert!(interrupted(&mut cut));
    assert!(read(&file, had, 5, 0).is_err());
}

#[test]
fn a_thread_reads_over_its_own_ring() {
    let mut ring = io_uring::IoUring::new(8).unwrap();
    let mut here = Here::begin();
    let file = file(b"0123456789");
    let had = BytesMut::from(&b"had "[..]);
    let mut readings = [(4, 2), (100, 7), (4, 10)]
        .map(|(len, offset)| read(&file, had.clone(), len, offset).ok().unwrap());
    assert!(poll(&mut readings[0]).is_pending());
    while let Some((number, command)) = here.to_submit() {
        // SAFETY: `here` keeps the buffers until each is completed, below.
        unsafe { ring.submission().push(&command.user_data(number as u64)) }.unwrap();
    }
    ring.submit_and_wait(3).unwrap();
    for completion in ring.completion().collect::<Vec<_>>() {
        // SAFETY: it is the completion of that number's command.
        unsafe { here.completed(completion.user_data() as usize, completion.result()) };
    }
    let found = readings.each_mut().map(|reading| match poll(reading) {
        Poll::Ready(read) => String::from_utf8(read.unwrap().to_vec()).unwrap(),
        Poll::Pending => panic!("it was completed"),
    });
    assert_eq!(found, ["had 2345", "had 789", "had "]);
}

#[test]
fn a_ring_that_is_closed_ends_its_reads() {
    let mut here = Here::begin();
    let file = file(b"bytes");
    let mut seen = read(&file, BytesMut::new(), 5, 0).ok().unwrap();
    here.to_submit().unwrap();
    let mut unseen = read(&file, BytesMut::new(), 5, 0).ok().unwrap();
    drop(here);
    assert!(interrupted(&mut seen) && interrupted(&mut unseen));
}

#[test]
fn of_threads_that_may_wait_some_are_left() {
    assert!(may_wait_here().is_none(), "not one of any");
    let waiters = Waiters::new(2);
    waiters.join();
    let (first, second) = (may_wait_here(), may_wait_here());
    assert!(first.is_some() && second.is_some() && may_wait_here().is_none());
    drop(first);
    assert!(may_wait_here().is_some());
}
