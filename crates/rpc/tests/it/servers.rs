//! What a server promises: one connection for each process, and no work of a former one after the next has asked.

use crate::house::*;
use gupfs_rpc::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_new_connection_waits_for_the_work_of_the_former() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("oss"), "oss:1", &counting, key(9)).await;
    let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
    (options.to, options.fence) = ("oss:1".into(), true);
    let line = Line::open(options);
    let peer: Mds = line.peer();
    // Given up while the server works on it...
    let slow = tokio::time::timeout(Duration::from_millis(100), peer.call(request(1, 2_000)));
    assert!(slow.await.is_err());
    // ... it takes effect before what is asked next, and never after.
    assert!(peer.call(request(2, 0)).await.result.is_ok());
    assert_eq!(*counting.had.lock(), [1, 2]);
    assert_eq!(line.status().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn without_drain_a_new_connection_asks_at_once() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let line = Line::open(line_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: Mds = line.peer();
    let slow = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call(request(1, 2_000)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    net.reset("a", "mds");
    assert!(peer.call(request(2, 0)).await.result.is_ok());
    assert_eq!(*counting.had.lock(), [2]);
    assert!(slow.await.unwrap().result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_keeps_the_next_connection_out_until_it_does() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("oss"), "oss:1", &counting, key(9)).await;
    let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
    (options.to, options.fence) = ("oss:1".into(), true);
    let line = Line::open(options);
    let peer: Mds = line.peer();
    let stuck = tokio::time::timeout(Duration::from_millis(100), peer.call(request(1, 60_000)));
    assert!(stuck.await.is_err());
    let begun = tokio::time::Instant::now();
    assert!(peer.call(request(2, 0)).await.result.is_ok());
    assert!(
        begun.elapsed() > Duration::from_secs(55),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(*counting.had.lock(), [1, 2]);
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_for_all_is_asked_again_and_answered() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let mut lines = Vec::new();
    let mut asking = Vec::new();
    for who in 0..40 {
        let line = Line::open(line_options(
            &net.host("a"),
            &platform(2),
            100 + who,
            key(9),
        ));
        for job in 0..300 {
            let peer: Mds = line.peer();
            asking.push(tokio::spawn(
                async move { peer.call(request(job, 1_000)).await },
            ));
        }
        lines.push(line);
    }
    for asked in asking {
        assert!(asked.await.unwrap().result.is_ok());
    }
    assert_eq!(counting.had.lock().len(), 40 * 300);
    let status = server.status();
    assert!(status.busy > 0);
    assert_eq!((status.questions, status.connections.len()), (0, 40));
}

/// The second connection gives up before it was let in; the third must wait for the first one's work all the same.
#[tokio::test(start_paused = true)]
async fn whoever_comes_waits_for_the_work_of_all_before_him() {
    let net = net();
    let counting = Counting::new(platform(1));
    let _server = server(&net.host("oss"), "oss:1", &counting, key(9)).await;
    let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
    (options.to, options.fence) = ("oss:1".into(), true);
    let line = Line::open(options);
    let peer: Mds = line.peer();
    let slow = tokio::time::timeout(Duration::from_millis(100), peer.call(request(1, 5_000)));
    assert!(slow.await.is_err());
    let next = tokio::spawn(async move { peer.call(request(2, 0)).await });
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        net.reset("a", "oss");
    }
    assert!(next.await.unwrap().result.is_ok());
    assert_eq!(*counting.had.lock(), [1, 2]);
}
