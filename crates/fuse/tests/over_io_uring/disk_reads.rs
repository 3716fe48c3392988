//! Files that a handler reads over the ring of its thread.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::BytesMut;
use gupfs_fuse::{
    AttrReply, Call, EntryReply, Errno, FileSystem, OpenReply, ReplyData, Result, op,
};
use gupfs_uring::{ReadableFile as ReadFile, read};
use rustix::fs::{Advice, fadvise};

use crate::one_file;
use crate::ring_entries::pin_to_first_cpu;
use crate::test_mount::{TestMount, config, until};

/// A file system with one file, whose bytes come from another file.
struct BackedFs {
    file: ReadFile,
    size: u64,
    /// Names of the threads on which reads completed.
    threads: Mutex<Vec<String>>,
    reads_in_flight: AtomicUsize,
    read_errors: Mutex<Vec<ErrorKind>>,
}

impl BackedFs {
    fn new(file: impl AsFd + Send + Sync + 'static, size: u64) -> BackedFs {
        BackedFs {
            file: Arc::new(file),
            size,
            threads: Mutex::default(),
            reads_in_flight: AtomicUsize::new(0),
            read_errors: Mutex::default(),
        }
    }
}

impl FileSystem for BackedFs {
    async fn lookup(&self, _: Call, _: op::Lookup) -> Result<EntryReply> {
        Ok(one_file::entry(self.size))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        Ok(one_file::attributes(call.node, self.size))
    }

    async fn open(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(one_file::opened())
    }

    async fn read(&self, _: Call, op: op::Read) -> Result<ReplyData> {
        let into = BytesMut::from(&b"what was there"[..]);
        let before = into.len();
        let Ok(reading) = read(&self.file, into, op.size as usize, op.offset) else {
            return Err(Errno::ENOSYS);
        };
        self.reads_in_flight.fetch_add(1, SeqCst);
        match reading.await {
            Ok(read) => {
                let name = thread::current().name().unwrap_or("?").to_owned();
                self.threads.lock().unwrap().push(name);
                assert_eq!(&read[..before], b"what was there");
                Ok(ReplyData::from(read.freeze().slice(before..)))
            }
            Err(error) => {
                self.read_errors.lock().unwrap().push(error.kind());
                Err(Errno::EIO)
            }
        }
    }
}

#[test]
fn a_disk_read_completes_on_the_thread_of_its_ring() {
    // On a disk: a read from memory never waits.
    let mut disk = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bytes: Vec<u8> = (0..4_000_001u32).map(|n| (n * 7 % 251) as u8).collect();
    disk.write_all(&bytes).unwrap();
    disk.sync_all().unwrap();
    let evicted = disk.try_clone().unwrap();
    let Some(mount) = TestMount::new(BackedFs::new(disk, bytes.len() as u64), config()) else {
        return;
    };
    thread::scope(|scope| {
        for reader in 0..4 {
            let (mount, bytes, evicted) = (&mount, &bytes, &evicted);
            scope.spawn(move || {
                let file = File::open(mount.path("file")).unwrap();
                for round in 0..50 {
                    fadvise(evicted, 0, None, Advice::DontNeed).unwrap();
                    let at = (reader * 999_983 + round * 77_777) % bytes.len();
                    let mut part = vec![0; 1 + (round * 9_973) % 300_000];
                    let got = file.read_at(&mut part, at as u64).unwrap();
                    assert_eq!(got, part.len().min(bytes.len() - at));
                    assert!(part[..got] == bytes[at..at + got]);
                }
            });
        }
    });
    let threads = mount.fs.threads.lock().unwrap();
    assert!(threads.len() >= 200);
    let other_thread = threads.iter().find(|name| !name.starts_with("ring-"));
    assert_eq!(other_thread, None);
}

#[test]
fn an_abort_ends_the_file_reads_of_the_connection() {
    let (never, _writes) = std::io::pipe().unwrap();
    let Some(mount) = TestMount::new(BackedFs::new(never, 4096), config()) else {
        return;
    };
    let path = mount.path("file");
    let reader = thread::spawn(move || File::open(path)?.read_at(&mut [0; 4096], 0));
    until("it is read", || mount.fs.reads_in_flight.load(SeqCst) == 1);
    mount.session.abort().unwrap();
    assert!(reader.join().unwrap().is_err());
    until("the handler knows", || {
        *mount.fs.read_errors.lock().unwrap() == [ErrorKind::Interrupted]
    });
}

/// A pending file read does not block its worker.
#[test]
fn other_requests_are_served_during_a_file_read() {
    let (slow, mut writes) = std::io::pipe().unwrap();
    let Some(mount) = TestMount::new(BackedFs::new(slow, 4096), config()) else {
        return;
    };
    let path = mount.path("file");
    // All requests go through one ring.
    let reader = thread::spawn(move || {
        pin_to_first_cpu();
        File::open(path)?.read_at(&mut [0; 4096], 0)
    });
    pin_to_first_cpu();
    until("it is read", || mount.fs.reads_in_flight.load(SeqCst) == 1);
    for _ in 0..100 {
        assert_eq!(mount.path("file").metadata().unwrap().len(), 4096);
    }
    writes.write_all(b"at last").unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), 7);
}
