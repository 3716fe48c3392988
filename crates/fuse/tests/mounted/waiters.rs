//! Readers of the device that wait for a disk themselves: never all of them, and none where answers must come in time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use gupfs_fuse::{Attributes, Call, Data, Entry, Errno, FileSystem, InTime, Opened, Result, op};
use gupfs_uring::may_wait_here;

use crate::one_file;
use crate::rig::{Rig, config};

/// Each read of its file says whether it may wait, and does until it is let through.
struct Waiting {
    said: Mutex<Sender<bool>>,
    gate: Mutex<Receiver<()>>,
}

const SIZE: u64 = 4096;

impl FileSystem for Waiting {
    async fn lookup(&self, _: Call, _: op::Lookup) -> Result<Entry> {
        Ok(one_file::entry(SIZE))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        Ok(one_file::attributes(call.node, SIZE))
    }

    async fn open(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(one_file::opened())
    }

    async fn read(&self, _: Call, _: op::Read) -> Result<Data> {
        let waits = may_wait_here();
        self.said.lock().unwrap().send(waits.is_some()).unwrap();
        if waits.is_some() {
            self.gate.lock().unwrap().recv().unwrap();
        }
        Err(Errno::EIO)
    }
}

/// What the first and the second of two reads at a time were told, of two readers of the device.
fn told(in_time: Option<InTime>) -> Option<[bool; 2]> {
    let ((said, hear), (open, gate)) = (channel(), channel());
    let mut config = config();
    (config.reactors, config.in_time) = (2, in_time);
    let fs = Waiting {
        said: Mutex::new(said),
        gate: Mutex::new(gate),
    };
    let rig = Rig::new(fs, config)?;
    let read = || {
        let path = rig.path("file");
        let thread = thread::spawn(move || {
            let read = File::open(path).unwrap().read_at(&mut [0; 9], 0);
            assert!(read.is_err());
        });
        (hear.recv_timeout(Duration::from_secs(10)).unwrap(), thread)
    };
    let (first, one) = read();
    let (second, other) = read();
    other.join().unwrap();
    // One reader is left, whatever the other waits for.
    assert_eq!(rig.path("file").metadata().unwrap().len(), SIZE);
    if first {
        open.send(()).unwrap();
    }
    one.join().unwrap();
    Some([first, second])
}

#[test]
fn one_of_two_may_wait_and_the_other_takes_requests() {
    if let Some(told) = told(None) {
        assert_eq!(told, [true, false]);
    }
}

#[test]
fn none_waits_where_answers_must_come_in_time() {
    let in_time = InTime {
        deadline: None,
        overdue: Errno::ETIMEDOUT,
        killed: Errno::EINTR,
    };
    if let Some(told) = told(Some(in_time)) {
        assert_eq!(told, [false, false]);
    }
}
