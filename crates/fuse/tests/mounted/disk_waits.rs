//! Device workers that block in a disk read: never all of them, and none with reply deadlines.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use gupfs_fuse::{
    AttrReply, Call, EntryReply, Errno, FileSystem, OpenReply, ReplyData, ReplyDeadlines, Result,
    op,
};
use gupfs_uring::acquire_blocking_permit;

use crate::one_file;
use crate::test_mount::{SOON, TestMount, config};

/// Each READ reports whether it may block, and if so blocks until the test releases it.
struct BlockingFs {
    may_wait_sender: Mutex<Sender<bool>>,
    gate: Mutex<Receiver<()>>,
}

const SIZE: u64 = 4096;

impl FileSystem for BlockingFs {
    async fn lookup(&self, _: Call, _: op::Lookup) -> Result<EntryReply> {
        Ok(one_file::entry(SIZE))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        Ok(one_file::attributes(call.node, SIZE))
    }

    async fn open(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(one_file::opened())
    }

    async fn read(&self, _: Call, _: op::Read) -> Result<ReplyData> {
        let waits = acquire_blocking_permit();
        self.may_wait_sender
            .lock()
            .unwrap()
            .send(waits.is_some())
            .unwrap();
        if waits.is_some() {
            self.gate.lock().unwrap().recv().unwrap();
        }
        Err(Errno::EIO)
    }
}

/// Whether the first and the second of two concurrent reads may block, with two device workers.
fn may_wait_results(deadlines: Option<ReplyDeadlines>) -> Option<[bool; 2]> {
    let ((may_wait_sender, receive), (gate_sender, gate)) = (channel(), channel());
    let mut config = config();
    (config.device_workers, config.reply_deadlines) = (2, deadlines);
    let fs = BlockingFs {
        may_wait_sender: Mutex::new(may_wait_sender),
        gate: Mutex::new(gate),
    };
    let mount = TestMount::new(fs, config)?;
    let read = || {
        let path = mount.path("file");
        let thread = thread::spawn(move || {
            let read = File::open(path).unwrap().read_at(&mut [0; 9], 0);
            assert!(read.is_err());
        });
        (receive.recv_timeout(SOON).unwrap(), thread)
    };
    let (first, one) = read();
    let (second, other) = read();
    other.join().unwrap();
    // One worker is left to read requests while the other blocks.
    assert_eq!(mount.path("file").metadata().unwrap().len(), SIZE);
    if first {
        gate_sender.send(()).unwrap();
    }
    one.join().unwrap();
    Some([first, second])
}

#[test]
fn one_of_two_workers_may_wait_for_a_disk_and_the_other_reads_requests() {
    if let Some(may_wait_results) = may_wait_results(None) {
        assert_eq!(may_wait_results, [true, false]);
    }
}

#[test]
fn with_reply_deadlines_no_worker_waits_for_a_disk() {
    let deadlines = ReplyDeadlines {
        deadline: None,
        overdue_errno: Errno::ETIMEDOUT,
        killed_errno: Errno::EINTR,
    };
    if let Some(may_wait_results) = may_wait_results(Some(deadlines)) {
        assert_eq!(may_wait_results, [false, false]);
    }
}
