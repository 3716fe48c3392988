//! Random operations on one file, compared with a byte vector as the model.

use crate::fake::{FakeCluster, LayoutShape};
use crate::user::{User, flags, me, open_mode};
use bytes::Bytes;
use gupfs_client::{AllocateMode, OpenFile, SeekTo, SessionOptions, WriteOptions};
use gupfs_proto::FsError;
use gupfs_proto::meta::{OpenMode, WritePosition};
use gupfs_proto::{InodeId, Presence};
use std::sync::Arc;

/// The expected content of the file.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
}

impl Model {
    fn write(&mut self, at: u64, data: &[u8]) {
        let end = at as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at as usize..end].copy_from_slice(data);
    }

    fn zero(&mut self, at: u64, end: u64) {
        let end = end.min(self.bytes.len() as u64);
        if at < end {
            self.bytes[at as usize..end as usize].fill(0);
        }
    }

    fn read(&self, at: u64, len: u64) -> &[u8] {
        let end = (at + len).min(self.bytes.len() as u64).max(at);
        self.bytes
            .get(at as usize..end as usize)
            .unwrap_or_default()
    }
}

pub struct ModelRun {
    pub user: User,
    ino: InodeId,
    files: Vec<Arc<OpenFile>>,
    model: Model,
    borders: &'static [u64],
    longest: u64,
    /// Called with the expected content when all files are closed: checks the server's state.
    check_server: Box<CheckServer>,
}

type CheckServer = dyn Fn(InodeId, &[u8]);

const SMALL: &[u64] = &[
    0,
    4 << 10,
    8 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    320 << 10,
    448 << 10,
    512 << 10,
];
const DEFAULT: &[u64] = &[0, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 5 << 20, 7 << 20];

impl ModelRun {
    pub async fn new(
        user: User,
        shape: LayoutShape,
        check_server: impl Fn(InodeId, &[u8]) + 'static,
    ) -> ModelRun {
        let file = user.create("file").await;
        let (borders, longest) = match shape {
            LayoutShape::Small => (SMALL, 200 << 10),
            LayoutShape::Default => (DEFAULT, 1 << 20),
        };
        ModelRun {
            user,
            ino: file.ino(),
            files: vec![file],
            model: Model::default(),
            borders,
            longest,
            check_server: Box::new(check_server),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.user.platform.random.below(bound)
    }

    /// Mostly near a border of the layout.
    fn offset(&self) -> u64 {
        let border = self.borders[self.below(self.borders.len() as u64) as usize];
        match self.below(5) {
            0 | 1 => border,
            2 => border + self.below(100),
            3 => border.saturating_sub(self.below(100)),
            _ => self.below(self.borders[self.borders.len() - 1]),
        }
    }

    fn len(&self) -> u64 {
        match self.below(5) {
            0 => 1 + self.below(200),
            1 => 4096,
            2 => 64 << 10,
            3 => 1 + self.below(9000),
            _ => 1 + self.below(self.longest),
        }
    }

    fn data(&self, len: u64) -> Bytes {
        let mut data = vec![0; len as usize];
        self.user.platform.random.fill(&mut data);
        data.into()
    }

    fn file(&self) -> &OpenFile {
        &self.files[self.below(self.files.len() as u64) as usize]
    }

    pub async fn step(&mut self) -> String {
        self.user
            .platform
            .clock
            .advance(std::time::Duration::from_millis(1));
        let (at, len) = (self.offset(), self.len());
        let client = self.user.client.clone();
        let choice = self.below(100);
        match choice {
            0..25 => {
                let data = self.data(len);
                self.user.write(self.file(), at, &data).await;
                self.model.write(at, &data);
                format!("write {at}+{len}")
            }
            25..40 => {
                let data = self.data(len.min(10_000));
                let done = client
                    .write(
                        self.file(),
                        WritePosition::End,
                        data.clone(),
                        WriteOptions::default(),
                    )
                    .await
                    .unwrap();
                let end = self.model.bytes.len() as u64;
                assert_eq!((done.offset, done.written), (end, data.len() as u64));
                self.model.write(end, &data);
                format!("append {}", data.len())
            }
            40..60 => {
                let read = self.user.read(self.file(), at, len).await;
                assert!(read == self.model.read(at, len), "read {at}+{len}");
                format!("read {at}+{len}")
            }
            60..66 => {
                let to = if self.below(3) == 0 { 0 } else { at };
                let attr = client
                    .truncate(&me(), self.ino, to, true, false)
                    .await
                    .unwrap();
                assert_eq!(attr.size, to);
                self.model.bytes.resize(to as usize, 0);
                format!("truncate {to}")
            }
            66..70 => {
                let keep_size = self.below(2) == 0;
                let how = AllocateMode::Allocate { keep_size };
                client
                    .allocate(self.file(), how, at, len, false)
                    .await
                    .unwrap();
                self.grow(at + len, keep_size);
                format!("{how:?} {at}+{len}")
            }
            70..76 => {
                client
                    .allocate(self.file(), AllocateMode::Punch, at, len, false)
                    .await
                    .unwrap();
                self.model.zero(at, at + len);
                format!("punch {at}+{len}")
            }
            76..80 => {
                let keep_size = self.below(2) == 0;
                let how = AllocateMode::Zero { keep_size };
                client
                    .allocate(self.file(), how, at, len, false)
                    .await
                    .unwrap();
                self.model.zero(at, at + len);
                self.grow(at + len, keep_size);
                format!("{how:?} {at}+{len}")
            }
            80..84 => {
                self.check_seek(at).await;
                format!("seek {at}")
            }
            84..88 => {
                let to = self.offset();
                self.copy(at, to, len).await;
                format!("copy {at}+{len} to {to}")
            }
            88..91 => {
                client.fsync(self.file(), self.below(2) == 0).await.unwrap();
                "fsync".into()
            }
            91..94 if self.files.len() < 4 => {
                let truncate = self.below(4) == 0;
                let how = OpenMode {
                    truncate,
                    ..open_mode()
                };
                let opened = client.open(&me(), self.ino, how, flags()).await.unwrap();
                self.files.push(opened.file);
                if truncate {
                    self.model.bytes.clear();
                }
                format!("open truncate={truncate}")
            }
            _ => {
                let index = self.below(self.files.len() as u64) as usize;
                let file = self.files.swap_remove(index);
                self.user.close(file).await;
                if self.files.is_empty() {
                    self.check_server_state();
                    self.files.push(self.user.open(self.ino).await);
                }
                "close".into()
            }
        }
    }

    fn grow(&mut self, end: u64, keep_size: bool) {
        if !keep_size {
            let len = self.model.bytes.len().max(end as usize);
            self.model.bytes.resize(len, 0);
        }
    }

    async fn check_seek(&self, at: u64) {
        let (client, size) = (&self.user.client, self.model.bytes.len() as u64);
        let data = client.seek(self.file(), at, SeekTo::Data).await;
        let hole = client.seek(self.file(), at, SeekTo::Hole).await;
        if at >= size {
            assert_eq!(
                (data, hole),
                (Err(FsError::NoMoreData), Err(FsError::NoMoreData))
            );
            return;
        }
        // Data may be zeros; a hole reads as zeros only, and ends.
        let zero_until = data.clone().unwrap_or(size);
        assert!(
            self.model
                .read(at, zero_until - at)
                .iter()
                .all(|byte| *byte == 0),
            "hole {at}..{zero_until}"
        );
        let hole = hole.unwrap();
        assert!((at..=size).contains(&hole));
        if data == Ok(at) {
            assert!(hole > at);
        } else {
            assert_eq!(hole, at);
        }
    }

    async fn copy(&mut self, from: u64, to: u64, len: u64) {
        let (source, target) = ((self.file(), from), (self.file(), to));
        let copied = self
            .user
            .client
            .copy_range(source, target, len, WriteOptions::default())
            .await;
        if from.abs_diff(to) < len {
            assert_eq!(copied, Err(FsError::Invalid));
            return;
        }
        let bytes = self.model.read(from, len).to_vec();
        assert_eq!(copied, Ok(bytes.len() as u64));
        if !bytes.is_empty() {
            self.model.write(to, &bytes);
        }
    }

    pub async fn check_all(&self) {
        let size = self.model.bytes.len() as u64;
        let attr = self.user.attr(self.ino).await;
        assert_eq!(attr.size, size, "size of the file");
        let read = self.user.read(&self.files[0], 0, size + 10).await;
        if let Some(at) = (0..size as usize).find(|at| read.get(*at) != self.model.bytes.get(*at)) {
            panic!(
                "byte {at} is {:?} and should be {:?}",
                read.get(at),
                self.model.bytes.get(at)
            );
        }
        assert_eq!(read.len() as u64, size);
    }

    fn check_server_state(&self) {
        (self.check_server)(self.ino, &self.model.bytes);
        let status = self.user.client.status();
        assert_eq!((status.open_files, status.open_inodes), (0, 0));
    }

    pub async fn sync(&self) {
        let file = self.file();
        match self.below(3) {
            0 => self.user.client.sync_all().await.unwrap(),
            1 => self.user.client.fsync(file, false).await.unwrap(),
            _ => self.user.client.fsync(file, true).await.unwrap(),
        }
    }

    /// The client process ended without closing its session; its answered operations are there for the next client.
    pub async fn continue_with(&mut self, user: User) {
        self.user = user;
        self.files = vec![self.user.open(self.ino).await];
        self.check_all().await;
    }

    pub async fn close_all(&mut self) {
        for file in std::mem::take(&mut self.files) {
            self.user.close(file).await;
        }
    }
}

/// With all files closed the server has the complete state.
fn check_server_state(cluster: &FakeCluster, ino: InodeId, bytes: &[u8]) {
    let inode = cluster.mds.inode(ino);
    assert!(inode.writers.is_empty());
    assert_eq!(inode.attr.size, bytes.len() as u64);
    let targets = cluster.ost.state.lock();
    let mut blocks = 0;
    for (_, _, _, object, presence) in inode.layout.objects(ino) {
        let found = targets.objects.get(&object);
        match presence {
            Presence::Never | Presence::Stale => assert!(found.is_none(), "{object}"),
            Presence::Maybe => {}
            // Reported as present: a power loss must not lose it.
            Presence::Present => assert!(found.is_some_and(|it| it.was_synced), "{object}"),
        }
        blocks += found.map_or(0, |it| it.stat().blocks);
    }
    if inode.inline.is_empty() {
        assert_eq!(inode.attr.blocks, blocks);
    }
}

async fn run(seed: u64, shape: LayoutShape, steps: usize) {
    println!("seed {seed}");
    let cluster = FakeCluster::with_shape(seed, shape, SessionOptions::default()).await;
    let user = cluster.user.clone();
    let mut run = ModelRun::new(user, shape, move |ino, bytes| {
        check_server_state(&cluster, ino, bytes)
    })
    .await;
    for number in 0..steps {
        let step = run.step().await;
        println!("{number}: {step}");
        run.check_all().await;
    }
    run.close_all().await;
    run.check_server_state();
    run.user.client.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn random_operations_match_a_byte_vector() {
    for seed in 0..60 {
        run(seed, LayoutShape::Small, 60).await;
    }
}

#[tokio::test(start_paused = true)]
async fn random_operations_at_the_borders_of_the_default_layout() {
    for seed in 1000..1004 {
        run(seed, LayoutShape::Default, 30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn answered_operations_survive_the_end_of_the_client() {
    for seed in 2000..2040 {
        println!("seed {seed}");
        let mut cluster = FakeCluster::new(seed).await;
        let mut run = ModelRun::new(cluster.user.clone(), LayoutShape::Small, |_, _| {}).await;
        for number in 0..25 {
            let step = run.step().await;
            println!("{number}: {step}");
        }
        cluster.crash().await;
        run.continue_with(cluster.user.clone()).await;
        for _ in 0..10 {
            run.step().await;
            run.check_all().await;
        }
    }
}
