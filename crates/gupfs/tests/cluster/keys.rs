//! Client keys: what they permit, and what not.

use crate::running::{TIMEOUT, can_mount, gupfs};
use crate::test_cluster::{Daemon, Mounted, TestCluster, text};
use gupfs_platform::{Net, Platform};
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, ClusterRequest};
use gupfs_proto::{FsError, Incarnation};
use gupfs_rpc::{
    AuthKey, ClientConnection, ClientConnectionOptions, ClientKey, ClientKeyId, Handlers,
    LocalIdentity, Role, SendDeadline, ServerAddresses,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes a client key; returns its file.
pub fn make(cluster: &TestCluster, name: &str) -> PathBuf {
    make_with(cluster, name, &[])
}

/// The same, with more arguments.
pub fn make_with(cluster: &TestCluster, name: &str, more: &[&str]) -> PathBuf {
    let file = cluster.root().join(format!("{name}.key"));
    let (store, out) = (text(&cluster.store()), text(&file));
    let args = ["key", "client", name, &store, "--out", &out];
    let made = gupfs([&args[..], more].concat());
    assert!(made.status.success(), "{made:?}");
    file
}

/// Mounts with the key; Err is the reason of a refusal.
pub fn mount(cluster: &mut TestCluster, key: &str, deadline: &str) -> Result<PathBuf, String> {
    let at = cluster.root().join(format!("mnt{}", cluster.mounts.len()));
    if !at.exists() {
        fs::create_dir(&at).unwrap();
    }
    let point = text(&at);
    let args = [
        "mount",
        &cluster.at,
        &point,
        "--key",
        key,
        "--deadline",
        deadline,
    ];
    let daemon = Daemon::try_start(&args)?;
    cluster.mounts.push(Mounted {
        at: at.clone(),
        daemon,
    });
    Ok(at)
}

/// Parses the key file without gupfs.
fn read(file: &PathBuf) -> AuthKey {
    let file: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
    let text = |name: &str| file[name].as_str().unwrap().to_string();
    let of = ClientKeyId {
        name: text("name"),
        number: u64::from_str_radix(&text("number"), 16).unwrap(),
    };
    let hex = text("key");
    let mut secret = [0; 32];
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    }
    ClientKey::new(of, secret).into()
}

fn line(cluster: &TestCluster, key: &AuthKey, role: Role) -> Arc<ClientConnection> {
    let platform = Platform::real();
    ClientConnection::connect(ClientConnectionOptions {
        addresses: ServerAddresses::one(&cluster.at),
        peer_name: "the metadata server".into(),
        net: Net::real(),
        identity: LocalIdentity {
            process_id: u128::from(platform.random.u64()),
            role,
            name: "a host that only mounts".into(),
        },
        platform,
        cluster: None,
        key: Some(key.clone()),
        tls: None,
        request_timeout: Some(Duration::from_secs(30)),
        fence: false,
        handlers: Handlers::none(),
        send_deadline: SendDeadline::none(),
    })
}

/// A cluster with one object server and a root directory that every user can write to: root of hosts with a client key is nobody.
fn town_open_to_all() -> TestCluster {
    let mut cluster = TestCluster::new(1, 1);
    fs::set_permissions(&cluster.mounts[0].at, Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(cluster.mounts.remove(0).daemon.stop(), 0);
    cluster
}

#[test]
fn a_host_with_a_client_key_mounts_and_cannot_act_as_a_server() {
    if !can_mount() {
        return;
    }
    let mut cluster = town_open_to_all();
    let file = make(&cluster, "node7");
    let at = mount(&mut cluster, &text(&file), "5s").unwrap();
    fs::write(at.join("f"), vec![7; 1 << 20]).unwrap();
    assert_eq!(fs::read(at.join("f")).unwrap(), vec![7; 1 << 20]);
    let key = read(&file);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for role in [Role::Oss, Role::Mds] {
            let met = line(&cluster, &key, role).wait_connected(TIMEOUT).await;
            let why = met.unwrap_err().to_string();
            assert!(why.contains("must prove the cluster key"), "{why}");
        }
        for role in [Role::Client, Role::Visitor] {
            let line = line(&cluster, &key, role);
            let here = ClusterRequest::LegacyReport {
                address: "127.0.0.1:1".into(),
                targets: Vec::new(),
            };
            let incarnation = Incarnation(7);
            for question in [here, ClusterRequest::RegisterTarget { incarnation }] {
                let reply: ClusterReply = line.peer().call(question).await;
                assert_eq!(reply, Err(FsError::NotPermitted));
            }
            let reply: ClusterReply = line.peer().call(ClusterRequest::Status).await;
            let Ok(ClusterReplyBody::Status { json, .. }) = reply else {
                panic!("{reply:?}");
            };
            let status: serde_json::Value = serde_json::from_str(&json).unwrap();
            for target in status["mds"]["targets"].as_array().unwrap() {
                assert!(target["incarnation"].is_null() && target["stamp"].is_null());
            }
        }
    });
    // The administrator of the server's host sees them.
    assert!(cluster.status()["mds"]["targets"][0]["incarnation"].is_u64());
    let (dir, file) = (text(&cluster.root().join("new")), text(&file));
    let added = gupfs(["ost", "add", &dir, "--mds", &cluster.at, "--key", &file]);
    assert_eq!(added.status.code(), Some(2), "{added:?}");
    let printed = String::from_utf8_lossy(&added.stderr);
    assert!(
        printed.contains("is the client key of 'node7'"),
        "{printed}"
    );
    cluster.stop();
}

#[test]
fn a_revoked_key_ends_the_mount_and_is_rejected() {
    if !can_mount() {
        return;
    }
    let mut cluster = town_open_to_all();
    let (gone, stays) = (make(&cluster, "node7"), make(&cluster, "node8"));
    let at = mount(&mut cluster, &text(&gone), "5s").unwrap();
    let other = mount(&mut cluster, &text(&stays), "5s").unwrap();
    fs::write(at.join("f"), "before").unwrap();
    let store = text(&cluster.store());
    let sessions =
        |status: &serde_json::Value| status["mds"]["sessions"].as_object().unwrap().len();
    assert_eq!(sessions(&cluster.status()), 2);
    assert!(gupfs(["key", "revoke", "node7", &store]).status.success());
    cluster.wait_until("one session", |status| sessions(status) == 1);
    assert!(fs::write(at.join("f"), "after").is_err());
    let why = mount(&mut cluster, &text(&gone), "5s").unwrap_err();
    assert!(why.contains("client key 'node7': it was revoked"), "{why}");
    // Others are not affected, but that changes of what the mount has read wait until its term is over.
    let begun = Instant::now();
    while let Err(error) = fs::write(other.join("g"), "x") {
        assert!(begun.elapsed() < TIMEOUT, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let begun = Instant::now();
    while fs::read(other.join("f")).unwrap() != b"before" {
        assert!(begun.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(50));
    }
    let list = gupfs(["key", "list", &store]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert_eq!(
        list,
        "node7 · root is nobody · revoked\nnode8 · root is nobody\n"
    );
    fs::remove_file(&gone).unwrap();
    let again = make(&cluster, "node7");
    let _ = mount(&mut cluster, &text(&again), "5s").unwrap();
    // Its last reports reach no server.
    drop(cluster.mounts.remove(0));
    cluster.stop();
}
