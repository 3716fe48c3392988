//! Files that are read over the ring of the thread that wants them.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::BytesMut;
use gupfs_fuse::{Attributes, Call, Data, Entry, Errno, FileSystem, Opened, Result, op};
use gupfs_uring::{File as ReadFile, read};
use rustix::fs::{Advice, fadvise};

use crate::one_file;
use crate::places::stay_on_the_first_cpu;
use crate::rig::{Rig, config, until};

/// One file, whose bytes are another's.
struct Behind {
    file: ReadFile,
    size: u64,
    /// Names of threads on which a read went on.
    threads: Mutex<Vec<String>>,
    under_way: AtomicUsize,
    ended: Mutex<Vec<ErrorKind>>,
}

impl Behind {
    fn new(file: impl AsFd + Send + Sync + 'static, size: u64) -> Behind {
        Behind {
            file: Arc::new(file),
            size,
            threads: Mutex::default(),
            under_way: AtomicUsize::new(0),
            ended: Mutex::default(),
        }
    }
}

impl FileSystem for Behind {
    async fn lookup(&self, _: Call, _: op::Lookup) -> Result<Entry> {
        Ok(one_file::entry(self.size))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        Ok(one_file::attributes(call.node, self.size))
    }

    async fn open(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(one_file::opened())
    }

    async fn read(&self, _: Call, op: op::Read) -> Result<Data> {
        let into = BytesMut::from(&b"what was there"[..]);
        let before = into.len();
        let Ok(reading) = read(&self.file, into, op.size as usize, op.offset) else {
            return Err(Errno::ENOSYS);
        };
        self.under_way.fetch_add(1, SeqCst);
        match reading.await {
            Ok(read) => {
                let name = thread::current().name().unwrap_or("?").to_owned();
                self.threads.lock().unwrap().push(name);
                assert_eq!(&read[..before], b"what was there");
                Ok(Data::from(read.freeze().slice(before..)))
            }
            Err(error) => {
                self.ended.lock().unwrap().push(error.kind());
                Err(Errno::EIO)
            }
        }
    }
}

#[test]
fn what_a_disk_has_comes_over_the_ring_and_wakes_nobody_else() {
    // Not in memory: there a read never waits.
    let mut disk = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bytes: Vec<u8> = (0..4_000_001u32).map(|n| (n * 7 % 251) as u8).collect();
    disk.write_all(&bytes).unwrap();
    disk.sync_all().unwrap();
    let evict = disk.try_clone().unwrap();
    let Some(rig) = Rig::new(Behind::new(disk, bytes.len() as u64), config()) else {
        return;
    };
    thread::scope(|scope| {
        for reader in 0..4 {
            let (rig, bytes, evict) = (&rig, &bytes, &evict);
            scope.spawn(move || {
                let file = File::open(rig.path("file")).unwrap();
                for turn in 0..50 {
                    fadvise(evict, 0, None, Advice::DontNeed).unwrap();
                    let at = (reader * 999_983 + turn * 77_777) % bytes.len();
                    let mut part = vec![0; 1 + (turn * 9_973) % 300_000];
                    let got = file.read_at(&mut part, at as u64).unwrap();
                    assert_eq!(got, part.len().min(bytes.len() - at));
                    assert!(part[..got] == bytes[at..at + got]);
                }
            });
        }
    });
    let threads = rig.fs.threads.lock().unwrap();
    assert!(threads.len() >= 200);
    let elsewhere = threads.iter().find(|name| !name.starts_with("ring-"));
    assert_eq!(elsewhere, None);
}

#[test]
fn the_end_of_a_connection_ends_its_reads() {
    let (never, _writes) = std::io::pipe().unwrap();
    let Some(rig) = Rig::new(Behind::new(never, 4096), config()) else {
        return;
    };
    let path = rig.path("file");
    let reader = thread::spawn(move || File::open(path)?.read_at(&mut [0; 4096], 0));
    until("it is read", || rig.fs.under_way.load(SeqCst) == 1);
    rig.session.abort().unwrap();
    assert!(reader.join().unwrap().is_err());
    until("the handler knows", || {
        *rig.fs.ended.lock().unwrap() == [ErrorKind::Interrupted]
    });
}

/// Between them a reactor is not kept from anything else.
#[test]
fn while_one_is_read_others_are_served() {
    let (slow, mut writes) = std::io::pipe().unwrap();
    let Some(rig) = Rig::new(Behind::new(slow, 4096), config()) else {
        return;
    };
    let path = rig.path("file");
    // All of it through one ring.
    let reader = thread::spawn(move || {
        stay_on_the_first_cpu();
        File::open(path)?.read_at(&mut [0; 4096], 0)
    });
    stay_on_the_first_cpu();
    until("it is read", || rig.fs.under_way.load(SeqCst) == 1);
    for _ in 0..100 {
        assert_eq!(rig.path("file").metadata().unwrap().len(), 4096);
    }
    writes.write_all(b"at last").unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), 7);
}
