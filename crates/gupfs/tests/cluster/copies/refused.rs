//! Directories, keys and configurations that do not fit.

use super::copied_cluster::{CopiedCluster, etcd_flags, free_address};
use crate::running::gupfs;
use crate::test_cluster::text;

fn refusal(args: &[&str]) -> String {
    let output = gupfs(args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_does_not_fit_the_copies_is_refused_with_the_reason() {
    let Some(mut cluster) = CopiedCluster::start(0) else {
        return;
    };
    let (key, listen) = (cluster.key(), free_address());
    let etcd = etcd_flags(&cluster.etcd);
    let etcd: Vec<&str> = etcd.iter().map(String::as_str).collect();
    let dir = text(&cluster.servers[2].dir);
    let mds = |more: &[&str]| refusal(&[&["mds"], more, &["--listen", &listen]].concat());
    // A second process, and one that does not know of the copies.
    assert!(mds(&[&[&dir[..]], &etcd[..]].concat()).contains("is in use by process"));
    cluster.servers[2].daemon.kill();
    let why = mds(&[&dir]);
    assert!(
        why.contains("has a copy of metadata that other hosts have, too, and needs etcd"),
        "{why}"
    );
    let why = mds(&[&[&dir[..], "--accept-loss"], &etcd[..]].concat());
    assert!(why.contains("--accept-loss is not possible"), "{why}");
    // Joining.
    let address = cluster.servers[0].address.clone();
    let fresh = text(&cluster.root().join("fresh"));
    let why = mds(&[&fresh, "--join", &address, "--key", &key]);
    assert!(why.contains("--join needs etcd"), "{why}");
    let other_key = cluster.root().join("other.key");
    std::fs::write(&other_key, [7; 32]).unwrap();
    std::fs::set_permissions(
        &other_key,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let other_key = text(&other_key);
    let join = [
        &[&fresh[..], "--join", &address, "--key", &other_key],
        &etcd[..],
    ]
    .concat();
    let why = mds(&join);
    assert!(
        why.contains("cannot reach the metadata server") && why.contains("key"),
        "{why}"
    );
    let foreign = cluster.root().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.txt"), b"mine").unwrap();
    let foreign = text(&foreign);
    let why = mds(&[
        &[&foreign[..], "--join", &address, "--key", &key],
        &etcd[..],
    ]
    .concat());
    assert!(why.contains("thesis.txt"), "{why}");
    // Another cluster's register.
    let lonely = text(&cluster.root().join("lonely"));
    let config = cluster.root().join("mds.toml");
    let prefix = cluster.prefix();
    std::fs::write(&config, format!("[mds]\netcd_prefix = \"{prefix}\"\n")).unwrap();
    let config = text(&config);
    let why = mds(&[&[&lonely[..], "--config", &config], &etcd[..]].concat());
    assert!(why.contains("belongs to cluster"), "{why}");
    let wildcard = [&["mds", &lonely[..], "--listen", "0.0.0.0:0"], &etcd[..]].concat();
    assert!(refusal(&wildcard).contains("other hosts cannot use the address"));
    cluster.servers[2].daemon.start_again();
    cluster.wait_whole();
    cluster.stop();
}

#[test]
fn an_etcd_that_lost_changes_is_refused() {
    let Some(mut cluster) = CopiedCluster::start(0) else {
        return;
    };
    for server in &mut cluster.servers {
        server.daemon.kill();
    }
    assert!(cluster.etcd.ctl(&["del", "--prefix", "gupfs/"], 0));
    let dir = text(&cluster.servers[1].dir);
    let listen = free_address();
    let etcd = etcd_flags(&cluster.etcd);
    let mut args = vec!["mds", &dir, "--listen", &listen];
    args.extend(etcd.iter().map(String::as_str));
    let why = refusal(&args);
    assert!(why.contains("has no register for this cluster"), "{why}");
    let mut force = vec!["mds", "force", &dir, "--accept-loss"];
    force.extend(etcd.iter().map(String::as_str));
    let forced = gupfs(&force);
    assert!(forced.status.success(), "{forced:?}");
    for server in [1, 0, 2] {
        cluster.servers[server].daemon.start_again();
    }
    cluster.wait_whole();
    assert_eq!(cluster.owner(), 1);
    cluster.stop();
}
