//! A client that is lost together with the owner: others wait for it only where it worked.

use super::copied_cluster::CopiedCluster;
use std::fs;
use std::time::{Duration, Instant};

/// Shorter than the term of a session, and longer than any take-over.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn a_client_that_is_lost_with_the_owner_delays_only_what_it_used() {
    let Some(mut cluster) = CopiedCluster::start(2) else {
        return;
    };
    let [lost, other] = [0, 1].map(|number| cluster.mounts[number].at.clone());
    for (point, name) in [(&lost, "of the lost"), (&other, "of the other")] {
        let dir = point.join(name);
        fs::create_dir(&dir).unwrap();
        for number in 0..50 {
            fs::write(dir.join(format!("f{number}")), b"before").unwrap();
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 50);
    }
    let locked = fs::File::open(other.join("of the other/f1")).unwrap();
    locked.try_lock().unwrap();
    let held = fs::File::open(lost.join("of the lost/f1")).unwrap();
    held.try_lock().unwrap();
    let owner = cluster.owner();
    cluster.servers[owner].daemon.kill();
    cluster.mounts[0].daemon.kill();
    drop(held);
    let begun = Instant::now();
    let dir = other.join("of the other");
    for number in 50..100 {
        fs::write(dir.join(format!("f{number}")), b"after").unwrap();
    }
    fs::rename(dir.join("f2"), dir.join("moved")).unwrap();
    fs::remove_file(dir.join("f3")).unwrap();
    let again = fs::File::open(dir.join("f4")).unwrap();
    again.try_lock().unwrap();
    locked.unlock().unwrap();
    assert!(begun.elapsed() < SOON, "waited {:?}", begun.elapsed());
    // What the lost client had may be read at once, and changes when its session has ended.
    let dir = other.join("of the lost");
    assert_eq!(fs::read(dir.join("f1")).unwrap(), b"before");
    assert!(begun.elapsed() < SOON, "waited {:?}", begun.elapsed());
    fs::write(dir.join("f50"), b"after").unwrap();
    let freed = fs::File::open(dir.join("f1")).unwrap();
    freed.lock().unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 51);
    cluster.servers[owner].daemon.start_again();
    cluster.wait_whole();
    drop((freed, again, locked));
    cluster.mounts.remove(0);
    cluster.stop();
}
