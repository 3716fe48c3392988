//! The POSIX suite on a mount of a cluster, where the kernel caches nothing.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use gupfs_conform::{Exception, Filter, run};

/// The groups of the suite that run by default: the others take long without caches, and run in other tests.
fn filter() -> Filter {
    match std::env::var("GUPFS_POSIX_WHOLE") {
        Ok(_) => Filter::default(),
        Err(_) => Filter {
            only: [
                "access",
                "acl",
                "chmod",
                "chown",
                "create",
                "fifo",
                "flags",
                "group",
                "inotify",
                "link",
                "mkdir",
                "open/",
                "path",
                "rename",
                "rmdir",
                "setgid",
                "setuid",
                "socket",
                "sticky",
                "umask",
                "unlink",
                "utimensat",
                "xattr",
            ]
            .map(String::from)
            .to_vec(),
            ..Filter::default()
        },
    }
}

fn passes(flags: &[&str], filter: &Filter) {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let mount = cluster.mount_with(flags);
    let report = run(&mount, filter).unwrap();
    println!("{report}");
    let failed: Vec<&str> = report.failures().map(|tried| tried.name.as_str()).collect();
    assert!(
        failed.is_empty(),
        "{} checks failed: {failed:#?}",
        failed.len()
    );
    cluster.stop();
}

#[test]
fn a_mount_of_a_cluster_conforms_to_posix() {
    passes(&[], &filter());
}

#[test]
fn with_permissions_of_servers_only_requests_that_do_not_reach_them_are_unchecked() {
    let unchecked = [
        "fifo/permissions-bind-opening",
        "inotify/watching-needs-read-permission",
        "path/dot-needs-search-permission",
        "socket/connecting-needs-write-permission",
    ];
    let mut filter = filter();
    let exception = |name| Exception::new(name, "no request reaches a server");
    filter.exceptions = unchecked.map(exception).to_vec();
    passes(&["--permissions", "servers"], &filter);
}
