//! Who is not let in.

use crate::house::*;
use bytes::BytesMut;
use gupfs_platform::Net;
use gupfs_proto::ClusterId;
use gupfs_rpc::*;
use std::io::IoSlice;
use std::time::Duration;

async fn refused(options: LineOptions) -> String {
    let line = Line::open(options);
    let error = line.ready(Duration::from_secs(5)).await.unwrap_err();
    assert!(error.is_for_good(), "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_no_key_and_another_cluster_are_refused_at_once() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let host = net.host("a");
    let wrong = refused(line_options(&host, &platform(2), 20, key(8))).await;
    assert_eq!(
        wrong,
        "it did not prove that it has the key of this cluster"
    );
    let none = refused(line_options(&host, &platform(2), 21, None)).await;
    assert_eq!(
        none,
        "it refused us: this cluster has a key, and none was given"
    );
    let mut foreign = line_options(&host, &platform(2), 22, key(9));
    foreign.cluster = Some(ClusterId(8));
    let foreign = refused(foreign).await;
    assert!(foreign.contains("this is cluster"), "{foreign}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = server.status();
    assert!(status.turned_away >= 2, "{status:?}");
    assert_eq!(status.connections.len(), 0);
    assert_eq!(*counting.had.lock(), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_key_tells_nothing_to_a_server_without() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, None).await;
    let why = refused(line_options(&net.host("a"), &platform(2), 20, key(9))).await;
    assert!(why.contains("it has no key"), "{why}");
}

/// Sends bytes as a stranger and hears what comes back until the end.
async fn hear(net: &Net, said: &[u8]) -> usize {
    let stream = net.connect(AT).await.unwrap();
    if !said.is_empty() {
        stream.try_write(&[IoSlice::new(said)]).unwrap();
    }
    let mut heard = BytesMut::with_capacity(1 << 16);
    loop {
        match stream.read(&mut heard).await {
            Ok(0) | Err(_) => return heard.len(),
            Ok(_) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_handshake_ends_the_connection() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let host = net.host("a");
    for said in [
        &b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"[..],
        &[0; 100],
        &[0xff; 4000],
    ] {
        let begun = tokio::time::Instant::now();
        assert_eq!(hear(&host, said).await, 0);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
    // Somebody who says nothing is not waited for long.
    let begun = tokio::time::Instant::now();
    hear(&host, b"gp").await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(server.status().turned_away >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_enough_clients_says_so_and_lets_others_in() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, None).await;
    let host = net.host("a");
    let line = |who: u128, role: Role| {
        let mut options = line_options(&host, &platform(who as u64), who, None);
        options.me = me(who, role);
        Line::open(options)
    };
    let soon = Duration::from_secs(5);
    let mut clients = Vec::new();
    for who in 0..MOST_CLIENTS as u128 {
        let client = line(20 + who, Role::Client);
        client.ready(soon).await.unwrap();
        clients.push(client);
    }
    let late = line(100, Role::Client);
    let why = late.ready(soon).await.unwrap_err();
    assert!(!why.is_for_good(), "{why}");
    assert!(why.to_string().contains("it has 64 connections"), "{why}");
    for role in [Role::Oss, Role::Visitor] {
        line(110 + role as u128, role).ready(soon).await.unwrap();
    }
    // A client that connects again has its own place, and who waited gets one that is given up.
    let same = line(20, Role::Client);
    drop(clients.remove(0));
    same.ready(soon).await.unwrap();
    drop(same);
    late.ready(soon).await.unwrap();
    assert!(server.status().turned_away > 0);
}

#[tokio::test(start_paused = true)]
async fn strangers_that_say_nothing_keep_nobody_out() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = |host: &str, who: u128, role: Role| {
        let mut options = line_options(&net.host(host), &platform(who as u64), who, key(9));
        options.me = me(who, role);
        Line::open(options)
    };
    let soon = Duration::from_secs(5);
    let known = line("a", 20, Role::Client);
    known.ready(soon).await.unwrap();
    let strangers: Vec<_> = (0..900).map(|_| stay(net.host("stranger"))).collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(server.status().strangers >= 18);
    // Those that were here, whose connection breaks; those that come for the first time; a command.
    net.reset("a", "mds");
    known.ready(soon).await.unwrap();
    line("b", 21, Role::Client).ready(soon).await.unwrap();
    line("a", 22, Role::Visitor).ready(soon).await.unwrap();
    // Even from where the strangers are.
    line("stranger", 23, Role::Client)
        .ready(soon)
        .await
        .unwrap();
    assert!(server.status().turned_away > 0);
    strangers.into_iter().for_each(|stranger| stranger.abort());
}

/// A connection that says nothing, and is made anew when it is ended.
fn stay(net: Net) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            hear(&net, b"").await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_mounts_comes_back_soon_after_a_restart() {
    let net = net();
    let counting = Counting::new(platform(1));
    let first = server(&net.host("mds"), AT, &counting, key(9)).await;
    let host = net.host("a");
    let lines: Vec<_> = (0..MOST_CLIENTS as u128)
        .map(|who| Line::open(line_options(&host, &platform(who as u64), 20 + who, key(9))))
        .collect();
    let soon = Duration::from_secs(5);
    for line in &lines {
        line.ready(soon).await.unwrap();
    }
    drop(first);
    net.kill("mds");
    let _second = server(&net.host("mds"), AT, &counting, key(9)).await;
    for line in &lines {
        line.ready(soon).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn commands_that_look_and_stay_keep_nobody_out() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = |who: u128, role: Role| {
        let host = net.host("a");
        let mut options = line_options(&host, &platform(who as u64), who, key(9));
        options.me = me(who, role);
        Line::open(options)
    };
    let soon = Duration::from_secs(5);
    let others = Capacity::of_clients(MOST_CLIENTS).others;
    let mut visitors = Vec::new();
    for who in 0..2 * others as u128 {
        let visitor = line(100 + who, Role::Visitor);
        visitor.ready(soon).await.unwrap();
        visitors.push(visitor);
    }
    assert!(server.status().connections.len() <= 2 * others);
    line(20, Role::Oss).ready(soon).await.unwrap();
    line(21, Role::Client).ready(soon).await.unwrap();
}
