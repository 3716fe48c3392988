//! Leases on metadata against the real server: what is answered without a request, and that no client ever shows an older state than
//! another has seen.

use crate::sessions::{RestartCluster, seconds};
use crate::shared_cluster::SharedCluster;
use crate::user::{User, flags, me, name};
use bytes::Bytes;
use gupfs_client::{MdsPeer, OpenFileFlags, ReadOptions, SessionOptions};
use gupfs_mds::Mds;
use gupfs_proto::limits::CLIENT_TERM;
use gupfs_proto::meta::{
    AccessMode, CreateMode, MetaOp, MetaReply, MetaRequest, OpenMode, RenameMode, SetAttr,
    XattrMode, XattrName,
};
use gupfs_proto::{Caller, FsError, InodeId};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;

/// A metadata peer that lists the requests.
pub struct ListedRequests {
    mds: Arc<Mds>,
    requests: Mutex<Vec<&'static str>>,
}

impl ListedRequests {
    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.requests.lock())
    }
}

impl Service<MetaRequest, MetaReply> for ListedRequests {
    async fn handle(self: Arc<Self>, request: MetaRequest) -> MetaReply {
        let name = match &request.op {
            MetaOp::WithOpenCapability { op, .. } => {
                let op = gupfs_proto::wire::decode_op(op).unwrap();
                op.name()
            }
            op => op.name(),
        };
        if name != "renew" {
            self.requests.lock().push(name);
        }
        self.mds.clone().handle(request).await
    }
}

/// Two clients: `one` with listed requests, and `two`.
pub struct Pair {
    pub cluster: SharedCluster,
    pub one: User,
    pub requests: Arc<ListedRequests>,
}

impl Pair {
    pub async fn new(seed: u64) -> Pair {
        let cluster = SharedCluster::new(seed, 1).await;
        let requests = Arc::new(ListedRequests {
            mds: cluster.servers.mds.clone(),
            requests: Mutex::default(),
        });
        let peer: MdsPeer = Peer::local(requests.clone());
        let one = cluster.client_by(peer).await;
        Pair {
            cluster,
            one,
            requests,
        }
    }

    pub fn two(&self) -> &User {
        &self.cluster.users[0]
    }
}

const TREE: CreateMode = CreateMode {
    mode: 0o755,
    umask: 0,
};

/// A directory "d" with three small files and a symbolic link, by `user`.
async fn make_tree(user: &User) -> InodeId {
    let root = user.client.root();
    let dir = user.client.mkdir(&me(), root, &name("d"), TREE).await;
    let dir = dir.unwrap().ino;
    for text in ["a", "b", "c"] {
        let file = user.try_create_in(dir, text).await.unwrap();
        user.write(&file, 0, text.as_bytes()).await;
        user.close(file).await;
    }
    let link = user.client.symlink(&me(), dir, &name("link"), b"a").await;
    link.unwrap();
    // Then a read makes the access time later than the other times, and the next one leaves it.
    seconds(1).await;
    dir
}

fn for_reading() -> OpenMode {
    OpenMode {
        access: AccessMode::READ,
        truncate: false,
        kill_privileges: false,
    }
}

async fn read_whole(user: &User, ino: InodeId) -> Vec<u8> {
    let client = &user.client;
    let opened = client.open(&me(), ino, for_reading(), flags()).await;
    let file = opened.unwrap().file;
    let options = ReadOptions::default();
    let read = client.read(&file, 0, 4096, options).await.unwrap();
    user.close(file).await;
    read.concat()
}

#[tokio::test(start_paused = true)]
async fn bytes_are_kept_after_the_close_until_the_kernel_forgets_the_inode() {
    let pair = Pair::new(11).await;
    let file = pair.two().create("f").await;
    pair.two().write(&file, 0, &[7; 40_000]).await;
    pair.two().close(file).await;
    seconds(1).await;
    let client = &pair.one.client;
    let root = client.root();
    let ino = client.lookup(&me(), root, &name("f")).await.unwrap().ino;
    // The first close reports the access time, a change of this client.
    for _ in 0..3 {
        assert_eq!(read_whole(&pair.one, ino).await, [7; 4096]);
    }
    assert!(client.status().cached_bytes >= 4096);
    assert_eq!(client.counts().cached_reads, 1);
    client.forget([(ino, 1)]);
    assert_eq!(client.status().cached_bytes, 0);
    assert_eq!(read_whole(&pair.one, ino).await, [7; 4096]);
    assert_eq!(client.counts().cached_reads, 1);
}

#[tokio::test(start_paused = true)]
async fn direct_reads_and_clients_without_a_data_cache_read_from_the_servers() {
    let pair = Pair::new(12).await;
    let file = pair.two().create("f").await;
    pair.two().write(&file, 0, &[7; 40_000]).await;
    pair.two().close(file).await;
    let options = SessionOptions {
        shared: true,
        data_cache_max: 0,
        ..SessionOptions::default()
    };
    let servers = &pair.cluster.servers;
    let mds = Peer::local(servers.mds.clone());
    let without = servers.connect_by(mds, options).await;
    pair.cluster.attach(&without);
    let direct = OpenFileFlags {
        direct: true,
        ..flags()
    };
    for (user, how) in [(&pair.one, direct), (&without, flags())] {
        let client = &user.client;
        let root = client.root();
        let ino = client.lookup(&me(), root, &name("f")).await.unwrap().ino;
        let opened = client.open(&me(), ino, for_reading(), how).await;
        let file = opened.unwrap().file;
        for record in 0..8 {
            assert_eq!(user.read(&file, 4096 * record, 4096).await, [7; 4096]);
            assert_eq!(user.read(&file, 0, 4096).await, [7; 4096]);
        }
        let counts = client.counts();
        assert_eq!((counts.cached_reads, counts.bytes_read_ahead), (0, 0));
        assert_eq!(client.status().cached_bytes, 0);
        user.close(file).await;
    }
}

/// What `find`, `ls -lR` and `cat` do: returns the names and the bytes of regular files.
async fn walk(user: &User, dir: InodeId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (client, root, mut found) = (&user.client, user.client.root(), Vec::new());
    client.getattr(&me(), root).await.unwrap();
    let entry = client.lookup(&me(), root, &name("d")).await.unwrap();
    assert_eq!(entry.ino, dir);
    client.open_dir(&me(), dir).await.unwrap();
    for plus in [true, false] {
        let listing = client.readdir(&me(), dir, 0, 100, plus).await.unwrap();
        for entry in &listing.entries[2..] {
            let text = entry.name.as_bytes();
            let found_name = gupfs_proto::Name::new(text).unwrap();
            let attr = client.lookup(&me(), dir, &found_name).await.unwrap();
            assert_eq!(client.getattr(&me(), attr.ino).await.unwrap(), attr);
            let label = XattrName::new(b"security.selinux").unwrap();
            let no_label = client.getxattr(&me(), attr.ino, &label).await;
            assert_eq!(no_label, Err(FsError::NoAttribute));
            client.listxattr(&me(), attr.ino).await.unwrap();
            client
                .access(&me(), attr.ino, AccessMode::READ)
                .await
                .unwrap();
            let bytes = match entry.kind {
                gupfs_proto::FileKind::Symlink => client.readlink(&me(), attr.ino).await.unwrap(),
                _ => read_whole(user, attr.ino).await,
            };
            found.push((text.to_vec(), bytes));
        }
    }
    client.close_dir(dir);
    let absent = client.lookup(&me(), dir, &name("absent")).await;
    assert_eq!(absent, Err(FsError::NotFound));
    found.sort();
    found.dedup();
    found
}

#[tokio::test(start_paused = true)]
async fn a_repeated_walk_over_a_tree_sends_no_request() {
    let pair = Pair::new(1).await;
    let dir = make_tree(pair.two()).await;
    let first = walk(&pair.one, dir).await;
    assert_eq!(first.len(), 4);
    // The first reads update access times.
    walk(&pair.one, dir).await;
    pair.requests.take();
    let counted = pair.one.client.counts();
    assert_eq!(walk(&pair.one, dir).await, first);
    assert_eq!(pair.requests.take(), Vec::<&str>::new());
    let now = pair.one.client.counts();
    assert!(now.lease_hits > counted.lease_hits + 20);
    assert_eq!(now.lease_misses, counted.lease_misses);
    let status = pair.one.client.status();
    assert!(status.leases_accepted && status.leased_values > 10);
}

#[tokio::test(start_paused = true)]
async fn a_rename_in_a_listed_directory_is_the_only_request_before_and_after_it() {
    let pair = Pair::new(31).await;
    let dir = make_tree(pair.two()).await;
    for _ in 0..2 {
        walk(&pair.one, dir).await;
    }
    let one = &pair.one.client;
    pair.requests.take();
    for (old, new) in [("a", "absent"), ("absent", "a"), ("a", "third")] {
        // As the kernel of a program that renames.
        let (old, new) = (name(old), name(new));
        let found = one.lookup(&me(), dir, &old).await.unwrap();
        let gone = one.lookup(&me(), dir, &new).await;
        assert_eq!(gone, Err(FsError::NotFound));
        let (from, to) = ((dir, &old), (dir, &new));
        let renamed = one.rename(&me(), from, to, RenameMode::Replace).await;
        renamed.unwrap();
        assert_eq!(one.lookup(&me(), dir, &new).await.unwrap().ino, found.ino);
    }
    assert_eq!(pair.requests.take(), ["rename"; 3]);
    // What another client does to a name is seen in the listing, too.
    let (from, to) = ((dir, &name("third")), (dir, &name("a")));
    let two = &pair.two().client;
    let renamed = two.rename(&me(), from, to, RenameMode::Replace).await;
    renamed.unwrap();
    let gone = one.lookup(&me(), dir, &name("third")).await;
    assert_eq!(gone, Err(FsError::NotFound));
    assert!(one.lookup(&me(), dir, &name("a")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_client_is_seen_at_once() {
    let pair = Pair::new(2).await;
    let (one, two, root) = (&pair.one.client, &pair.two().client, InodeId::ROOT);
    let dir = make_tree(pair.two()).await;
    for _ in 0..2 {
        walk(&pair.one, dir).await;
    }
    let b = one.lookup(&me(), dir, &name("b")).await.unwrap();
    let mode = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    two.setattr(&me(), b.ino, mode).await.unwrap();
    let changed = one.getattr(&me(), b.ino).await.unwrap();
    assert_eq!(changed.mode.0, 0o600);
    assert_eq!(one.lookup(&me(), dir, &name("b")).await, Ok(changed));
    // A name that was absent, one that was present, and the listing without either.
    let (absent, moved) = ((dir, &name("absent")), (dir, &name("a")));
    let renamed = two.rename(&me(), moved, absent, RenameMode::Replace).await;
    renamed.unwrap();
    let gone = one.lookup(&me(), dir, &name("a")).await;
    assert_eq!(gone, Err(FsError::NotFound));
    assert!(one.lookup(&me(), dir, &name("absent")).await.is_ok());
    two.unlink(&me(), dir, &name("c")).await.unwrap();
    let listing = one.readdir(&me(), dir, 0, 100, true).await.unwrap();
    let mut names: Vec<&[u8]> = listing.entries[2..]
        .iter()
        .map(|entry| entry.name.as_bytes())
        .collect();
    names.sort_unstable();
    assert_eq!(names, [&b"absent"[..], b"b", b"link"]);
    // Bytes, and an extended attribute.
    assert_eq!(read_whole(&pair.one, b.ino).await, b"b");
    let file = pair.two().open(b.ino).await;
    pair.two().write(&file, 0, b"changed").await;
    assert_eq!(read_whole(&pair.one, b.ino).await, b"changed");
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().size, 7);
    pair.two().write(&file, 0, &[7; 4096]).await;
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().size, 4096);
    pair.two().write(&file, 4096, &[7; 9_000]).await;
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().size, 13_096);
    pair.two().close(file).await;
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().size, 13_096);
    let label = XattrName::new(b"user.label").unwrap();
    let unlabelled = one.getxattr(&me(), b.ino, &label).await;
    assert_eq!(unlabelled, Err(FsError::NoAttribute));
    let value = Bytes::from_static(b"new");
    let how = XattrMode::CreateOrReplace;
    two.setxattr(&me(), b.ino, &label, value.clone(), how)
        .await
        .unwrap();
    assert_eq!(one.getxattr(&me(), b.ino, &label).await, Ok(value));
    two.unlink(&me(), dir, &name("b")).await.unwrap();
    assert_eq!(
        one.lookup(&me(), dir, &name("b")).await,
        Err(FsError::NotFound)
    );
    for text in ["absent", "link"] {
        two.unlink(&me(), dir, &name(text)).await.unwrap();
    }
    two.rmdir(&me(), root, &name("d")).await.unwrap();
    assert_eq!(
        one.lookup(&me(), root, &name("d")).await,
        Err(FsError::NotFound)
    );
}

#[tokio::test(start_paused = true)]
async fn own_changes_are_seen_and_keep_what_they_do_not_change() {
    let pair = Pair::new(3).await;
    let (one, root) = (&pair.one.client, InodeId::ROOT);
    let dir = make_tree(&pair.one).await;
    for _ in 0..2 {
        walk(&pair.one, dir).await;
    }
    let b = one.lookup(&me(), dir, &name("b")).await.unwrap();
    let before = one.getattr(&me(), dir).await.unwrap();
    let file = pair.one.try_create_in(dir, "new").await.unwrap();
    pair.requests.take();
    // The reply to the change says how the directory is now, and the new name.
    let after = one.getattr(&me(), dir).await.unwrap();
    assert!(after.change > before.change);
    let found = one.lookup(&me(), dir, &name("new")).await.unwrap();
    assert_eq!(found.ino, file.ino());
    assert_eq!(pair.requests.take(), Vec::<&str>::new());
    pair.one.write(&file, 0, b"12345").await;
    assert_eq!(one.getattr(&me(), found.ino).await.unwrap().size, 5);
    pair.one.close(file).await;
    assert_eq!(one.getattr(&me(), found.ino).await.unwrap().size, 5);
    one.link(&me(), b.ino, root, &name("second")).await.unwrap();
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().nlink, 2);
    // The victim of an unlink by a name that this client has not looked up.
    let (two, third) = (&pair.two().client, name("third"));
    two.link(&me(), b.ino, root, &third).await.unwrap();
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().nlink, 3);
    one.unlink(&me(), root, &name("third")).await.unwrap();
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().nlink, 2);
    let (from, to) = ((dir, &name("a")), (dir, &name("b")));
    one.rename(&me(), from, to, RenameMode::Replace)
        .await
        .unwrap();
    assert_eq!(one.getattr(&me(), b.ino).await.unwrap().nlink, 1);
    assert_eq!(
        one.lookup(&me(), dir, &name("a")).await,
        Err(FsError::NotFound)
    );
    let replaced = one.lookup(&me(), dir, &name("b")).await.unwrap();
    assert_eq!(read_whole(&pair.one, replaced.ino).await, b"a");
    let listing = one.readdir(&me(), dir, 0, 100, true).await.unwrap();
    assert_eq!(listing.entries.len(), 2 + 4);
}

#[tokio::test(start_paused = true)]
async fn permissions_are_checked_as_the_server_does() {
    let pair = Pair::new(4).await;
    let (one, dir) = (&pair.one.client, make_tree(pair.two()).await);
    walk(&pair.one, dir).await;
    let other = Caller::new(2000, 2000, []);
    let a = one.lookup(&other, dir, &name("a")).await.unwrap();
    let denied = one.access(&other, a.ino, AccessMode::WRITE).await;
    assert_eq!(denied, Err(FsError::Denied));
    let closed = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    pair.two().client.setattr(&me(), dir, closed).await.unwrap();
    assert_eq!(
        one.lookup(&other, dir, &name("a")).await,
        Err(FsError::Denied)
    );
    assert_eq!(one.lookup(&me(), dir, &name("a")).await.unwrap().ino, a.ino);
    assert_eq!(
        one.lookup(&other, dir, &name("a")).await,
        Err(FsError::Denied)
    );
}

/// A client that the server cannot reach answers by its leases only until its term is over; changes wait for that moment.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_cut_off_delays_a_change_until_its_term_is_over_and_shows_nothing_older() {
    let cluster = RestartCluster::new(5).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    let file = two.create("file").await;
    let ino = file.ino();
    let before = one.attr(ino).await;
    one.attr(InodeId::ROOT).await;
    cluster.cut_off(0);
    let changing = tokio::spawn({
        let two = two.clone();
        async move {
            let mode = SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            };
            two.client.setattr(&me(), ino, mode).await.unwrap();
        }
    });
    let mut answered_for = 0;
    loop {
        let was_changed = changing.is_finished();
        let look = tokio::time::timeout(std::time::Duration::from_millis(10), one.attr(ino)).await;
        match look {
            Ok(attr) => {
                assert!(!was_changed, "an old mode after the change: {attr:?}");
                assert_eq!(attr, before);
                answered_for += 1;
            }
            Err(_) if was_changed => break,
            Err(_) => {}
        }
        seconds(1).await;
    }
    assert!(answered_for >= 10 && answered_for <= CLIENT_TERM.as_secs());
    cluster.reconnect(0);
    seconds(2).await;
    assert_eq!(one.attr(ino).await.mode.0, 0o600);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_server_clients_answer_by_new_leases_only() {
    let mut cluster = RestartCluster::new(6).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    let file = two.create("file").await;
    let ino = file.ino();
    one.attr(ino).await;
    let hits = one.client.counts().lease_hits;
    one.attr(ino).await;
    assert_eq!(one.client.counts().lease_hits, hits + 1);
    cluster.restart(true).await;
    cluster.reconnect(0);
    cluster.reconnect(1);
    two.write(&file, 0, &[1; 5_000]).await;
    assert_eq!(one.attr(ino).await.size, 5_000);
    two.close(file).await;
    assert_eq!(one.attr(ino).await.size, 5_000);
    assert!(one.client.status().leases_accepted);
    let hits = one.client.counts().lease_hits;
    one.attr(ino).await;
    assert_eq!(one.client.counts().lease_hits, hits + 1);
}
