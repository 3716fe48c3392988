//! Which roles and options each kind of key proves.

use crate::fixture::*;
use gupfs_platform::Net;
use gupfs_rpc::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A list of client keys.
struct Listed(BTreeMap<ClientKeyId, ClientKeyOptions>);

impl ClientKeyList for Listed {
    fn find(&self, key: &ClientKeyId) -> Result<ClientKeyOptions, String> {
        self.0
            .get(key)
            .copied()
            .ok_or_else(|| "it was revoked".into())
    }
}

fn name(name: &str, number: u64) -> ClientKeyId {
    let name = name.to_string();
    ClientKeyId { name, number }
}

fn cluster_key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

fn derived(of: ClientKeyId) -> AuthKey {
    ClientKey::derive(&cluster_key(), of).into()
}

async fn server(net: &Net) -> RpcServer {
    let counting = CountingServer::new(platform(1));
    let root = ClientKeyOptions { root: true };
    let listed = [
        (name("node7", 1), ClientKeyOptions::default()),
        (name("admin", 2), root),
    ];
    let options = RpcServerOptions {
        platform: counting.platform.clone(),
        identity: identity(1, Role::Mds),
        cluster: CLUSTER,
        key: Some(cluster_key()),
        client_keys: Arc::new(Listed(listed.into())),
        tls: None,
        handlers: Handlers::none().with_peer_handler(counting.clone()),
        observer: Arc::new(NoObserver),
        capacity: Capacity::for_clients(CLIENTS_MAX),
        admission: Arc::new(AdmitAll),
        send_deadline: SendDeadline::none(),
    };
    RpcServer::start(net.listen(ADDRESS).await.unwrap(), options)
}

fn connection(
    net: &Net,
    process_id: u128,
    role: Role,
    key: Option<AuthKey>,
) -> Arc<ClientConnection> {
    let mut options = connection_options(net, &platform(2), process_id, None);
    options.identity = identity(process_id, role);
    options.key = key;
    ClientConnection::connect(options)
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_key_proves_only_its_roles() {
    let net = net();
    let server = server(&net.host("mds")).await;
    let connect = async |process_id: u128, role, key: AuthKey| {
        let connection = connection(&net.host("a"), process_id, role, Some(key));
        let outcome = connection.wait_connected(Duration::from_secs(5)).await;
        outcome
            .map(|_| {
                let peers = server.peers();
                let peer = peers
                    .iter()
                    .find(|peer| peer.identity().name == identity(process_id, role).name);
                peer.unwrap().identity().key.clone()
            })
            .map_err(|error| {
                assert!(error.is_permanent(), "{error}");
                error.to_string()
            })
    };
    for (process_id, role) in [
        (20, Role::Client),
        (21, Role::Mds),
        (22, Role::Oss),
        (23, Role::Visitor),
    ] {
        let kind = connect(process_id, role, cluster_key().into())
            .await
            .unwrap();
        assert_eq!(kind, ProvenKey::Cluster);
        assert!(kind.is_root_trusted());
    }
    for (process_id, role) in [(30, Role::Client), (31, Role::Visitor)] {
        let kind = connect(process_id, role, derived(name("node7", 1)))
            .await
            .unwrap();
        assert_eq!((kind.name(), kind.is_root_trusted()), ("node7", false));
    }
    let kind = connect(32, Role::Client, derived(name("admin", 2)))
        .await
        .unwrap();
    assert_eq!((kind.name(), kind.is_root_trusted()), ("admin", true));
    for (process_id, role) in [(40, Role::Mds), (41, Role::Oss)] {
        let why = connect(process_id, role, derived(name("node7", 1)))
            .await
            .unwrap_err();
        assert!(why.contains("must prove the cluster key"), "{why}");
    }
    // This key is not listed: its number differs from the listed one.
    let why = connect(50, Role::Client, derived(name("node7", 2)))
        .await
        .unwrap_err();
    assert!(why.contains("client key 'node7': it was revoked"), "{why}");
    // A foreign secret under a listed name: the client rejects the server, which proves another secret.
    let foreign = ClientKey::new(name("node7", 1), [1; 32]);
    let why = connect(51, Role::Client, foreign.into()).await.unwrap_err();
    assert!(why.contains("did not prove"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_claims_another_hosts_process_id_does_not_replace_its_connection() {
    let net = net();
    let server = server(&net.host("mds")).await;
    let first = connection(
        &net.host("a"),
        20,
        Role::Client,
        Some(derived(name("node7", 1))),
    );
    first.wait_connected(Duration::from_secs(5)).await.unwrap();
    let second = connection(
        &net.host("b"),
        20,
        Role::Client,
        Some(derived(name("admin", 2))),
    );
    second.wait_connected(Duration::from_secs(5)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.status().connections.len(), 2);
    assert_eq!(
        (first.status().connections, second.status().connections),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_role_must_not_send_is_refused() {
    let net = net();
    let server = server(&net.host("mds")).await;
    for (process_id, role) in [(20, Role::Client), (21, Role::Oss), (22, Role::Visitor)] {
        let connection = connection(&net.host("a"), process_id, role, Some(cluster_key().into()));
        let mds: MdsPeer = connection.peer();
        let result = mds.call(request(1, 0)).await.result;
        match role {
            Role::Client => assert!(result.is_ok(), "{result:?}"),
            _ => assert_eq!(result, Err(gupfs_proto::FsError::NotPermitted)),
        }
    }
    // The refused requests closed no connection.
    assert_eq!(server.status().protocol_errors, 0);
}

/// The address of a connection has no influence: see `ProvenKey::is_root_trusted`.
#[test]
fn only_the_key_decides_whether_root_is_trusted() {
    let of = name("a", 1);
    let client = |root| ProvenKey::Client {
        id: of.clone(),
        options: ClientKeyOptions { root },
    };
    assert!(ProvenKey::Cluster.is_root_trusted() && client(true).is_root_trusted());
    for kind in [
        ProvenKey::None,
        ProvenKey::ClusterWithoutRole,
        client(false),
    ] {
        assert!(!kind.is_root_trusted(), "{kind:?}");
    }
}
