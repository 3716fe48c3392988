//! Which key lets in whom, and as what.

use crate::house::*;
use gupfs_platform::Net;
use gupfs_rpc::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A list of client keys.
struct Listed(BTreeMap<ClientName, ClientOptions>);

impl ClientKeys for Listed {
    fn find(&self, key: &ClientName) -> Result<ClientOptions, String> {
        self.0
            .get(key)
            .copied()
            .ok_or_else(|| "it was revoked".into())
    }
}

fn name(name: &str, number: u64) -> ClientName {
    let name = name.to_string();
    ClientName { name, number }
}

fn cluster_key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

fn derived(of: ClientName) -> Key {
    ClientKey::derive(&cluster_key(), of).into()
}

async fn server(net: &Net) -> Server {
    let counting = Counting::new(platform(1));
    let root = ClientOptions { root: true };
    let listed = [
        (name("node7", 1), ClientOptions::default()),
        (name("admin", 2), root),
    ];
    let options = ServerOptions {
        platform: counting.platform.clone(),
        me: me(1, Role::Mds),
        cluster: CLUSTER,
        key: Some(cluster_key()),
        clients: Arc::new(Listed(listed.into())),
        tls: None,
        hosts: Hosts::none().with_host(counting.clone()),
        attend: Arc::new(Unattended),
        capacity: Capacity::of_clients(MOST_CLIENTS),
    };
    Server::start(net.listen(AT).await.unwrap(), options)
}

fn line(net: &Net, who: u128, role: Role, key: Option<Key>) -> Arc<Line> {
    let mut options = line_options(net, &platform(2), who, None);
    options.me = me(who, role);
    options.key = key;
    Line::open(options)
}

#[tokio::test(start_paused = true)]
async fn a_key_proves_the_roles_that_it_is_for() {
    let net = net();
    let server = server(&net.host("mds")).await;
    let enters = async |who: u128, role, key: Key| {
        let line = line(&net.host("a"), who, role, Some(key));
        let met = line.ready(Duration::from_secs(5)).await;
        met.map(|_| {
            let callers = server.callers();
            let caller = callers
                .iter()
                .find(|caller| caller.met().name == me(who, role).name);
            caller.unwrap().met().key.clone()
        })
        .map_err(|error| {
            assert!(error.is_for_good(), "{error}");
            error.to_string()
        })
    };
    for (who, role) in [
        (20, Role::Client),
        (21, Role::Mds),
        (22, Role::Oss),
        (23, Role::Visitor),
    ] {
        let kind = enters(who, role, cluster_key().into()).await.unwrap();
        assert_eq!(kind, KeyKind::Cluster);
        assert!(kind.root_counts());
    }
    for (who, role) in [(30, Role::Client), (31, Role::Visitor)] {
        let kind = enters(who, role, derived(name("node7", 1))).await.unwrap();
        assert_eq!((kind.name(), kind.root_counts()), ("node7", false));
    }
    let kind = enters(32, Role::Client, derived(name("admin", 2)))
        .await
        .unwrap();
    assert_eq!((kind.name(), kind.root_counts()), ("admin", true));
    for (who, role) in [(40, Role::Mds), (41, Role::Oss)] {
        let why = enters(who, role, derived(name("node7", 1)))
            .await
            .unwrap_err();
        assert!(why.contains("a server proves the cluster's key"), "{why}");
    }
    // Not listed: the number differs from the listed one.
    let why = enters(50, Role::Client, derived(name("node7", 2)))
        .await
        .unwrap_err();
    assert!(why.contains("client key 'node7': it was revoked"), "{why}");
    // Another's secret under a listed name. It leaves a server that does not prove the same one.
    let foreign = ClientKey::new(name("node7", 1), [1; 32]);
    let why = enters(51, Role::Client, foreign.into()).await.unwrap_err();
    assert!(why.contains("did not prove"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_host_does_not_take_the_connection_of_another_by_claiming_its_number() {
    let net = net();
    let server = server(&net.host("mds")).await;
    let first = line(
        &net.host("a"),
        20,
        Role::Client,
        Some(derived(name("node7", 1))),
    );
    first.ready(Duration::from_secs(5)).await.unwrap();
    let second = line(
        &net.host("b"),
        20,
        Role::Client,
        Some(derived(name("admin", 2))),
    );
    second.ready(Duration::from_secs(5)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.status().connections.len(), 2);
    assert_eq!(
        (first.status().connections, second.status().connections),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_of_another_role_is_refused() {
    let net = net();
    let server = server(&net.host("mds")).await;
    for (who, role) in [(20, Role::Client), (21, Role::Oss), (22, Role::Visitor)] {
        let line = line(&net.host("a"), who, role, Some(cluster_key().into()));
        let mds: Mds = line.peer();
        let result = mds.call(request(1, 0)).await.result;
        match role {
            Role::Client => assert!(result.is_ok(), "{result:?}"),
            _ => assert_eq!(result, Err(gupfs_proto::Refusal::NotPermitted)),
        }
    }
    // A refusal ends nothing.
    assert_eq!(server.status().misspoken, 0);
}

/// The address from which a connection comes decides nothing: see `KeyKind::root_counts`.
#[test]
fn root_counts_by_the_key_alone() {
    let of = name("a", 1);
    let client = |root| KeyKind::Client {
        of: of.clone(),
        options: ClientOptions { root },
    };
    assert!(KeyKind::Cluster.root_counts() && client(true).root_counts());
    for kind in [KeyKind::None, KeyKind::Former, client(false)] {
        assert!(!kind.root_counts(), "{kind:?}");
    }
}
