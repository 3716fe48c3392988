//! Clients that outlive their metadata server, and sessions that it ends.

use crate::sharing::append;
use crate::town::{Servers, Town, lay_out_small};
use crate::user::{User, flags, how, me, name};
use gupfs_client::Options;
use gupfs_mds::{Mds, Options as MdsOptions};
use gupfs_proto::Refusal;
use gupfs_proto::limits::{CLIENT_TERM, SERVER_TERM};
use gupfs_proto::meta::{Reply, Request};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The way to whichever metadata server there is; requests wait while there is none.
#[derive(Default)]
struct Way {
    mds: Mutex<Option<Arc<Mds>>>,
    is_there: Notify,
}

impl Way {
    fn to(&self, mds: &Arc<Mds>) {
        *self.mds.lock() = Some(mds.clone());
        self.is_there.notify_waiters();
    }

    fn cut(&self) {
        *self.mds.lock() = None;
    }
}

impl Service<Request, Reply> for Way {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        loop {
            let there = self.is_there.notified();
            let mds = self.mds.lock().clone();
            match mds {
                Some(mds) => return mds.answer(request).await,
                None => there.await,
            }
        }
    }
}

struct Site {
    town: Town,
    servers: Servers,
    users: Vec<User>,
    ways: Vec<Arc<Way>>,
}

fn keeps(options: &mut MdsOptions) {
    options.keep_sessions = true;
}

impl Site {
    async fn new(seed: u64) -> Site {
        let town = Town::found(seed).await;
        let servers = town.servers(keeps).await;
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

    fn attach(&self, number: usize) {
        let client = &self.users[number].client;
        let back = Peer::local(client.clone());
        self.servers.mds.attach(client.session(), back);
    }

    /// This client cannot reach the metadata server, nor be reached.
    fn cut_off(&self, number: usize) {
        self.ways[number].cut();
        let session = self.users[number].client.session();
        self.servers.mds.detach(session);
    }

    fn reconnect(&self, number: usize) {
        self.ways[number].to(&self.servers.mds);
        self.attach(number);
    }

    async fn restart(&mut self, with_power_cut: bool) {
        self.ways.iter().for_each(|way| way.cut());
        match with_power_cut {
            true => self.town.cut_power_of_metadata(&self.servers).await,
            false => self.town.kill_metadata(&self.servers).await,
        }
        self.town.start_metadata(&mut self.servers, keeps).await;
    }

    fn two(&self) -> (&User, &User) {
        (&self.users[0], &self.users[1])
    }
}

async fn seconds(count: u64) {
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
    // What concerns no absent one goes on at once; the rest waits for it.
    two.create("new").await;
    let (user, ino) = (two.clone(), mine.ino());
    let look = tokio::spawn(async move { user.attr(ino).await.size });
    seconds(3).await;
    assert!(!look.is_finished());
    site.reconnect(0);
    seconds(1).await;
    assert_eq!(look.await.unwrap(), 100_000);
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
    one.close(mine.clone()).await;
    let again = one.client.open(&me(), mine.ino(), how(), flags()).await;
    let again = again.unwrap().file;
    assert_eq!(one.read(&again, at, 10).await, b"his");
    assert_eq!(append(one, &again, b"and mine").await, at + 3);
    assert_eq!(two.attr(mine.ino()).await.size, at + 11);
}

#[tokio::test(start_paused = true)]
async fn who_counts_on_what_a_power_cut_undid_begins_anew() {
    let mut anew = 0;
    for seed in 10..16 {
        let mut site = Site::new(seed).await;
        let (one, two) = (site.users[0].clone(), site.users[1].clone());
        let mine = one.create("kept").await;
        one.write(&mine, 0, &[1; 100_000]).await;
        one.client.fsync(&mine, false).await.unwrap();
        for number in 0..5 {
            one.create(&format!("lost{number}")).await;
        }
        let before = one.client.session();
        site.restart(true).await;
        site.reconnect(0);
        site.reconnect(1);
        seconds(30).await;
        site.attach(0);
        site.attach(1);
        let file = two.open(mine.ino()).await;
        let end = append(&two, &file, b"x").await;
        assert_eq!(end, 100_000);
        let file = one.open(mine.ino()).await;
        assert_eq!(append(&one, &file, b"y").await, 100_001);
        anew += u32::from(one.client.session() != before);
    }
    assert!(anew > 0, "no power cut undid anything");
}
