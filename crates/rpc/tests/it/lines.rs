//! What a line promises over connections that break.

use crate::house::*;
use gupfs_proto::{InodeId, Refusal, recall};
use gupfs_rpc::*;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn questions_are_answered_beside_each_other() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = Line::open(line_options(&net.host("a"), &platform(2), 20, key(9)));
    assert_eq!(
        line.ready(Duration::from_secs(5)).await.unwrap().role,
        Role::Mds
    );
    let peer: Mds = line.peer();
    let (slow, quick) = tokio::join!(peer.call(request(1, 500)), peer.call(request(2, 0)));
    assert_eq!((quick.seq.0, slow.seq.0), (1, 2));
    assert_eq!(*counting.had.lock(), [2, 1]);
    assert_eq!(line.status().open_questions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_again_after_a_connection_broke() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = Line::open(line_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: Mds = line.peer();
    let asking = tokio::spawn(async move { peer.call(request(5, 300)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    net.reset("a", "mds");
    let answer = asking.await.unwrap();
    assert!(answer.result.is_ok());
    // Heard twice: being done once is the affair of lanes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*counting.had.lock(), [5, 5]);
    assert_eq!(line.status().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_server_that_starts_later() {
    let net = net();
    let line = Line::open(line_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: Mds = line.peer();
    let asking = tokio::spawn(async move { peer.call(request(5, 0)).await });
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(line.status().why_not.unwrap().contains("refused"));
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    assert!(asking.await.unwrap().result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn patience_ends_with_what_was_waited_for() {
    let net = net();
    let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
    options.patience = Some(Duration::from_secs(3));
    let line = Line::open(options);
    let peer: Mds = line.peer();
    let answer = peer.call(request(5, 0)).await;
    let Err(Refusal::TimedOut(what)) = answer.result else {
        panic!("{answer:?}");
    };
    assert!(
        what.contains("the metadata server at mds:1: cannot connect"),
        "{what}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_nobody_tells_of_is_noticed_and_healed() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = Line::open(line_options(&net.host("a"), &platform(2), 20, key(9)));
    line.ready(Duration::from_secs(5)).await.unwrap();
    net.cut("a", "mds");
    let peer: Mds = line.peer();
    let asking = tokio::spawn(async move { peer.call(request(5, 0)).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!line.status().connected);
    net.heal_all();
    let begun = tokio::time::Instant::now();
    assert!(asking.await.unwrap().result.is_ok());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_back_over_the_same_connection() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let holder = Arc::new(Holder(Default::default()));
    let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
    options.hosts = Hosts::none().with(holder.clone());
    let line = Line::open(options);
    let peer: Mds = line.peer();
    assert!(peer.call(request(1, 0)).await.result.is_ok());
    let caller = counting.callers.lock()[0].clone();
    let back: Peer<recall::Request, recall::Reply> = caller.peer();
    let give_back = |ino| recall::Request::GiveBack { ino: InodeId(ino) };
    assert_eq!(back.call(give_back(77)).await, Ok(recall::Answer::Done));
    assert_eq!(*holder.0.lock(), [77]);
    // When he is gone the question ends, instead of waiting for ever.
    drop((line, peer));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ended = back.call(give_back(78)).await;
    assert!(matches!(ended, Err(Refusal::TimedOut(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_open_question_to_somebody_who_vanishes_ends() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = Line::open(line_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: Mds = line.peer();
    assert!(peer.call(request(1, 0)).await.result.is_ok());
    let caller = counting.callers.lock()[0].clone();
    let back: Peer<recall::Request, recall::Reply> = caller.peer();
    net.cut("a", "mds");
    let begun = tokio::time::Instant::now();
    let ended = back.call(recall::Request::Tell { ino: InodeId(1) }).await;
    assert!(matches!(ended, Err(Refusal::TimedOut(_))), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}
