//! Reads over the ring of a thread and over the shared ring of a runtime.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use gupfs_uring::{
    BlockingThreads, ReadFuture, ReadableFile, ThreadRing, acquire_blocking_permit, read, serve,
};

fn file(bytes: &[u8]) -> ReadableFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

fn poll(reading: &mut ReadFuture) -> Poll<io::Result<BytesMut>> {
    Pin::new(reading).poll(&mut Context::from_waker(Waker::noop()))
}

fn interrupted(reading: &mut ReadFuture) -> bool {
    matches!(poll(reading), Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted)
}

/// One test for everything, because the tests of a process share its shared ring.
#[tokio::test]
async fn reads_of_a_runtime_use_the_shared_ring_while_it_is_served() {
    let file = file(b"0123456789");
    let had = BytesMut::from(&b"had "[..]);
    let back = read(&file, had.clone(), 5, 0).err().unwrap();
    assert_eq!(
        &back[..],
        b"had ",
        "no task serves: the caller gets its buffer back"
    );

    let serving = tokio::spawn(serve());
    let (never, mut writes) = io::pipe().unwrap();
    let never: ReadableFile = Arc::new(never);
    tokio::task::yield_now().await;
    assert!(!serving.is_finished(), "no ring");
    let mut slow = read(&never, BytesMut::new(), 5, 0).ok().unwrap();
    for (len, offset, expected) in [(4, 2, "had 2345"), (100, 7, "had 789"), (4, 10, "had ")] {
        let read = read(&file, had.clone(), len, offset).ok().unwrap().await;
        assert_eq!(&read.unwrap()[..], expected.as_bytes());
    }
    let second = serve().await;
    assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
    let directory: ReadableFile = Arc::new(std::fs::File::open("/").unwrap());
    let failed = read(&directory, had.clone(), 4, 0).ok().unwrap().await;
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::IsADirectory);

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
    let mut here = ThreadRing::install();
    let file = file(b"0123456789");
    let had = BytesMut::from(&b"had "[..]);
    let mut readings = [(4, 2), (100, 7), (4, 10)]
        .map(|(len, offset)| read(&file, had.clone(), len, offset).ok().unwrap());
    assert!(poll(&mut readings[0]).is_pending());
    while let Some((number, command)) = here.next_to_submit() {
        // SAFETY: `here` keeps the buffers until each read is completed, below.
        unsafe { ring.submission().push(&command.user_data(number as u64)) }.unwrap();
    }
    ring.submit_and_wait(3).unwrap();
    for completion in ring.completion().collect::<Vec<_>>() {
        // SAFETY: this is the completion of the entry with that number.
        unsafe { here.complete(completion.user_data() as usize, completion.result()) };
    }
    let found = readings.each_mut().map(|reading| match poll(reading) {
        Poll::Ready(read) => String::from_utf8(read.unwrap().to_vec()).unwrap(),
        Poll::Pending => panic!("the read was completed"),
    });
    assert_eq!(found, ["had 2345", "had 789", "had "]);
}

#[test]
fn a_ring_that_is_closed_ends_its_reads() {
    let mut here = ThreadRing::install();
    let file = file(b"bytes");
    let mut seen = read(&file, BytesMut::new(), 5, 0).ok().unwrap();
    here.next_to_submit().unwrap();
    let mut unseen = read(&file, BytesMut::new(), 5, 0).ok().unwrap();
    drop(here);
    assert!(interrupted(&mut seen) && interrupted(&mut unseen));
}

#[test]
fn the_number_of_blocking_permits_is_bounded() {
    assert!(
        acquire_blocking_permit().is_none(),
        "the thread is in no group"
    );
    let waiters = BlockingThreads::new(2);
    waiters.join();
    let (first, second) = (acquire_blocking_permit(), acquire_blocking_permit());
    assert!(first.is_some() && second.is_some() && acquire_blocking_permit().is_none());
    drop(first);
    assert!(acquire_blocking_permit().is_some());
}
