//! Targets that are full, damaged or refuse.

use crate::fake::Site;
use crate::user::me;
use gupfs_client::{AllocateHow, ReadHow};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{OstId, Presence, Refusal};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_full_target_makes_the_write_short_and_then_says_so() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    site.ost
        .state
        .lock()
        .refused
        .push(("write", OstId(2), Refusal::NoSpace));
    // The rest of the first component, a unit on ost1, then one on ost2.
    let (border, unit) = (256 << 10, 64 << 10);
    let written = site.try_write(&file, border - unit, 200_000).await;
    assert_eq!(written, Ok(2 * unit));
    let end = border + unit;
    assert_eq!(site.attr(file.ino()).await.size, end);
    site.ost.state.lock().room = Some(0);
    assert_eq!(
        site.try_write(&file, end, 100_000).await,
        Err(Refusal::NoSpace)
    );
    assert_eq!(site.attr(file.ino()).await.size, end);
    assert_eq!(site.read(&file, 0, 10_000).await, [1; 10_000]);
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_write_left_behind_the_end_reads_as_zeros_when_the_file_grows() {
    for grow in 0..3 {
        let site = Site::new(2).await;
        let file = site.create("file").await;
        site.write(&file, 0, &[1; 10_000]).await;
        // The second of three objects fails: the third has bytes, and the file ends before the second.
        site.ost
            .state
            .lock()
            .refused
            .push(("write", OstId(1), Refusal::NoSpace));
        let border = 256 << 10;
        let written = site.try_write(&file, border - 100, 200_000).await;
        assert_eq!(written, Ok(100));
        assert_eq!(site.attr(file.ino()).await.size, border);
        match grow {
            0 => {
                let to = border + 300_000;
                site.client
                    .truncate(&me(), file.ino(), to, true, false)
                    .await
                    .unwrap();
            }
            1 => site.write(&file, border + 299_999, &[0]).await,
            _ => {
                let how = AllocateHow::Allocate { keep_size: false };
                site.client
                    .allocate(&file, how, border + 290_000, 10_000, false)
                    .await
                    .unwrap();
            }
        }
        let read = site.read(&file, border, 1 << 20).await;
        assert_eq!(read.len(), 300_000);
        assert!(read.iter().all(|byte| *byte == 0), "way {grow} to grow");
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_cut_is_not_forgotten_when_the_file_is_closed() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    {
        let mut state = site.ost.state.lock();
        state.refused.push(("write", OstId(1), Refusal::NoSpace));
        state.refused.push(("cut", OstId(2), Refusal::Busy));
    }
    // The server, which is asked to see to it, finds the same.
    for _ in 0..2 {
        let mut state = site.mds.state.lock();
        state.refused.push(("truncate", Refusal::Busy));
    }
    let border = 256 << 10;
    let written = site.try_write(&file, border - 100, 200_000).await;
    assert_eq!(written, Ok(100));
    let (ino, id) = (file.ino(), file.id());
    drop(file);
    assert_eq!(site.client.release(id).await, Err(Refusal::Busy));
    let file = site.open(ino).await;
    let to = border + 300_000;
    let grown = site.client.truncate(&me(), ino, to, true, false).await;
    grown.unwrap();
    let read = site.read(&file, border, 1 << 20).await;
    assert_eq!(read.len(), 300_000);
    assert!(read.iter().all(|byte| *byte == 0));
}

/// Size and time are what a recovery would find, were the client to die now.
#[tokio::test(start_paused = true)]
async fn after_a_failure_the_objects_say_what_was_told() {
    let border = 256 << 10;
    for way in ["write", "append", "allocate", "zero", "within"] {
        let site = Site::new(4).await;
        let file = site.create("file").await;
        site.write(&file, 0, &vec![1; border as usize + 300_000])
            .await;
        let size = site.attr(file.ino()).await.size;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let refuse = |op| {
            let mut state = site.ost.state.lock();
            state.refused.push((op, OstId(1), Refusal::NoSpace));
        };
        let grow = |how| {
            let client = &site.client;
            let file = &file;
            async move { client.allocate(file, how, size, 400_000, false).await }
        };
        let failed = match way {
            "write" => {
                refuse("write");
                site.try_write(&file, size + 10_000, 400_000)
                    .await
                    .map(drop)
            }
            "append" => {
                refuse("write");
                site.try_write(&file, size, 400_000).await.map(drop)
            }
            "allocate" => {
                refuse("allocate");
                grow(AllocateHow::Allocate { keep_size: false }).await
            }
            "zero" => {
                refuse("allocate");
                grow(AllocateHow::Zero { keep_size: false }).await
            }
            _ => {
                refuse("write");
                site.try_write(&file, border, 300_000).await.map(drop)
            }
        };
        let attr = site.attr(file.ino()).await;
        let layout = site.mds.inode(file.ino()).layout;
        let state = site.ost.state.lock();
        for (component, stripe, _, object, _) in layout.objects(file.ino()) {
            let Some(object) = state.objects.get(&object) else {
                continue;
            };
            let most = layout.components[component].object_size(stripe, attr.size);
            let stat = object.stat();
            assert!(
                stat.size <= most,
                "{way} ({failed:?}): {stat:?}, not {most}"
            );
            assert!(stat.mtime <= attr.mtime, "{way} ({failed:?}): {stat:?}");
        }
    }
}

/// The metadata server is asked to cut it, and to remember that if it cannot: then our end does not make it part of the file.
#[tokio::test(start_paused = true)]
async fn what_an_ost_refuses_to_cut_the_metadata_server_is_asked_to_cut() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    {
        let mut state = site.ost.state.lock();
        state.refused.push(("write", OstId(1), Refusal::NoSpace));
        state.refused.push(("cut", OstId(2), Refusal::Busy));
    }
    let border = 256 << 10;
    let refuse = |count| {
        let mut state = site.mds.state.lock();
        for _ in 0..count {
            state.refused.push(("truncate", Refusal::Busy));
        }
    };
    refuse(3);
    let written = site.try_write(&file, border - 100, 200_000).await;
    assert_eq!(written, Ok(100));
    assert_eq!(site.mds.state.lock().refused.len(), 2, "it was asked once");
    // While it is not cut the file does not grow, whoever asks: the server's cut would take what it grew by.
    let grown = site.try_write(&file, border, 10_000).await;
    assert_eq!(grown, Err(Refusal::Busy));
    let how = AllocateHow::Allocate { keep_size: false };
    let grown = site
        .client
        .allocate(&file, how, border, 10_000, false)
        .await;
    assert_eq!(grown, Err(Refusal::Busy));
    assert_eq!(site.mds.state.lock().refused.len(), 0);
    // What is inside can be written.
    site.write(&file, 0, &[2; 10_000]).await;
    assert_eq!(site.attr(file.ino()).await.size, border);
    // Now it is cut, and the file grows.
    site.write(&file, border + 299_999, &[3]).await;
    let read = site.read(&file, border, 1 << 20).await;
    assert_eq!(read.len(), 300_000);
    assert!(read[..299_999].iter().all(|byte| *byte == 0));
    assert_eq!(site.read(&file, 0, 10_000).await, [2; 10_000]);
}

#[tokio::test(start_paused = true)]
async fn a_write_given_up_half_way_leaves_no_bytes_behind_the_end() {
    let site = Site::new(3).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    for polls in 1..40 {
        let mut writing = Box::pin(site.try_write(&file, 10_000, 500_000));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..polls {
            if writing.as_mut().poll(&mut cx).is_ready() {
                break;
            }
        }
        drop(writing);
        let size = site.attr(file.ino()).await.size;
        let to = size + 1_000_000;
        site.client
            .truncate(&me(), file.ino(), to, true, false)
            .await
            .unwrap();
        let read = site.read(&file, size, 1_000_000).await;
        assert!(
            read.iter().all(|byte| *byte == 0),
            "given up after {polls} polls"
        );
        site.client
            .truncate(&me(), file.ino(), 10_000, true, false)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_turned_bit_is_read_again_and_twice_is_damage() {
    let site = Site::new(4).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    site.ost.state.lock().turned = 1;
    assert_eq!(site.read(&file, 0, 10_000).await, [1; 10_000]);
    assert_eq!(site.client.counted().checksum_retries, 1);
    site.ost.state.lock().turned = 2;
    let read = site.client.read(&file, 0, 10_000, ReadHow::default()).await;
    let what = ObjectDamage::Checksum;
    assert!(
        matches!(read, Err(Refusal::ObjectDamaged { what: found, .. }) if found == what),
        "{read:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_is_an_error_and_never_zeros() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    site.client.fsync(&file, false).await.unwrap();
    let lost = |site: &Site| site.ost.state.lock().objects.clear();
    lost(&site);
    let missing = |read| {
        matches!(
            read,
            Err(Refusal::ObjectDamaged {
                what: ObjectDamage::Missing,
                ..
            })
        )
    };
    assert!(missing(
        site.client
            .read(&file, 0, 100, ReadHow::default())
            .await
            .map(|_| ())
    ));
    assert!(missing(site.try_write(&file, 0, 10).await.map(|_| ())));
    // Also for whoever opens it later.
    let ino = file.ino();
    site.close(file).await;
    let again = site.open(ino).await;
    assert!(missing(
        site.client
            .read(&again, 0, 100, ReadHow::default())
            .await
            .map(|_| ())
    ));
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_told_to_each_open_file_once_and_done_again() {
    let site = Site::new(6).await;
    let (one, ino) = {
        let file = site.create("file").await;
        let ino = file.ino();
        (file, ino)
    };
    let two = site.open(ino).await;
    site.write(&one, 0, &[1; 10_000]).await;
    let failed = Refusal::StoreFailed("broken".into());
    site.ost
        .state
        .lock()
        .refused
        .push(("sync", OstId(0), failed.clone()));
    assert_eq!(site.client.fsync(&one, false).await, Err(failed.clone()));
    assert_eq!(site.client.fsync(&one, false).await, Ok(()));
    assert!(
        site.ost
            .state
            .lock()
            .objects
            .values()
            .all(|object| object.synced),
        "synced by the second"
    );
    assert_eq!(site.client.flush(&two), Err(failed));
    assert_eq!(site.client.flush(&two), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_file_whose_end_could_not_be_told_stays_held_and_is_told_at_the_stop() {
    let site = Site::new(7).await;
    let file = site.create("file").await;
    let ino = file.ino();
    site.write(&file, 0, &[1; 10_000]).await;
    let failed = Refusal::StoreFailed("broken".into());
    site.mds
        .state
        .lock()
        .refused
        .push(("end_write", failed.clone()));
    let id = file.id();
    drop(file);
    assert_eq!(site.client.release(id).await, Err(failed));
    assert_eq!(site.attr(ino).await.size, 10_000);
    assert_eq!(site.client.status().held_inodes, 1);
    site.client.stop().await.unwrap();
    let inode = site.mds.inode(ino);
    assert_eq!((inode.attr.size, inode.writers.len()), (10_000, 0));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_cannot_leave_the_inode_stay_in_it() {
    let site = Site::new(8).await;
    let file = site.create("file").await;
    site.write(&file, 0, b"small").await;
    site.client.fsync(&file, false).await.unwrap();
    for step in ["write", "sync"] {
        site.ost
            .state
            .lock()
            .refused
            .push((step, OstId(0), Refusal::NoSpace));
        assert_eq!(
            site.try_write(&file, 5, 10_000).await,
            Err(Refusal::NoSpace)
        );
        assert_eq!(site.read(&file, 0, 100).await, b"small");
        assert_eq!(site.attr(file.ino()).await.size, 5);
    }
    let ino = file.ino();
    site.close(file).await;
    let file = site.open(ino).await;
    assert_eq!(site.read(&file, 0, 100).await, b"small");
    site.write(&file, 5, &[b'x'; 10_000]).await;
    assert_eq!(site.read(&file, 3, 4).await, b"llxx");
    assert_eq!(site.client.counted().spills, 1);
}

#[tokio::test(start_paused = true)]
async fn files_end_where_offsets_do() {
    let site = Site::new(9).await;
    let file = site.create("file").await;
    assert_eq!(site.try_write(&file, FILE_SIZE_MAX - 10, 100).await, Ok(10));
    assert_eq!(
        site.try_write(&file, FILE_SIZE_MAX, 1).await,
        Err(Refusal::TooLarge)
    );
    assert_eq!(site.read(&file, FILE_SIZE_MAX - 3, 100).await, b"xxx");
    let truncated = site
        .client
        .truncate(&me(), file.ino(), FILE_SIZE_MAX + 1, true, false)
        .await;
    assert_eq!(truncated, Err(Refusal::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn a_held_file_does_not_tell_of_objects_that_are_not_durable() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    let ino = file.ino();
    let is_told = || {
        let inode = site.mds.inode(ino);
        let mut objects = inode.layout.objects(ino);
        objects.any(|(.., presence)| presence == Presence::Present)
    };
    site.write(&file, 0, &[1; 100_000]).await;
    site.client
        .truncate(&me(), ino, 200_000, true, false)
        .await
        .unwrap();
    // A power cut now may take the object; its record must not call that a loss.
    assert!(!is_told());
    site.client.fsync(&file, false).await.unwrap();
    site.close(file).await;
    assert!(is_told());
}

#[tokio::test(start_paused = true)]
async fn a_file_closed_without_a_sync_leaves_its_objects_in_doubt() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    let ino = file.ino();
    site.write(&file, 0, &[1; 100_000]).await;
    site.close(file).await;
    let layout = site.mds.inode(ino).layout.clone();
    let presence: Vec<Presence> = layout.objects(ino).map(|(.., presence)| presence).collect();
    assert!(presence.contains(&Presence::Maybe) && !presence.contains(&Presence::Present));
    // A sync of the file, opened again, is a reason to say so.
    let again = site.open(ino).await;
    site.client.fsync(&again, false).await.unwrap();
    site.write(&again, 0, &[2; 10]).await;
    site.client.fsync(&again, false).await.unwrap();
    site.close(again).await;
    let layout = site.mds.inode(ino).layout.clone();
    let presence: Vec<Presence> = layout.objects(ino).map(|(.., presence)| presence).collect();
    assert!(presence.contains(&Presence::Present));
}

#[tokio::test(start_paused = true)]
async fn who_syncs_while_another_does_waits_for_it() {
    let site = Site::new(6).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 100_000]).await;
    site.ost.state.lock().slow_sync = Duration::from_secs(5);
    let begun = tokio::time::Instant::now();
    let one = site.client.fsync(&file, true);
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let synced = site.client.fsync(&file, true).await;
        assert!(begun.elapsed() >= Duration::from_secs(5));
        synced
    };
    let (one, other) = tokio::join!(one, other);
    one.unwrap();
    other.unwrap();
}

fn is_lost(result: &Result<(), Refusal>) -> bool {
    let what = match result {
        Err(Refusal::ObjectDamaged { what, .. }) => *what,
        _ => return false,
    };
    what == ObjectDamage::Unsynced
}

#[tokio::test(start_paused = true)]
async fn fsync_tells_each_open_file_once_that_a_target_lost_power_since_the_write() {
    let site = Site::new(6).await;
    let one = site.create("file").await;
    let two = site.open(one.ino()).await;
    site.write(&one, 0, &[1; 100_000]).await;
    site.client.fsync(&one, false).await.unwrap();
    site.ost.lose_power();
    // Nothing was written since the sync: nothing is lost.
    site.client.fsync(&one, false).await.unwrap();

    site.write(&one, 300_000, &[2; 100_000]).await;
    site.ost.lose_power();
    site.write(&one, 400_000, &[3; 10]).await; // and what came after does not hide it
    assert!(is_lost(&site.client.fsync(&one, true).await));
    site.client.fsync(&one, true).await.unwrap();
    assert!(is_lost(&site.client.flush(&two)));
    site.client.flush(&two).unwrap();

    // The file can be used: what is lost reads as zeros, and is written again.
    assert_eq!(site.read(&two, 0, 100_000).await, [1; 100_000]);
    assert_eq!(site.read(&two, 300_000, 10).await, [0; 10]);
    site.write(&one, 300_000, &[2; 100_000]).await;
    site.client.fsync(&one, false).await.unwrap();
    site.ost.lose_power();
    site.client.fsync(&one, false).await.unwrap();
    assert_eq!(site.read(&two, 300_000, 100_000).await, [2; 100_000]);
}

#[tokio::test(start_paused = true)]
async fn a_loss_from_before_the_close_is_told_to_who_opens_the_file_and_syncs_it_or_syncs_all() {
    for syncs_all in [false, true] {
        let site = Site::new(6).await;
        let file = site.create("file").await;
        let ino = file.ino();
        site.write(&file, 0, &[1; 100_000]).await;
        site.close(file).await;
        site.ost.lose_power();
        if syncs_all {
            assert!(is_lost(&site.client.sync_all().await));
        } else {
            let again = site.open(ino).await;
            // A sync that fails for another reason does not forget it.
            let refused = ("sync", OstId(0), Refusal::StoreFailed("broken".into()));
            site.ost.state.lock().refused.push(refused);
            assert!(site.client.fsync(&again, false).await.is_err());
            assert!(is_lost(&site.client.fsync(&again, false).await));
            site.client.fsync(&again, false).await.unwrap();
        }
        site.client.sync_all().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_a_target_lost_on_their_way_out_of_the_inode_are_written_again() {
    let site = Site::new(8).await;
    let file = site.create("file").await;
    site.write(&file, 0, b"small").await;
    site.client.fsync(&file, false).await.unwrap();
    site.ost.state.lock().loses_power_before_sync = true;
    site.write(&file, 100_000, b"far").await;
    site.client.fsync(&file, false).await.unwrap();
    site.ost.lose_power();
    assert_eq!(site.read(&file, 0, 5).await, b"small");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_went_along_with_the_inodes_bytes_and_failed_leaves_the_file_as_it_was() {
    for fails in ["spilled", "write"] {
        let site = Site::new(2).await;
        let file = site.create("file").await;
        site.write(&file, 0, b"small").await;
        let refusal = Refusal::NoSpace;
        match fails {
            "spilled" => (site.mds.state.lock().refused).push(("spilled", refusal.clone())),
            _ => (site.ost.state.lock().refused).push(("write", OstId(0), refusal.clone())),
        }
        assert_eq!(site.try_write(&file, 5, 10_000).await, Err(refusal));
        assert_eq!(site.attr(file.ino()).await.size, 5);
        assert_eq!(site.read(&file, 0, 100).await, b"small");
        // What the objects got of it comes never to light.
        site.write(&file, 5, b"er").await;
        site.client
            .truncate(&me(), file.ino(), 20_000, true, false)
            .await
            .unwrap();
        let read = site.read(&file, 0, 20_000).await;
        assert_eq!((read.len(), &read[..7]), (20_000, &b"smaller"[..]));
        assert!(read[7..].iter().all(|byte| *byte == 0), "{fails}");
    }
}
