//! Counts memory allocations of a small write and read, servers included.
//!
//! Unsafe: a global allocator requires it. It counts, and calls the system allocator with the same arguments.

use crate::fake::FakeCluster;
use bytes::Bytes;
use gupfs_client::{ReadOptions, WriteOptions};
use gupfs_proto::meta::WritePosition;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged; the counter is a thread-local without a destructor, so it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[tokio::test(start_paused = true)]
async fn a_small_write_allocates_memory_a_few_times() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 64 << 10]).await;
    cluster.read(&file, 0, 4096).await;
    let data = Bytes::from(vec![2; 4096]);
    let rounds = 50;
    let measure = |before: u64| (COUNT.get() - before) / rounds;

    cluster.ost.state.lock().journal.clear();
    let before = COUNT.get();
    for _ in 0..rounds {
        let write = cluster.client.write(
            &file,
            WritePosition::Offset(8192),
            data.clone(),
            WriteOptions::default(),
        );
        write.await.unwrap();
    }
    let writing = measure(before);
    let before = COUNT.get();
    for _ in 0..rounds {
        cluster
            .client
            .read(&file, 8192, 4096, ReadOptions::default())
            .await
            .unwrap();
    }
    let reading = measure(before);
    println!("{writing} for a write, {reading} for a read");
    // The in-memory server makes about six of these for each operation: its journal, its replies.
    assert!(writing <= 12, "{writing} for a write");
    assert!(reading <= 14, "{reading} for a read");
}
