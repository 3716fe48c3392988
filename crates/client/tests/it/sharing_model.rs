//! Random operations of three clients on a few files, one at a time, compared with a model of one host.

use crate::shared_cluster::SharedCluster;
use crate::user::{User, create_mode, flags, me, name, open_mode};
use bytes::Bytes;
use gupfs_client::{AllocateMode, OpenFile, SeekTo, WriteOptions};
use gupfs_proto::meta::{OpenMode, RenameMode, SetAttr, WritePosition};
use gupfs_proto::{FsError, InodeId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const FILES_OPEN: usize = 9;
const BORDERS: [u64; 6] = [0, 4 << 10, 64 << 10, 128 << 10, 256 << 10, 320 << 10];

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    links: u32,
    mtime: Timestamp,
    mode: u16,
}

struct Open {
    user: usize,
    file: Arc<OpenFile>,
}

struct Run {
    cluster: SharedCluster,
    names: BTreeMap<&'static str, InodeId>,
    files: BTreeMap<InodeId, File>,
    open: Vec<Open>,
}

impl Run {
    async fn new(seed: u64) -> Run {
        Run {
            cluster: match seed % 3 {
                0 => SharedCluster::without_leases(seed, 3).await,
                _ => SharedCluster::new(seed, 3).await,
            },
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.cluster.servers.platform.random.below(bound)
    }

    fn user(&self, number: usize) -> User {
        self.cluster.users[number].clone()
    }

    fn any_user(&self) -> usize {
        self.below(self.cluster.users.len() as u64) as usize
    }

    fn any_name(&self) -> &'static str {
        NAMES[self.below(NAMES.len() as u64) as usize]
    }

    fn offset(&self) -> u64 {
        let border = BORDERS[self.below(BORDERS.len() as u64) as usize];
        match self.below(3) {
            0 => border,
            1 => border.saturating_sub(self.below(50)),
            _ => border + self.below(50),
        }
    }

    fn data(&self) -> Bytes {
        let len = match self.below(4) {
            0 => 4_096,
            1 => 1 + self.below(40_000),
            _ => 1 + self.below(300),
        };
        let mut data = vec![0; len as usize];
        self.cluster.servers.platform.random.fill(&mut data);
        data.into()
    }

    fn model(&mut self, ino: InodeId) -> &mut File {
        self.files.get_mut(&ino).expect("an open file is known")
    }

    /// A random open file, and the user that has it open.
    fn any_open(&self) -> Option<(User, Arc<OpenFile>)> {
        let count = self.open.len() as u64;
        if count == 0 {
            return None;
        }
        let open = &self.open[self.below(count) as usize];
        Some((self.user(open.user), open.file.clone()))
    }

    async fn step(&mut self) -> String {
        self.cluster
            .servers
            .platform
            .clock
            .advance(Duration::from_millis(1));
        match self.below(100) {
            0..14 => return self.open_or_create().await,
            14..20 => return self.unlink().await,
            20..24 => return self.rename().await,
            24..27 => return self.link().await,
            27..33 => return self.look_up().await,
            33..40 => return self.close().await,
            _ => {}
        }
        let Some((user, file)) = self.any_open() else {
            return "nothing is open".into();
        };
        self.use_file(user, file).await
    }

    async fn open_or_create(&mut self) -> String {
        if self.open.len() >= FILES_OPEN {
            return self.close().await;
        }
        let (user, text) = (self.any_user(), self.any_name());
        let truncate = self.below(4) == 0;
        let how = OpenMode {
            truncate,
            ..open_mode()
        };
        let client = self.user(user).client;
        let created = client
            .create(
                &me(),
                client.root(),
                &name(text),
                create_mode(),
                false,
                how,
                flags(),
            )
            .await
            .unwrap();
        let ino = created.file.ino();
        assert_eq!(created.created, !self.names.contains_key(text));
        if created.created {
            self.names.insert(text, ino);
            let file = File {
                links: 1,
                mode: 0o644,
                ..File::default()
            };
            self.files.insert(ino, file);
        }
        assert_eq!(self.names[text], ino);
        if truncate {
            self.model(ino).bytes.clear();
        }
        assert_eq!(created.attr.size, self.files[&ino].bytes.len() as u64);
        client.forget([(ino, 1)]);
        let file = created.file;
        self.open.push(Open { user, file });
        format!("{user} opens {text} ({ino:?}) truncate={truncate}")
    }

    async fn unlink(&mut self) -> String {
        let (user, text) = (self.any_user(), self.any_name());
        let client = self.user(user).client;
        let removed = client.unlink(&me(), client.root(), &name(text)).await;
        match self.names.remove(text) {
            None => assert_eq!(removed, Err(FsError::NotFound)),
            Some(ino) => {
                let model = self.model(ino);
                model.links -= 1;
                let orphan = model.links == 0;
                let removed = removed.unwrap();
                assert_eq!((removed.victim, removed.is_orphan), (Some(ino), orphan));
            }
        }
        format!("{user} unlinks {text}")
    }

    async fn rename(&mut self) -> String {
        let (user, from, to) = (self.any_user(), self.any_name(), self.any_name());
        let client = self.user(user).client;
        let root = client.root();
        let (old, new) = (name(from), name(to));
        let how = RenameMode::Replace;
        let moved = client.rename(&me(), (root, &old), (root, &new), how).await;
        let (source, target) = (self.names.get(from).copied(), self.names.get(to).copied());
        match source {
            None => assert_eq!(moved, Err(FsError::NotFound)),
            Some(ino) if target == Some(ino) => assert_eq!(moved.unwrap().victim, None),
            Some(ino) => {
                let moved = moved.unwrap();
                assert_eq!(moved.victim, target);
                let size = moved.attr.map(|attr| attr.size);
                assert_eq!(size, Some(self.files[&ino].bytes.len() as u64));
                if let Some(victim) = target {
                    self.model(victim).links -= 1;
                }
                self.names.remove(from);
                self.names.insert(to, ino);
            }
        }
        format!("{user} renames {from} to {to}")
    }

    async fn link(&mut self) -> String {
        let (user, from, to) = (self.any_user(), self.any_name(), self.any_name());
        let client = self.user(user).client;
        let Some(ino) = self.names.get(from).copied() else {
            return "nothing to link".into();
        };
        let made = client.link(&me(), ino, client.root(), &name(to)).await;
        if self.names.contains_key(to) {
            assert_eq!(made, Err(FsError::Exists));
        } else {
            let attr = made.unwrap();
            client.forget([(ino, 1)]);
            let model = self.model(ino);
            model.links += 1;
            assert_eq!(
                (attr.nlink, attr.size),
                (model.links, model.bytes.len() as u64)
            );
            self.names.insert(to, ino);
        }
        format!("{user} links {from} as {to}")
    }

    async fn look_up(&mut self) -> String {
        let (user, text) = (self.any_user(), self.any_name());
        let client = self.user(user).client;
        let found = client.lookup(&me(), client.root(), &name(text)).await;
        match self.names.get(text) {
            None => assert_eq!(found, Err(FsError::NotFound)),
            Some(ino) => {
                let attr = found.unwrap();
                client.forget([(*ino, 1)]);
                let model = &self.files[ino];
                assert_eq!(attr.ino, *ino);
                assert_eq!(
                    (attr.size, attr.nlink, attr.mode.0),
                    (model.bytes.len() as u64, model.links, model.mode)
                );
            }
        }
        format!("{user} looks up {text}")
    }

    async fn close(&mut self) -> String {
        if self.open.is_empty() {
            return "nothing to close".into();
        }
        let index = self.below(self.open.len() as u64) as usize;
        let Open { user, file } = self.open.swap_remove(index);
        let ino = file.ino();
        self.user(user).close(file).await;
        format!("{user} closes {ino:?}")
    }

    async fn use_file(&mut self, user: User, file: Arc<OpenFile>) -> String {
        let (client, ino) = (user.client.clone(), file.ino());
        let session = client.session();
        let (at, data) = (self.offset(), self.data());
        let len = data.len() as u64;
        match self.below(60) {
            0..16 => {
                user.write(&file, at, &data).await;
                self.model(ino).write(at, &data);
                format!("{session:?} writes {ino:?} {at}+{len}")
            }
            16..24 => {
                let done = client
                    .write(
                        &file,
                        WritePosition::End,
                        data.clone(),
                        WriteOptions::default(),
                    )
                    .await
                    .unwrap();
                let model = self.model(ino);
                let end = model.bytes.len() as u64;
                assert_eq!((done.offset, done.written), (end, len), "append");
                model.write(end, &data);
                format!("{session:?} appends {ino:?} {len}")
            }
            24..36 => {
                let read = user.read(&file, at, len).await;
                assert!(read == self.files[&ino].read(at, len), "read {at}+{len}");
                format!("{session:?} reads {ino:?} {at}+{len}")
            }
            36..41 => {
                let to = if self.below(3) == 0 { 0 } else { at };
                let cut = client.truncate(&me(), ino, to, true, false).await.unwrap();
                assert_eq!(cut.size, to);
                self.model(ino).bytes.resize(to as usize, 0);
                format!("{session:?} truncates {ino:?} to {to}")
            }
            41..44 => {
                let how = AllocateMode::Zero {
                    keep_size: self.below(2) == 0,
                };
                client.allocate(&file, how, at, len, false).await.unwrap();
                let model = self.model(ino);
                if how == (AllocateMode::Zero { keep_size: false }) {
                    let end = model.bytes.len().max((at + len) as usize);
                    model.bytes.resize(end, 0);
                }
                model.zero(at, at + len);
                format!("{session:?} zeroes {ino:?} {at}+{len} {how:?}")
            }
            44..46 => {
                client
                    .allocate(&file, AllocateMode::Punch, at, len, false)
                    .await
                    .unwrap();
                self.model(ino).zero(at, at + len);
                format!("{session:?} punches {ino:?} {at}+{len}")
            }
            46..48 => {
                let data = client.seek(&file, at, SeekTo::Data).await;
                let model = &self.files[&ino];
                let size = model.bytes.len() as u64;
                let until = match data {
                    Ok(found) => found,
                    Err(error) => {
                        assert_eq!(error, FsError::NoMoreData);
                        size
                    }
                };
                let hole = model.read(at, until.saturating_sub(at));
                assert!(hole.iter().all(|byte| *byte == 0), "hole {at}..{until}");
                format!("{session:?} seeks {ino:?} {at}")
            }
            48..50 => {
                client.fsync(&file, self.below(2) == 0).await.unwrap();
                format!("{session:?} syncs {ino:?}")
            }
            50..52 => {
                let mode = 0o600 + self.below(0o77) as u16;
                let set = SetAttr {
                    mode: Some(mode.into()),
                    ..SetAttr::default()
                };
                let attr = client.setattr(&me(), ino, set).await.unwrap();
                let model = self.model(ino);
                model.mode = mode | 0o600;
                assert_eq!(attr.size, model.bytes.len() as u64);
                self.check_mode(&user, ino, mode).await;
                format!("{session:?} sets the mode of {ino:?}")
            }
            52..54 => {
                let Some((_, other)) = self.open_of(session) else {
                    return "nothing to copy to".into();
                };
                if other.ino() == ino {
                    return "nothing to copy to".into();
                }
                let to = self.offset();
                let copied = client
                    .copy_range((&file, at), (&other, to), len, WriteOptions::default())
                    .await;
                let bytes = self.files[&ino].read(at, len).to_vec();
                assert_eq!(copied, Ok(bytes.len() as u64));
                if !bytes.is_empty() {
                    self.model(other.ino()).write(to, &bytes);
                }
                format!("{session:?} copies {ino:?} to {:?}", other.ino())
            }
            _ => {
                let size = self.files[&ino].bytes.len() as u64;
                let read = user.read(&file, 0, size + 10).await;
                assert!(read == self.files[&ino].bytes, "all of {ino:?}");
                format!("{session:?} reads all of {ino:?}")
            }
        }
    }

    async fn check_mode(&mut self, user: &User, ino: InodeId, mode: u16) {
        self.model(ino).mode = mode;
        assert_eq!(user.attr(ino).await.mode.0, mode);
    }

    fn open_of(&self, session: gupfs_proto::SessionId) -> Option<(User, Arc<OpenFile>)> {
        let of_session: Vec<&Open> = self
            .open
            .iter()
            .filter(|open| self.cluster.users[open.user].client.session() == session)
            .collect();
        let chosen = of_session[self.below(of_session.len() as u64) as usize];
        Some((self.user(chosen.user), chosen.file.clone()))
    }

    /// Compares one open file's attributes on a random client with the model.
    async fn check_one(&mut self) {
        let Some((_, file)) = self.any_open() else {
            return;
        };
        let ino = file.ino();
        let looker = self.user(self.any_user());
        let model = &self.files[&ino];
        let is_open_there = self.open.iter().any(|open| {
            open.file.ino() == ino
                && self.cluster.users[open.user].client.session() == looker.client.session()
        });
        let attr = match looker.client.getattr(&me(), ino).await {
            Ok(attr) => attr,
            Err(error) => {
                assert!(model.links == 0 && !is_open_there, "{error}");
                return;
            }
        };
        assert_eq!(
            (attr.size, attr.nlink, attr.mode.0),
            (model.bytes.len() as u64, model.links, model.mode)
        );
        assert!(attr.mtime >= model.mtime, "mtime went backwards");
        self.model(ino).mtime = attr.mtime;
    }

    /// Closes all files: no write lease is left, and files without a name are purged.
    async fn end(mut self) {
        while !self.open.is_empty() {
            self.close().await;
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        for user in &self.cluster.users {
            let status = user.client.status();
            assert_eq!((status.leased_inodes, status.known_inodes), (0, 0));
        }
        for (text, ino) in self.names.clone() {
            let reader = self.user(self.any_user());
            let file = reader.open(ino).await;
            let read = reader.read(&file, 0, 1 << 20).await;
            assert!(read == self.files[&ino].bytes, "{text}");
            reader.close(file).await;
        }
        let kept: std::collections::BTreeSet<InodeId> = self.names.values().copied().collect();
        let space = self.user(0).client.statfs(&me()).await.unwrap();
        assert_eq!((space.inodes, space.purging), (1 + kept.len() as u64, 0));
        for user in &self.cluster.users {
            user.client.stop().await.unwrap();
        }
        self.cluster.servers.mds.stop().await.unwrap();
        self.cluster.servers.oss.stop().await.unwrap();
    }
}

impl File {
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

#[tokio::test(start_paused = true)]
async fn three_clients_match_a_model_of_one_host() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut run = Run::new(seed).await;
        for number in 0..250 {
            let step = run.step().await;
            println!("{number}: {step}");
            run.check_one().await;
        }
        run.end().await;
    }
}
