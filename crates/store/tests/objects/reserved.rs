//! Reserved space: on a full disk there is still space for the writes of the session that has reserved it.

use crate::fixture::{Fixture, object, sums_of, write};
use gupfs_proto::data::{ObjectExistence, ObjectOwner, ObjectStat, SpaceReservation};
use gupfs_proto::limits::REGION;
use gupfs_proto::{FsError, ObjectId, ObjectOffset, SessionId};
use gupfs_store::object::{AllocateRequest, Objects, WriteRequest};
use std::time::Duration;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

/// A target on a disk of 64 MiB.
async fn small_target(seed: u64) -> (Fixture, Objects) {
    let fixture = Fixture::new(seed, false);
    let objects = fixture.fresh().await;
    fixture.disk.set_capacity(64 << 20);
    (fixture, objects)
}

async fn write_reserved(
    objects: &Objects,
    session: SessionId,
    id: ObjectId,
    at: u64,
    data: &[u8],
) -> Result<(ObjectStat, SpaceReservation), FsError> {
    let sums = sums_of(at, data, false);
    let write = WriteRequest {
        object: id,
        at: ObjectOffset(at),
        data,
        sums: &sums,
        existing: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    };
    objects.write_reserved(write, session).await
}

/// Writes to the object until there is no space left; returns where.
async fn fill(objects: &Objects, id: ObjectId) -> u64 {
    let (mut at, mut len) = (0, REGION);
    while len >= 4096 {
        match write(objects, id, at, &vec![7; len as usize]).await {
            Ok(_) => at += len,
            Err(refused) => {
                assert_eq!(refused, FsError::NoSpace);
                len /= 2;
            }
        }
    }
    at
}

async fn allocate(objects: &Objects, id: ObjectId, len: u64) -> Result<(), FsError> {
    let allocate = AllocateRequest {
        object: id,
        at: ObjectOffset(0),
        len,
        keep_size: false,
        existing: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    };
    objects.allocate(allocate).await.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_there_when_other_writers_have_filled_the_disk() {
    let (_fixture, objects) = small_target(1).await;
    let before = objects.space().await.unwrap().available;
    let reserved = objects.reserve(A, 4 << 20).await.unwrap().bytes;
    assert_eq!(reserved, 4 << 20);
    let filled = fill(&objects, object(1)).await;
    let left = objects.space().await.unwrap().available;
    assert!(
        left >= reserved,
        "{filled} of {before} bytes were written, {left} are left"
    );
    // Nothing else gets it: no allocation, no session without a reservation, no write of its own session that does not name it.
    assert_eq!(
        allocate(&objects, object(2), 8192).await,
        Err(FsError::NoSpace)
    );
    let refused = write_reserved(&objects, B, object(2), 0, &[1; 8192]).await;
    assert_eq!(refused.unwrap_err(), FsError::NoSpace);
    let refused = write(&objects, object(2), 0, &[1; 8192]).await;
    assert_eq!(refused.unwrap_err(), FsError::NoSpace);
    let mut at = 0;
    while at < reserved {
        let written = write_reserved(&objects, A, object(3), at, &[2; 1 << 16]).await;
        at += 1 << 16;
        let (stat, left) = written.unwrap();
        assert_eq!((stat.size, left.bytes), (at, reserved - at));
    }
    let refused = write_reserved(&objects, A, object(3), at, &[2; 8192]).await;
    assert_eq!(refused.unwrap_err(), FsError::NoSpace);
    let status = objects.status().await;
    assert_eq!((status.reserved_bytes, status.reserving_sessions), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn holes_that_zeroing_allocates_do_not_take_reserved_space() {
    let (_fixture, objects) = small_target(2).await;
    // 40 MiB with one byte.
    write(&objects, object(1), (40 << 20) - 1, b"x")
        .await
        .unwrap();
    objects.reserve(A, 4 << 20).await.unwrap();
    fill(&objects, object(2)).await;
    let at = ObjectOffset(0);
    let zeroed = objects.zero(object(1), at, 1 << 20, false).await;
    assert_eq!(zeroed.unwrap_err(), FsError::NoSpace);
    let punched = objects.zero(object(1), at, 1 << 20, true).await;
    punched.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_after_its_term_with_its_session_and_at_a_restart() {
    let (fixture, objects) = small_target(3).await;
    let first = objects.reserve(A, 4 << 20).await.unwrap();
    objects.reserve(B, 4 << 20).await.unwrap();
    fill(&objects, object(1)).await;
    objects.free_reservation(A);
    write(&objects, object(2), 0, &vec![1; 3 << 20])
        .await
        .unwrap();
    let refused = write(&objects, object(3), 0, &vec![1; 3 << 20]).await;
    assert_eq!(refused.unwrap_err(), FsError::NoSpace);
    fixture.sleep(Duration::from_secs(10)).await;
    write(&objects, object(3), 0, &vec![1; 3 << 20])
        .await
        .unwrap();
    objects.remove(object(1)).await.unwrap();
    let former = objects.reserve(A, 4 << 20).await.unwrap();
    assert_eq!(former.instance, first.instance);
    assert!(former.number > first.number);
    let objects = fixture.reopened(objects).await;
    assert_eq!(objects.status().await.reserved_bytes, 0);
    let now = objects.reserve(A, 4 << 20).await.unwrap();
    assert_ne!(now.instance, first.instance);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_have_their_space_take_none_of_the_reservation() {
    let (_fixture, objects) = small_target(4).await;
    write(&objects, object(1), 0, &[1; 1 << 16]).await.unwrap();
    objects.reserve(A, 1 << 20).await.unwrap();
    fill(&objects, object(2)).await;
    let (_, left) = write_reserved(&objects, A, object(1), 4096, &[2; 8192])
        .await
        .unwrap();
    assert_eq!(left.bytes, 1 << 20);
}
