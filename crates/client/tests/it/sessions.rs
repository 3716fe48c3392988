//! Clients that outlive their metadata server, and sessions that it ends.

use crate::sharing::append;
use crate::town::{Servers, Town, lay_out_small};
use crate::user::{User, flags, how, me, name};
use bytes::Bytes;
use gupfs_client::Options;
use gupfs_mds::{Mds, Options as MdsOptions};

use gupfs_proto::limits::{CLIENT_TERM, SERVER_TERM};
use gupfs_proto::meta::{Make, Op, RenameHow, Reply, Request, XattrHow, XattrName};
use gupfs_proto::{Caller, InodeId, Refusal, Timestamp, data};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;

const REPLACE: RenameHow = RenameHow::Replace;

const DIR: Make = Make {
    mode: 0o755,
    umask: 0,
};

/// The way to whichever metadata server there is; requests wait while there is none, and what was under way is asked again.
#[derive(Default)]
pub struct Way {
    mds: Mutex<Option<Arc<Mds>>>,
    changed: Notify,
    /// How late each request about locks comes a second time, in milliseconds at most; 0 is never.
    pub twice: AtomicU64,
    copies: AtomicU64,
    pub getxattrs: AtomicU64,
}

impl Way {
    fn to(&self, mds: &Arc<Mds>) {
        *self.mds.lock() = Some(mds.clone());
        self.changed.notify_waiters();
    }

    fn cut(&self) {
        *self.mds.lock() = None;
        self.changed.notify_waiters();
    }
}

impl Way {
    async fn ask(&self, request: Request) -> Reply {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let mds = self.mds.lock().clone();
            let Some(mds) = mds else {
                changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = changed => {}
                reply = mds.answer(request.clone()) => return reply,
            }
        }
    }
}

impl Service<Request, Reply> for Way {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        if matches!(request.op, Op::GetXattr { .. }) {
            self.getxattrs.fetch_add(1, Relaxed);
        }
        let latest = self.twice.load(Relaxed);
        if latest > 0 && matches!(request.op, Op::Lock(_)) {
            let (way, copy) = (self.clone(), request.clone());
            let count = self.copies.fetch_add(1, Relaxed);
            let late = Duration::from_millis(count * 7919 % latest);
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                way.ask(copy).await;
            });
        }
        self.ask(request).await
    }
}

pub struct Site {
    town: Town,
    pub servers: Servers,
    pub users: Vec<User>,
    pub ways: Vec<Arc<Way>>,
}

fn keeps(options: &mut MdsOptions) {
    options.keep_sessions = true;
}

impl Site {
    pub async fn new(seed: u64) -> Site {
        Site::with(seed, keeps).await
    }

    async fn with(seed: u64, how: impl FnOnce(&mut MdsOptions)) -> Site {
        let town = Town::found(seed).await;
        let servers = town.servers(how).await;
        let (mut users, mut ways) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let way = Arc::new(Way::default());
            way.to(&servers.mds);
            let options = Options {
                shared: true,
                ..Options::default()
            };
            let user = servers.connect_by(Peer::local(way.clone()), options).await;
            ways.push(way);
            users.push(user);
        }
        let site = Site {
            town,
            servers,
            users,
            ways,
        };
        site.attach(0);
        site.attach(1);
        lay_out_small(&site.users[0]).await;
        site
    }

    pub fn attach(&self, number: usize) {
        let client = &self.users[number].client;
        let back = Peer::local(client.clone());
        self.servers.mds.attach(client.session(), back);
    }

    /// This client cannot reach the metadata server, nor be reached.
    pub fn cut_off(&self, number: usize) {
        self.ways[number].cut();
        let session = self.users[number].client.session();
        self.servers.mds.detach(session);
    }

    pub fn reconnect(&self, number: usize) {
        self.ways[number].to(&self.servers.mds);
        self.attach(number);
    }

    pub async fn restart(&mut self, with_power_cut: bool) {
        self.ways.iter().for_each(|way| way.cut());
        match with_power_cut {
            true => self.town.cut_power_of_metadata(&self.servers).await,
            false => self.town.kill_metadata(&self.servers).await,
        }
        self.town.start_metadata(&mut self.servers, keeps).await;
    }

    /// It stops, and is started again.
    pub async fn restart_in_order(&mut self) {
        self.ways.iter().for_each(|way| way.cut());
        self.servers.mds.stop().await.unwrap();
        self.town.kill_metadata(&self.servers).await;
        self.town.start_metadata(&mut self.servers, keeps).await;
    }

    pub fn two(&self) -> (&User, &User) {
        (&self.users[0], &self.users[1])
    }
}

pub async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn clients_go_on_after_a_restart_of_their_metadata_server() {
    let mut site = Site::new(1).await;
    let (one, two) = (site.users[0].clone(), site.users[1].clone());
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 100_000]).await;
    let gone = one.create("gone").await;
    one.write(&gone, 0, &[2; 100_000]).await;
    // Nobody could be asked about it before the end.
    site.cut_off(0);
    let root = two.client.root();
    two.client.unlink(&me(), root, &name("gone")).await.unwrap();
    let sessions = [one.client.session(), two.client.session()];
    site.restart(false).await;
    assert_eq!(site.servers.mds.recovery().kept_sessions, 2);
    site.reconnect(1);
    // What was answered before comes before anything new: who is back waits for those who are not.
    let user = two.clone();
    let make = tokio::spawn(async move { user.create("new").await });
    let (user, ino) = (two.clone(), mine.ino());
    let look = tokio::spawn(async move { user.attr(ino).await.size });
    seconds(3).await;
    assert!(!look.is_finished() && !make.is_finished());
    assert_eq!(site.servers.mds.status().await.missing, [sessions[0]]);
    site.reconnect(0);
    seconds(1).await;
    assert_eq!(look.await.unwrap(), 100_000);
    make.await.unwrap();
    one.write(&mine, 100_000, b"more").await;
    assert_eq!(two.attr(mine.ino()).await.size, 100_004);
    seconds(60).await;
    assert_eq!([one.client.session(), two.client.session()], sessions);
    assert_eq!(one.read(&gone, 0, 2).await, [2, 2]);
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!(space.inodes, 4);
    one.close(gone).await;
    seconds(5).await;
    let space = one.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_come_back_after_a_restart_is_ended() {
    let mut site = Site::new(2).await;
    let (one, two) = (site.users[0].clone(), site.users[1].clone());
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 100_000]).await;
    site.restart(false).await;
    site.reconnect(1);
    let begun = tokio::time::Instant::now();
    let his = two.open(mine.ino()).await;
    assert_eq!(append(&two, &his, b"x").await, 100_000);
    let waited = begun.elapsed();
    assert!(
        (SERVER_TERM..SERVER_TERM + Duration::from_secs(3)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_writes_for_its_term_and_is_then_ended() {
    let site = Site::new(3).await;
    let (one, two) = site.two();
    let mine = one.create("file").await;
    one.write(&mine, 0, &[1; 100_000]).await;
    seconds(12).await;
    site.cut_off(0);
    let session = one.client.session();
    let begun = tokio::time::Instant::now();
    let mut at = 100_000;
    for _ in 0..100 {
        seconds(1).await;
        let write = one.write(&mine, at, &[1; 10]);
        if tokio::time::timeout(Duration::from_secs(40), write)
            .await
            .is_err()
        {
            break;
        }
        at += 10;
    }
    let wrote = begun.elapsed() - Duration::from_secs(40);
    assert!(wrote <= CLIENT_TERM + Duration::from_secs(1), "{wrote:?}");
    assert!(wrote + Duration::from_secs(7) > CLIENT_TERM, "{wrote:?}");
    // Meanwhile another has it.
    assert_eq!(two.attr(mine.ino()).await.size, at);
    let his = two.open(mine.ino()).await;
    assert_eq!(append(two, &his, b"his").await, at);
    // It hears that it was ended, and begins anew.
    site.ways[0].to(&site.servers.mds);
    seconds(10).await;
    assert_ne!(one.client.session(), session);
    site.attach(0);
    let stale = one.client.read(&mine, 0, 10, Default::default()).await;
    assert_eq!(stale, Err(Refusal::Stale));
    assert_eq!(one.try_write(&mine, 0, 10).await, Err(Refusal::Stale));
    let cut = one.client.truncate_open(&me(), &mine, 0, false).await;
    assert_eq!(cut, Err(Refusal::Stale));
    one.close(mine.clone()).await;
    let again = one.client.open(&me(), mine.ino(), how(), flags()).await;
    let again = again.unwrap().file;
    assert_eq!(one.read(&again, at, 10).await, b"his");
    assert_eq!(append(one, &again, b"and mine").await, at + 3);
    assert_eq!(two.attr(mine.ino()).await.size, at + 11);
}

/// The metadata server's way to a target; while it is cut nobody is told anything.
struct Road {
    to: Peer<data::Request, data::Reply>,
    cut: AtomicBool,
}

impl Service<data::Request, data::Reply> for Road {
    async fn answer(self: Arc<Self>, request: data::Request) -> data::Reply {
        while self.cut.load(Relaxed) {
            seconds(1).await;
        }
        self.to.call(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_in_time_while_another_is_not_cleared_up_after() {
    let mut roads = Vec::new();
    let site = Site::with(7, |options| {
        keeps(options);
        for target in &mut options.targets {
            let road = Arc::new(Road {
                to: target.peer.clone(),
                cut: AtomicBool::new(false),
            });
            target.peer = Peer::local(road.clone());
            roads.push(road);
        }
    })
    .await;
    let (one, two) = site.two();
    let (of_one, of_two) = (one.create("one").await, two.create("two").await);
    one.write(&of_one, 0, &[1; 100_000]).await;
    two.write(&of_two, 0, &[2; 100_000]).await;
    let sessions = [one.client.session(), two.client.session()];
    roads.iter().for_each(|road| road.cut.store(true, Relaxed));
    site.cut_off(0);
    seconds(10).await;
    site.cut_off(1);
    seconds(17).await;
    let alive = |session: usize| site.servers.mds.has_session(sessions[session]);
    assert_eq!([alive(0), alive(1)], [false, true]);
    seconds(10).await;
    assert!(!alive(1), "its term is over for seconds");
    roads.iter().for_each(|road| road.cut.store(false, Relaxed));
    site.reconnect(0);
    seconds(10).await;
    assert_eq!(one.attr(of_two.ino()).await.size, 100_000);
}

/// Which changes of the last power cut were made again.
async fn made_again(site: &Site) -> u64 {
    site.servers.mds.status().await.made_again
}

#[tokio::test(start_paused = true)]
async fn what_a_power_cut_undid_is_made_again_as_it_was() {
    let mut again = 0;
    for seed in 10..30 {
        let mut site = Site::new(seed).await;
        let (one, two) = (site.users[0].clone(), site.users[1].clone());
        let root = one.client.root();
        let large = one.create("large").await;
        one.write(&large, 0, &[1; 100_000]).await;
        let his = two.open(large.ino()).await;
        let end = append(&two, &his, b"end").await;
        assert_eq!(end, 100_000);
        // Each builds on what the other has done, and nothing is synced.
        let dir = one.client.mkdir(&me(), root, &name("dir"), DIR).await;
        let dir = dir.unwrap().ino;
        let small = two.try_create_in(dir, "small").await.unwrap();
        two.write(&small, 0, b"inline").await;
        let fresh = one.try_create_in(dir, "fresh").await.unwrap();
        one.write(&fresh, 0, &[3; 100_000]).await;
        two.client
            .rename(
                &me(),
                (dir, &name("small")),
                (root, &name("moved")),
                REPLACE,
            )
            .await
            .unwrap();
        let gone = two.create("gone").await;
        two.write(&gone, 0, &[2; 100_000]).await;
        one.client.unlink(&me(), root, &name("gone")).await.unwrap();
        let before = [attr_of(&one, dir).await, attr_of(&two, small.ino()).await];
        let sessions = [one.client.session(), two.client.session()];
        site.restart(true).await;
        site.reconnect(0);
        site.reconnect(1);
        assert_eq!(one.read(&large, 99_999, 9).await, b"\x01end");
        assert_eq!(two.read(&gone, 0, 2).await, [2, 2]);
        assert_eq!(one.read(&fresh, 99_999, 2).await, [3]);
        let after = [attr_of(&one, dir).await, attr_of(&two, small.ino()).await];
        assert_eq!(after, before);
        let moved = one
            .client
            .lookup(&me(), root, &name("moved"))
            .await
            .unwrap();
        assert_eq!(moved.ino, small.ino());
        assert_eq!(
            one.client.lookup(&me(), root, &name("gone")).await,
            Err(Refusal::NotFound)
        );
        two.write(&small, 6, b", and more").await;
        assert_eq!(append(&one, &large, b"!").await, 100_003);
        again += made_again(&site).await;
        let his = two.open(fresh.ino()).await;
        assert_eq!(two.read(&his, 99_999, 2).await, [3]);
        // It is durable now, whoever asks.
        site.restart(true).await;
        site.reconnect(0);
        site.reconnect(1);
        let moved = one
            .client
            .lookup(&me(), root, &name("moved"))
            .await
            .unwrap();
        assert_eq!(moved.ino, small.ino());
        assert_eq!([one.client.session(), two.client.session()], sessions);
    }
    assert!(again > 20, "power cuts undid {again} changes");
}

async fn attr_of(user: &User, ino: InodeId) -> (u64, Timestamp, Timestamp) {
    let attr = user.attr(ino).await;
    (attr.size, attr.mtime, attr.ctime)
}

#[tokio::test(start_paused = true)]
async fn who_counts_on_what_nobody_says_again_begins_anew() {
    let (mut anew, mut kept) = (0, 0);
    for seed in 10..30 {
        let mut site = Site::new(seed).await;
        let (one, two) = (site.users[0].clone(), site.users[1].clone());
        let root = one.client.root();
        let mine = two.create("kept").await;
        two.write(&mine, 0, &[1; 100_000]).await;
        two.client.fsync(&mine, false).await.unwrap();
        let dir = one.client.mkdir(&me(), root, &name("dir"), DIR).await;
        two.try_create_in(dir.unwrap().ino, "file").await.unwrap();
        let before = two.client.session();
        site.restart(true).await;
        // The one that made the directory never comes back.
        site.reconnect(1);
        seconds(30).await;
        site.attach(1);
        let is_there = two.client.lookup(&me(), root, &name("dir")).await;
        match two.client.session() == before {
            true => kept += u32::from(is_there.is_ok()),
            false => {
                assert_eq!(is_there, Err(Refusal::NotFound));
                anew += 1;
            }
        }
        let file = two.open(mine.ino()).await;
        assert_eq!(append(&two, &file, b"x").await, 100_000);
    }
    assert!(
        anew > 0 && kept > 0,
        "{anew} power cuts took the directory, {kept} did not"
    );
}

/// How often any target was asked to sync something.
async fn syncs(site: &Site) -> u64 {
    let targets = site.servers.oss.status().await.targets;
    targets.iter().map(|target| target.served.syncs).sum()
}

#[tokio::test(start_paused = true)]
async fn bytes_leave_the_inode_with_a_sync_if_another_has_opened_the_file() {
    let site = Site::new(1).await;
    let (one, two) = site.two();
    let mine = one.create("mine").await;
    one.write(&mine, 0, b"small").await;
    one.write(&mine, 5, &[1; 10_000]).await;
    assert_eq!(syncs(&site).await, 0);
    let ours = one.create("ours").await;
    one.write(&ours, 0, b"small").await;
    let his = two.open(ours.ino()).await;
    two.client.fsync(&his, false).await.unwrap();
    two.close(his).await;
    one.write(&ours, 5, &[1; 10_000]).await;
    assert_eq!(syncs(&site).await, 1);
    for file in [mine, ours] {
        let his = two.open(file.ino()).await;
        let bytes = two.read(&his, 0, 20_000).await;
        assert_eq!((bytes.len(), &bytes[..6]), (10_005, &b"small\x01"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_says_by_itself_that_its_file_has_no_capabilities() {
    let site = Site::new(1).await;
    let (one, two) = site.two();
    let capability = XattrName::new(b"security.capability").unwrap();
    let file = one.create("program").await;
    let ino = file.ino();
    let root = Caller::root();
    let get = async |user: &User| user.client.getxattr(&me(), ino, &capability).await;
    let set = async |user: &User| {
        let (value, how) = (Bytes::from_static(&[7; 20]), XattrHow::Either);
        let set = user.client.setxattr(&root, ino, &capability, value, how);
        set.await.unwrap();
    };
    one.write(&file, 0, &[1; 10_000]).await;
    let asked = site.ways[0].getxattrs.load(Relaxed);
    assert_eq!(get(one).await, Err(Refusal::NoAttribute));
    assert_eq!(site.ways[0].getxattrs.load(Relaxed), asked, "it was asked");
    assert_eq!(get(two).await, Err(Refusal::NoAttribute));
    // Set by another, and by itself.
    for user in [two, one] {
        set(user).await;
        for user in [one, two] {
            assert_eq!(get(user).await.unwrap(), [7; 20][..]);
        }
        one.write(&file, 0, b"x").await;
        for user in [one, two] {
            assert_eq!(get(user).await, Err(Refusal::NoAttribute));
        }
    }
}
