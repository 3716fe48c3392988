//! Several clients on the same files: they agree at every moment, as processes on one host would.

use crate::town::{Servers, Town, lay_out_small};
use crate::user::{User, flags, how, make, me, name};
use bytes::Bytes;
use gupfs_client::{AllocateHow, Mds, OpenFile, Options, SeekTo, WriteHow};
use gupfs_proto::meta::{self, Access, OpenHow, SetAttr, SetTime, WriteAt};
use gupfs_proto::{InodeId, Refusal, Timestamp};
use gupfs_rpc::{Peer, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Servers, and clients that share them.
pub struct Site {
    pub town: Town,
    pub servers: Servers,
    pub users: Vec<User>,
}

impl Site {
    pub async fn new(seed: u64, clients: usize) -> Site {
        let town = Town::found(seed).await;
        let servers = town.servers(|_| {}).await;
        let mut site = Site {
            town,
            servers,
            users: Vec::new(),
        };
        for _ in 0..clients {
            let user = site.client().await;
            site.users.push(user);
        }
        lay_out_small(&site.users[0]).await;
        site
    }

    /// One more.
    pub async fn client(&self) -> User {
        self.client_by(Peer::local(self.servers.mds.clone())).await
    }

    /// One that asks the metadata server in another way.
    async fn client_by(&self, mds: Mds) -> User {
        let options = Options {
            shared: true,
            ..Options::default()
        };
        let user = self.servers.connect_by(mds, options).await;
        self.attach(&user);
        user
    }

    pub fn attach(&self, user: &User) {
        let back = Peer::local(user.client.clone());
        self.servers.mds.attach(user.client.session(), back);
    }

    pub fn two(&self) -> (&User, &User) {
        (&self.users[0], &self.users[1])
    }

    async fn waits(&self) -> Vec<String> {
        let status = self.servers.mds.status().await;
        status
            .waits
            .into_iter()
            .map(|wait| wait.waits_for)
            .collect()
    }
}

pub async fn append(user: &User, file: &OpenFile, bytes: &[u8]) -> u64 {
    let bytes = Bytes::copy_from_slice(bytes);
    let done = user
        .client
        .write(file, WriteAt::End, bytes, WriteHow::default())
        .await;
    done.unwrap().offset
}

async fn truncate(user: &User, ino: InodeId, to: u64) {
    let cut = user.client.truncate(&me(), ino, to, true, false).await;
    assert_eq!(cut.unwrap().size, to);
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// For whatever happens in the background.
async fn long_pause() {
    tokio::time::sleep(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn appends_in_turn_neither_overlap_nor_get_lost() {
    let site = Site::new(1, 2).await;
    let (one, two) = site.two();
    let mine = one.create("log").await;
    let his = two.open(mine.ino()).await;
    let mut expected = Vec::new();
    for number in 0..60u8 {
        let record = vec![number; 700];
        let (user, file) = if number % 2 == 0 {
            (one, &mine)
        } else {
            (two, &his)
        };
        assert_eq!(append(user, file, &record).await, expected.len() as u64);
        expected.extend(record);
    }
    assert_eq!(one.read(&mine, 0, 1 << 20).await, expected);
    assert_eq!(two.read(&his, 0, 1 << 20).await, expected);
}

#[tokio::test(start_paused = true)]
async fn appends_at_once_neither_overlap_nor_get_lost() {
    let site = Site::new(2, 3).await;
    let file = site.users[0].create("log").await;
    let mut writers = Vec::new();
    for (number, user) in site.users.iter().enumerate() {
        let (user, ino) = (user.clone(), file.ino());
        writers.push(tokio::spawn(async move {
            let file = user.open(ino).await;
            for round in 0..30u8 {
                append(&user, &file, &[number as u8 * 64 + round; 500]).await;
            }
            user.close(file).await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let all = site.users[0].read(&file, 0, 1 << 20).await;
    assert_eq!(all.len(), 3 * 30 * 500);
    let mut next = [0u8; 3];
    for record in all.chunks(500) {
        let (writer, round) = (record[0] / 64, record[0] % 64);
        assert!(record.iter().all(|byte| *byte == record[0]));
        assert_eq!(round, next[usize::from(writer)]);
        next[usize::from(writer)] += 1;
    }
    assert_eq!(next, [30; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_size_is_seen_while_another_writes() {
    let site = Site::new(3, 2).await;
    let (one, two) = site.two();
    let file = one.create("file").await;
    let ino = file.ino();
    for step in 1..20u64 {
        one.platform.clock.advance(Duration::from_millis(1));
        one.write(&file, (step - 1) * 9_000, &[1; 9_000]).await;
        let (mine, his) = (one.attr(ino).await, two.attr(ino).await);
        assert_eq!(his.size, step * 9_000);
        assert_eq!((mine.size, mine.mtime), (his.size, his.mtime));
        let name = name("file");
        let found = two.client.lookup(&me(), two.client.root(), &name).await;
        assert_eq!(found.unwrap().size, step * 9_000);
    }
    // It was held all the time.
    assert_eq!(one.client.status().held_inodes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_sees_what_another_wrote_wherever_the_bytes_lie() {
    let site = Site::new(4, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    let his = two.open(mine.ino()).await;
    let all = 2 << 20;
    one.write(&mine, 0, b"small").await;
    assert_eq!(two.read(&his, 0, all).await, b"small");
    two.write(&his, 2, b"ALL of it").await;
    assert_eq!(one.read(&mine, 0, all).await, b"smALL of it");
    // Out of the inode.
    one.write(&mine, 11, &[7; 100_000]).await;
    let expected = [b"smALL of it".as_slice(), &[7; 100_000]].concat();
    assert_eq!(two.read(&his, 0, all).await, expected);
    // Into objects that were not there before.
    one.write(&mine, 300_000, &[8; 100_000]).await;
    assert_eq!(
        two.read(&his, 299_990, 20).await,
        [[0; 10], [8; 10]].concat()
    );
    // Over what the other has read.
    one.write(&mine, 50_000, &[9; 10]).await;
    assert_eq!(two.read(&his, 49_999, 3).await, [7, 9, 9]);
    truncate(one, mine.ino(), 0).await;
    assert_eq!(two.read(&his, 0, all).await, b"");
    one.write(&mine, 3, b"again").await;
    assert_eq!(two.read(&his, 0, all).await, b"\0\0\0again");
    truncate(two, mine.ino(), 60_000).await;
    one.write(&mine, 70_000, b"end").await;
    let expected = [b"\0\0\0again".as_slice(), &[0; 69_992], b"end"].concat();
    assert_eq!(two.read(&his, 0, all).await, expected);
    assert_eq!(one.read(&mine, 0, all).await, expected);
}

#[tokio::test(start_paused = true)]
async fn opening_with_truncation_cuts_what_another_holds() {
    let site = Site::new(5, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    for by_name in [false, true] {
        one.write(&mine, 0, &[1; 200_000]).await;
        let how = OpenHow {
            truncate: true,
            ..how()
        };
        let opened = if by_name {
            let (root, name) = (two.client.root(), name("file"));
            let client = &two.client;
            let found = client
                .create(&me(), root, &name, make(), false, how, flags())
                .await;
            found.unwrap()
        } else {
            two.client
                .open(&me(), mine.ino(), how, flags())
                .await
                .unwrap()
        };
        assert_eq!(opened.attr.size, 0);
        assert_eq!(one.read(&mine, 0, 10).await, b"");
        assert_eq!(one.attr(mine.ino()).await.size, 0);
        one.write(&mine, 100_000, b"x").await;
        let read = two.read(&opened.file, 0, 1 << 20).await;
        assert_eq!((read.len(), read[0], read[100_000]), (100_001, 0, b'x'));
        two.close(opened.file).await;
    }
}

#[tokio::test(start_paused = true)]
async fn times_set_by_one_are_not_undone_by_what_another_wrote_before() {
    let site = Site::new(6, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 10_000]).await;
    let to = Timestamp::new(77, 0);
    let set = SetAttr {
        mtime: Some(SetTime::To(to)),
        ..SetAttr::default()
    };
    two.client.setattr(&me(), mine.ino(), set).await.unwrap();
    assert_eq!(one.attr(mine.ino()).await.mtime, to);
    one.client.fsync(&mine, false).await.unwrap();
    one.close(mine.clone()).await;
    let attr = two.attr(mine.ino()).await;
    assert_eq!((attr.mtime, attr.size), (to, 10_000));
}

#[tokio::test(start_paused = true)]
async fn an_unprivileged_write_takes_setuid_away_that_another_gave_meanwhile() {
    let site = Site::new(7, 2).await;
    let (one, two) = site.two();
    let mine = one.create("program").await;
    let write = async |at: u64, kill_privileges: bool| {
        let how = WriteHow {
            kill_privileges,
            ..WriteHow::default()
        };
        let data = Bytes::from(vec![1; 10_000]);
        let done = one.client.write(&mine, WriteAt::Offset(at), data, how);
        done.await.unwrap();
    };
    write(0, true).await;
    let set = SetAttr {
        mode: Some(0o4755),
        ..SetAttr::default()
    };
    two.client.setattr(&me(), mine.ino(), set).await.unwrap();
    assert_eq!(one.attr(mine.ino()).await.mode.0, 0o4755);
    write(400, false).await;
    assert_eq!(two.attr(mine.ino()).await.mode.0, 0o4755);
    write(500, true).await;
    assert_eq!(two.attr(mine.ino()).await.mode.0, 0o755);
}

#[tokio::test(start_paused = true)]
async fn holes_and_space_are_found_in_what_another_wrote() {
    let site = Site::new(8, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    let his = two.open(mine.ino()).await;
    let other = two.create("copy").await;
    one.write(&mine, 0, &[1; 8_192]).await;
    one.write(&mine, 400_000, &[2; 1_000]).await;
    let found = two.client.seek(&his, 100_000, SeekTo::Data).await.unwrap();
    assert!((393_216..=400_000).contains(&found), "{found}");
    let how = AllocateHow::Zero { keep_size: false };
    two.client
        .allocate(&his, how, 0, 500_000, false)
        .await
        .unwrap();
    assert_eq!(one.attr(mine.ino()).await.size, 500_000);
    assert_eq!(one.read(&mine, 0, 1).await, [0]);
    one.write(&mine, 500_000, b"tail").await;
    let copied = two
        .client
        .copy_range((&his, 499_999), (&other, 0), 100, WriteHow::default());
    assert_eq!(copied.await, Ok(5));
    assert_eq!(two.read(&other, 0, 10).await, b"\0tail");
}

#[tokio::test(start_paused = true)]
async fn a_file_removed_by_another_stays_while_it_is_open_and_no_longer() {
    let site = Site::new(9, 3).await;
    let (one, two) = site.two();
    let root = one.client.root();
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 300_000]).await;
    let ino = mine.ino();
    let his = two.open(ino).await;
    two.client.unlink(&me(), root, &name("file")).await.unwrap();
    two.client.forget([(ino, 1)]);
    let refused = site.users[2].client.open(&me(), ino, how(), flags()).await;
    assert_eq!(refused.err(), Some(Refusal::Stale));
    // Before everybody was asked, and after.
    for round in 0..2u8 {
        one.write(&mine, 299_999, &[round; 2]).await;
        assert_eq!(one.attr(ino).await.nlink, 0);
        assert_eq!(two.read(&his, 299_998, 9).await, [1, round, round]);
        long_pause().await;
    }
    two.close(his).await;
    two.client.forget([(ino, 1)]);
    long_pause().await;
    assert_eq!(one.read(&mine, 0, 2).await, [1, 1], "it is open here");
    truncate(one, ino, 5).await;
    assert!(site.town.objects() > 0);
    one.close(mine).await;
    long_pause().await;
    assert_eq!(site.town.objects(), 0);
    let gone = one.client.getattr(&me(), ino).await;
    assert_eq!(gone, Err(Refusal::Stale));
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_file_renamed_over_by_another_stays_readable() {
    let site = Site::new(10, 2).await;
    let (one, two) = site.two();
    let root = one.client.root();
    let old = one.create("name").await;
    one.write(&old, 0, &[1; 100_000]).await;
    let new = two.create("new").await;
    two.write(&new, 0, &[2; 50_000]).await;
    let how = meta::RenameHow::Replace;
    let (from, to) = (name("new"), name("name"));
    let moved = two
        .client
        .rename(&me(), (root, &from), (root, &to), how)
        .await;
    assert_eq!(moved.unwrap().victim, Some(old.ino()));
    two.client.forget([(old.ino(), 9)]);
    let found = one.client.lookup(&me(), root, &to).await.unwrap();
    assert_eq!((found.ino, found.size), (new.ino(), 50_000));
    long_pause().await;
    assert_eq!(one.read(&old, 99_999, 5).await, [1]);
    one.client.forget([(old.ino(), 9)]);
    one.close(old).await;
    long_pause().await;
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_open_goes_at_once() {
    let site = Site::new(11, 3).await;
    let (one, two) = site.two();
    for number in 0..50 {
        let file = one.create(&format!("f{number}")).await;
        let ino = file.ino();
        one.write(&file, 0, &[1; 10_000]).await;
        one.close(file).await;
        one.client.forget([(ino, 1)]);
    }
    for number in 0..50 {
        let name = name(&format!("f{number}"));
        let removed = two.client.unlink(&me(), two.client.root(), &name).await;
        assert!(removed.unwrap().orphan);
    }
    pause().await;
    assert_eq!(site.town.objects(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_be_asked_is_waited_for_until_it_ends() {
    let site = Site::new(12, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 70_000]).await;
    let his = two.open(mine.ino()).await;
    one.write(&mine, 0, &[1; 170_000]).await;
    let session = one.client.session();
    site.servers.mds.detach(session);
    let (ino, looking) = (mine.ino(), two.clone());
    let look = tokio::spawn(async move { looking.attr(ino).await.size });
    let writing = two.clone();
    let write = tokio::spawn(async move {
        let offset = append(&writing, &his, &[2; 10]).await;
        (offset, his)
    });
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!look.is_finished() && !write.is_finished());
    let mut waits = site.waits().await;
    waits.sort();
    assert_eq!(
        waits,
        [
            format!("session {session} to give back inode {:x}", ino.0),
            format!("session {session} to tell of inode {:x}", ino.0),
        ]
    );
    // A client that is gone for good closes without a word of its files.
    let goodbye = meta::Request {
        session,
        lane: Some(meta::Lane {
            slot: gupfs_proto::Slot(63),
            sequence: 1_000,
        }),
        caller: gupfs_proto::Caller::root(),
        job: 0,
        life: site.servers.mds.owner_epoch(),
        seen: gupfs_proto::Seq(0),
        op: meta::Op::CloseSession,
    };
    let mds: Peer<_, meta::Reply> = Peer::local(site.servers.mds.clone());
    mds.call(goodbye).await.result.unwrap();
    pause().await;
    assert_eq!(look.await.unwrap(), 170_000, "as its objects say");
    let (offset, his) = write.await.unwrap();
    assert_eq!(offset, 170_000);
    assert_eq!(
        two.read(&his, 169_999, 20).await,
        [[1].as_slice(), &[2; 10]].concat()
    );
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_comes_back_is_asked_then() {
    let site = Site::new(13, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 70_000]).await;
    site.servers.mds.detach(one.client.session());
    let (ino, looking) = (mine.ino(), two.clone());
    let look = tokio::spawn(async move { looking.attr(ino).await.size });
    tokio::time::sleep(Duration::from_secs(5)).await;
    one.write(&mine, 70_000, &[1; 10]).await;
    site.attach(one);
    pause().await;
    assert_eq!(look.await.unwrap(), 70_010);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_for_whom() {
    let site = Site::new(14, 2).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 70_000]).await;
    let session = one.client.session();
    site.servers.mds.detach(session);
    let refused = two.client.getattr(&me(), mine.ino()).await;
    let why = format!("session {session} to tell of inode {:x}", mine.ino().0);
    assert_eq!(refused, Err(Refusal::TimedOut(why)));
}

/// Each waits for what the other holds, with every lane in use.
#[tokio::test(start_paused = true)]
async fn many_files_change_hands_at_once_both_ways() {
    let site = Site::new(15, 2).await;
    let mut files = Vec::new();
    for number in 0..140 {
        let holder = &site.users[number % 2];
        let file = holder.create(&format!("f{number}")).await;
        holder.write(&file, 0, &[1; 5_000]).await;
        files.push(file);
    }
    let mut writes = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let (other, ino) = (site.users[(number + 1) % 2].clone(), file.ino());
        writes.push(tokio::spawn(async move {
            let file = other.open(ino).await;
            append(&other, &file, &[2; 10]).await
        }));
    }
    let all = async {
        for write in writes {
            assert_eq!(write.await.unwrap(), 5_000);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all)
        .await
        .expect("nobody waits for himself");
}

#[tokio::test(start_paused = true)]
async fn who_syncs_makes_durable_what_another_wrote() {
    for seed in 16..22 {
        let site = Site::new(seed, 2).await;
        let (one, two) = site.two();
        let mine = one.create("file").await;
        let opened = OpenHow {
            access: Access::READ,
            ..how()
        };
        let his = two.client.open(&me(), mine.ino(), opened, flags()).await;
        let his = his.unwrap().file;
        one.write(&mine, 0, &[3; 300_000]).await;
        two.client.fsync(&his, seed % 2 == 0).await.unwrap();
        let Site { town, servers, .. } = site;
        town.cut_power_of(servers).await;
        let servers = town.servers(|_| {}).await;
        let user = servers.connect(Options::default()).await;
        let file = user.open(his.ino()).await;
        assert!(user.read(&file, 0, 1 << 20).await == [3; 300_000]);
    }
}

/// Whoever has given the file back still owes the sync of what he wrote.
#[tokio::test(start_paused = true)]
async fn who_syncs_makes_durable_what_he_wrote_before_another_took_over() {
    for seed in 30..46 {
        let site = Site::new(seed, 2).await;
        let (one, two) = site.two();
        let mine = one.create("file").await;
        one.write(&mine, 0, &[3; 300_000]).await;
        let his = two.open(mine.ino()).await;
        two.write(&his, 300_000, b"more").await;
        let ino: InodeId = his.ino();
        if seed % 2 == 0 {
            one.client.fsync(&mine, false).await.unwrap();
        } else {
            // Also when it was closed since, and by syncfs(2).
            assert_eq!(one.read(&mine, 299_999, 9).await, b"\x03more");
            two.client.fsync(&his, false).await.unwrap();
            one.write(&mine, 0, b"first").await;
            two.write(&his, 300_000, b"MORE").await;
            assert_eq!(one.read(&mine, 299_999, 9).await, b"\x03MORE");
            one.close(mine.clone()).await;
            one.client.sync_all().await.unwrap();
        }
        let Site { town, servers, .. } = site;
        town.cut_power_of(servers).await;
        let servers = town.servers(|_| {}).await;
        let user = servers.connect(Options::default()).await;
        let file = user.open(ino).await;
        let read = user.read(&file, 0, 1 << 20).await;
        match seed % 2 {
            0 => assert!(read == [[3; 300_000].as_slice(), b"more"].concat()),
            // What the other wrote last was not synced.
            _ => assert!(read[..5] == *b"first" && read[5..300_000] == [3; 299_995]),
        }
    }
}

/// Registers in one file: each has one writer, and whoever reads it sees what was written last, or what is being written.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_read_by_all_from_then_on() {
    const SLOTS: u64 = 6;
    const APART: u64 = 70_000;
    for seed in 40..50 {
        let site = Site::new(seed, 3).await;
        let file = site.users[0].create("registers").await;
        let ino = file.ino();
        let written: Arc<[AtomicU64; SLOTS as usize]> = Arc::default();
        let mut tasks = Vec::new();
        for task in 0..9u64 {
            let user = site.users[task as usize % 3].clone();
            let written = written.clone();
            tasks.push(tokio::spawn(async move {
                let file = user.open(ino).await;
                let dice = user.platform.dice.fork();
                for round in 1..40u64 {
                    let slot = if task < SLOTS {
                        task
                    } else {
                        dice.below(SLOTS)
                    };
                    if task < SLOTS && round % 2 == 0 {
                        user.write(&file, slot * APART, &round.to_be_bytes()).await;
                        written[slot as usize].store(round, SeqCst);
                        continue;
                    }
                    let slot = dice.below(SLOTS);
                    let before = written[slot as usize].load(SeqCst);
                    let size = user.attr(ino).await.size;
                    assert!(before == 0 || size >= slot * APART + 8, "size {size}");
                    let read = user.read(&file, slot * APART, 8).await;
                    let mut bytes = [0; 8];
                    bytes[..read.len()].copy_from_slice(&read);
                    let value = u64::from_be_bytes(bytes);
                    let after = written[slot as usize].load(SeqCst);
                    assert!(
                        (before..=after + 2).contains(&value),
                        "{value} in {before}..{after}"
                    );
                }
                user.close(file).await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// Answers what an attribute was a second ago.
struct Late(Peer<meta::Request, meta::Reply>);

impl Service<meta::Request, meta::Reply> for Late {
    async fn answer(self: Arc<Self>, request: meta::Request) -> meta::Reply {
        let is_late = matches!(request.op, meta::Op::GetAttr { .. });
        let reply = self.0.call(request).await;
        if is_late {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        reply
    }
}

/// The answer was given while the file was held here, and does not say what was written: then it was given back.
#[tokio::test(start_paused = true)]
async fn a_stat_is_no_older_than_what_was_written_before_it() {
    let site = Site::new(60, 1).await;
    let late = Late(Peer::local(site.servers.mds.clone()));
    let one = site.client_by(Peer::local(Arc::new(late))).await;
    let two = &site.users[0];
    let mine = one.create("log").await;
    let his = two.open(mine.ino()).await;
    one.write(&mine, 0, &[1; 9_000]).await;
    let (user, ino) = (one.clone(), mine.ino());
    let stat = tokio::spawn(async move { user.attr(ino).await.size });
    pause().await;
    append(two, &his, &[2; 10]).await;
    assert_eq!(one.client.status().held_inodes, 0);
    assert_eq!(stat.await.unwrap(), 9_010);
}

/// Hears the server's questions late.
struct HardOfHearing(Arc<gupfs_client::Client>, gupfs_platform::Clock);

impl Service<gupfs_proto::recall::Request, gupfs_proto::recall::Reply> for HardOfHearing {
    async fn answer(
        self: Arc<Self>,
        question: gupfs_proto::recall::Request,
    ) -> gupfs_proto::recall::Reply {
        self.1.sleep(Duration::from_millis(50)).await;
        self.0.clone().answer(question).await
    }
}

/// The question comes when the file was closed and is written again: the answer would wait for that write, which waits for
/// who asks.
#[tokio::test(start_paused = true)]
async fn a_question_to_who_holds_the_file_no_more_keeps_nobody_waiting() {
    let site = Site::new(9, 2).await;
    let (one, two) = site.two();
    let clock = gupfs_platform::Clock::real();
    let late = HardOfHearing(one.client.clone(), clock);
    let back = Peer::local(Arc::new(late));
    site.servers.mds.attach(one.client.session(), back);
    let mine = one.create("f").await;
    let his = two.open(mine.ino()).await;
    append(one, &mine, &[1; 9_000]).await;
    let asks = append(two, &his, &[2; 9_000]);
    let closes_and_writes = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let again = one.open(mine.ino()).await;
        one.client.release(mine.id()).await.unwrap();
        one.client.release(again.id()).await.unwrap();
        let again = one.open(his.ino()).await;
        append(one, &again, &[3; 9_000]).await
    };
    let begun = tokio::time::Instant::now();
    tokio::join!(asks, closes_and_writes);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}
