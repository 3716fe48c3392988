//! How often memory is asked for on the way of a small write and read, servers included.
//!
//! Unsafe: a global allocator has no other form. It counts and passes on to the system's, with the same arguments.

use crate::fake::Site;
use bytes::Bytes;
use gupfs_client::{ReadHow, WriteHow};
use gupfs_proto::meta::WriteAt;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged; counting touches a thread-local without a destructor, so it allocates nothing.
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
async fn a_small_write_asks_for_memory_a_handful_of_times() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 64 << 10]).await;
    site.read(&file, 0, 4096).await;
    let data = Bytes::from(vec![2; 4096]);
    let rounds = 50;
    let measure = |before: u64| (COUNT.get() - before) / rounds;

    site.ost.state.lock().journal.clear();
    let before = COUNT.get();
    for _ in 0..rounds {
        let write = site.client.write(
            &file,
            WriteAt::Offset(8192),
            data.clone(),
            WriteHow::default(),
        );
        write.await.unwrap();
    }
    let writing = measure(before);
    let before = COUNT.get();
    for _ in 0..rounds {
        site.client
            .read(&file, 8192, 4096, ReadHow::default())
            .await
            .unwrap();
    }
    let reading = measure(before);
    println!("{writing} for a write, {reading} for a read");
    // Of these the server in memory takes about six for each: its journal, its answers.
    assert!(writing <= 12, "{writing} for a write");
    assert!(reading <= 14, "{reading} for a read");
}
