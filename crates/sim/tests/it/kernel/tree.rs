//! The model's tree: names, links, open files, listings, and the lookups that FORGETs give back.

use super::tree_server::TreeServer;
use gupfs_fuse::{Errno, MountConfig, NodeId, OpenReplyFlags};
use gupfs_sim::kernel::{Directory, Kernel, RenameFlags};
use libc::{O_APPEND, O_CREAT, O_DIRECT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test)
}

fn mount(
    ttl: Duration,
) -> (
    Arc<TreeServer>,
    Arc<Kernel<TreeServer>>,
    Directory<TreeServer>,
) {
    let server = Arc::new(TreeServer::new(ttl));
    let kernel = Kernel::mount(server.clone(), MountConfig::FLAGS, None);
    let root = kernel.root();
    (server, kernel, root)
}

async fn put(root: &Directory<TreeServer>, path: &[u8], bytes: &[u8]) {
    let file = root.open(path, O_CREAT | O_WRONLY | O_TRUNC, 0o666).await;
    let file = file.unwrap();
    file.write(0, bytes).await.unwrap();
    file.close().await.unwrap();
}

async fn read(root: &Directory<TreeServer>, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let file = root.open(path, O_RDONLY, 0).await?;
    let bytes = file.read(0, 100).await;
    file.close().await?;
    bytes
}

/// RELEASE is sent in the background.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn every_lookup_is_forgotten_once_nothing_uses_its_inode() {
    run(async {
        let (server, kernel, root) = mount(LONG);
        root.mkdir(b"d", 0o777).await.unwrap();
        put(&root, b"d/file", b"bytes").await;
        root.link(b"d/file", b"d/other").await.unwrap();
        root.list(b"d").await.unwrap();
        root.stat(b"d/file").await.unwrap();
        let held = root.open(b"d/other", O_RDONLY, 0).await.unwrap();
        let inside = root.enter(b"d").await.unwrap();
        settle().await;
        kernel.shrink().await;
        let held_nodes: Vec<NodeId> = server.lookups().iter().map(|(node, _)| *node).collect();
        assert_eq!(held_nodes, [NodeId(2), NodeId(3)]);
        held.close().await.unwrap();
        drop(inside);
        settle().await;
        kernel.shrink().await;
        assert_eq!(server.lookups(), []);
        assert_eq!(kernel.dentries(), 0);
    });
}

#[test]
fn the_dentry_cache_is_bounded_and_drops_what_was_not_used_for_the_longest_time() {
    run(async {
        let (server, kernel, root) = mount(LONG);
        kernel.set_dentries_max(3);
        for name in [b"a", b"b", b"c"] {
            put(&root, name, b"").await;
        }
        settle().await;
        root.stat(b"a").await.unwrap();
        put(&root, b"d", b"").await;
        settle().await;
        assert_eq!(kernel.dentries(), 3);
        server.take_requests();
        for (name, requests) in [(b"a", 0), (b"d", 0), (b"b", 1)] {
            root.stat(name).await.unwrap();
            let sent = server.take_requests();
            let lookups = sent.iter().filter(|kind| **kind == "lookup").count();
            assert_eq!(lookups, requests, "{}", name[0] as char);
        }
    });
}

#[test]
fn a_renamed_directory_keeps_its_names_and_its_working_directories() {
    run(async {
        let (server, _, root) = mount(LONG);
        root.mkdir(b"d", 0o777).await.unwrap();
        root.mkdir(b"e", 0o777).await.unwrap();
        put(&root, b"d/file", b"bytes").await;
        let inside = root.enter(b"d").await.unwrap();
        root.rename(b"d", b"e/moved").await.unwrap();
        assert_eq!(inside.path().unwrap(), b"/e/moved");
        server.take_requests();
        assert_eq!(inside.stat(b"file").await.unwrap().size, 5);
        assert!(!server.take_requests().contains(&"lookup"));
        assert_eq!(root.stat(b"d").await.unwrap_err(), Errno::ENOENT);
        assert_eq!(inside.stat(b"../..").await.unwrap().ino, 1);
        let into_itself = root.rename(b"e", b"e/moved/e").await;
        assert_eq!(into_itself, Err(Errno::EINVAL));
        assert_eq!(root.rmdir(b"e").await, Err(Errno::ENOTEMPTY));
    });
}

#[test]
fn a_removed_directory_has_no_path_and_no_names() {
    run(async {
        let (_, _, root) = mount(LONG);
        root.mkdir(b"d", 0o777).await.unwrap();
        let inside = root.enter(b"d").await.unwrap();
        root.rmdir(b"d").await.unwrap();
        assert_eq!(inside.path(), Err(Errno::ENOENT));
        assert_eq!(inside.mkdir(b"e", 0o777).await, Err(Errno::ENOENT));
        assert_eq!(root.stat(b"d").await.unwrap_err(), Errno::ENOENT);
    });
}

#[test]
fn an_unlinked_file_is_readable_until_it_is_closed() {
    run(async {
        let (server, kernel, root) = mount(LONG);
        put(&root, b"file", b"bytes").await;
        let file = root.open(b"file", O_RDWR, 0).await.unwrap();
        root.unlink(b"file").await.unwrap();
        assert_eq!(read(&root, b"file").await, Err(Errno::ENOENT));
        assert_eq!(file.read(0, 100).await.unwrap(), b"bytes");
        assert_eq!(file.stat().await.unwrap().nlink, 0);
        file.close().await.unwrap();
        settle().await;
        kernel.shrink().await;
        assert_eq!(server.lookups(), []);
    });
}

#[test]
fn open_flags_do_what_linux_does() {
    run(async {
        let (_, _, root) = mount(LONG);
        put(&root, b"file", b"bytes").await;
        let open = async |flags| root.open(b"file", flags, 0o666).await;
        assert_eq!(open(O_CREAT | O_EXCL).await.err(), Some(Errno::EEXIST));
        let file = open(O_RDWR | O_APPEND).await.unwrap();
        file.write(0, b"+").await.unwrap();
        file.close().await.unwrap();
        assert_eq!(read(&root, b"file").await.unwrap(), b"bytes+");
        let file = open(O_RDWR | O_DIRECT).await.unwrap();
        file.write(0, b"B").await.unwrap();
        assert_eq!(file.read(0, 3).await.unwrap(), b"Byt");
        file.close().await.unwrap();
        open(O_RDWR | O_TRUNC).await.unwrap();
        assert_eq!(root.stat(b"file").await.unwrap().size, 0);
        root.symlink(b"file", b"link").await.unwrap();
        assert_eq!(root.readlink(b"link").await.unwrap(), b"file");
        assert_eq!(root.lstat(b"link").await.unwrap().size, 4);
        put(&root, b"link", b"through").await;
        assert_eq!(read(&root, b"file").await.unwrap(), b"through");
        let followed = root.open(b"link", libc::O_NOFOLLOW, 0).await;
        assert_eq!(followed.err(), Some(Errno::ELOOP));
    });
}

#[test]
fn a_cached_listing_is_read_again_until_the_directory_changes() {
    run(async {
        let (server, kernel, root) = mount(LONG);
        server.set_directory_flags(OpenReplyFlags::CACHE_DIR | OpenReplyFlags::KEEP_CACHE);
        put(&root, b"a", b"").await;
        let requests = async |names: usize| {
            server.take_requests();
            let listed = root.list(b".").await.unwrap();
            assert_eq!(listed.len(), names);
            let sent = server.take_requests();
            sent.iter()
                .filter(|kind| kind.starts_with("readdir"))
                .count()
        };
        // The second request finds the end.
        assert_eq!(requests(1).await, 2);
        assert_eq!(requests(1).await, 0);
        put(&root, b"b", b"").await;
        assert_eq!(requests(2).await, 2);
        assert_eq!(requests(2).await, 0);
        kernel.inval_inode(NodeId::ROOT, 0).await.unwrap();
        assert_eq!(requests(2).await, 2);
        assert_eq!(requests(2).await, 0);
        kernel.inval_entry(NodeId::ROOT, b"a").await.unwrap();
        assert_eq!(requests(2).await, 2);
    });
}

#[test]
fn a_directory_that_moved_on_the_server_moves_in_the_kernel() {
    run(async {
        let (server, _, root) = mount(LONG);
        let other = Kernel::mount(server.clone(), MountConfig::FLAGS, None).root();
        root.mkdir(b"d", 0o777).await.unwrap();
        root.mkdir(b"d/e", 0o777).await.unwrap();
        let inside = root.enter(b"d/e").await.unwrap();
        other.rename(b"d/e", b"e").await.unwrap();
        assert_eq!(inside.path().unwrap(), b"/d/e");
        assert!(root.stat(b"e").await.unwrap().mode & 0o040_000 != 0);
        assert_eq!(inside.path().unwrap(), b"/e");
        // The old name has no dentry any more.
        assert_eq!(root.stat(b"d/e").await.unwrap_err(), Errno::ENOENT);
    });
}

#[test]
fn exchanged_names_keep_their_dentries() {
    run(async {
        let (server, _, root) = mount(LONG);
        root.mkdir(b"d", 0o777).await.unwrap();
        put(&root, b"file", b"bytes").await;
        let exchange = RenameFlags::Exchange;
        root.rename_with(b"d", b"file", exchange).await.unwrap();
        server.take_requests();
        assert_eq!(root.lstat(b"d").await.unwrap().size, 5);
        assert_eq!(root.enter(b"file").await.unwrap().path().unwrap(), b"/file");
        assert!(!server.take_requests().contains(&"lookup"));
        let absent = root.rename_with(b"d", b"none", exchange).await;
        assert_eq!(absent, Err(Errno::ENOENT));
        let taken = root.rename_with(b"d", b"file", RenameFlags::NoReplace);
        assert_eq!(taken.await, Err(Errno::EEXIST));
    });
}
