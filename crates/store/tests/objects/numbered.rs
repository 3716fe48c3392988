//! Numbered writes: a target executes each of them once, however often it arrives, also over kills and power losses.

use crate::fixture::*;
use gupfs_platform::fake::{CallKind, FakeRandom};
use gupfs_proto::data::{ObjectExistence, ObjectOwner, ObjectStat, WriteNumber};
use gupfs_proto::limits::WRITE_SLOTS;
use gupfs_proto::{FsError, ObjectId, ObjectOffset, SessionId};
use gupfs_store::object::{Objects, OpenErrorKind, WriteRequest};
use std::time::Duration;

const SLOT_FILE: &str = "write_slots";
/// Bytes of its header, and of each entry.
const ENTRY: u64 = 128;

const A: SessionId = SessionId(70);
const B: SessionId = SessionId(71);
const LEN: usize = 10_000;

type Reply = Result<ObjectStat, FsError>;

fn number(slot: u16, number: u64) -> WriteNumber {
    WriteNumber { slot, number }
}

async fn write_numbered(
    objects: &Objects,
    session: SessionId,
    number: WriteNumber,
    id: ObjectId,
    data: &[u8],
) -> Reply {
    let sums = sums_of(0, data, false);
    let write = WriteRequest {
        object: id,
        at: ObjectOffset(0),
        data,
        sums: &sums,
        existing: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    };
    objects.write_numbered(write, session, number).await
}

async fn bytes(objects: &Objects, id: ObjectId) -> Vec<u8> {
    read(objects, id, 0, LEN as u64).await.unwrap()
}

/// A's first and second write of its slot 3, and B's later one of the same bytes.
fn texts() -> [Vec<u8>; 3] {
    [b'0', b'1', b'2'].map(|byte| vec![byte; LEN])
}

#[tokio::test(start_paused = true)]
async fn a_repeated_write_does_not_overwrite_a_later_one() {
    let fixture = Fixture::new(1, true);
    let mut objects = fixture.fresh().await;
    let (id, [_, first, later]) = (object(1), texts());
    let reply = write_numbered(&objects, A, number(3, 1), id, &first).await;
    assert_eq!(reply.as_ref().unwrap().size, LEN as u64);
    fixture.sleep(Duration::from_millis(5)).await;
    // The same slot and number of another session.
    let other = write_numbered(&objects, B, number(3, 1), id, &later).await;
    assert_ne!(other, reply);
    for _ in 0..3 {
        let again = write_numbered(&objects, A, number(3, 1), id, &first).await;
        assert_eq!(again, reply);
        assert!(bytes(&objects, id).await == later);
        let status = objects.status().await;
        assert_eq!((status.write_slots, status.repeated_writes), (2, 1));
        drop(objects);
        fixture.kill();
        objects = fixture.open().await;
    }
    let objects = fixture.reopened(objects).await;
    let again = write_numbered(&objects, A, number(3, 1), id, &first).await;
    assert_eq!(again, reply);
    // The next number of the slot is another write.
    fixture.sleep(Duration::from_millis(5)).await;
    let next = write_numbered(&objects, A, number(3, 2), id, &first).await;
    assert_ne!(next, reply);
    assert!(bytes(&objects, id).await == first);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_no_correct_client_sends_is_refused() {
    let fixture = Fixture::new(2, false);
    let objects = fixture.fresh().await;
    let (id, [before, first, _]) = (object(1), texts());
    write_numbered(&objects, A, number(0, 7), id, &before)
        .await
        .unwrap();
    for (slot, sent) in [(0, 6), (0, 0), (WRITE_SLOTS, 1), (u16::MAX, 1)] {
        let refused = write_numbered(&objects, A, number(slot, sent), id, &first).await;
        assert!(matches!(refused, Err(FsError::Malformed(_))), "{refused:?}");
    }
    assert!(bytes(&objects, id).await == before);
    let last = number(WRITE_SLOTS - 1, 1);
    write_numbered(&objects, A, last, id, &first).await.unwrap();
}

/// As from a session whose id a restored metadata server has given again.
#[tokio::test(start_paused = true)]
async fn another_write_of_a_known_number_is_executed() {
    let fixture = Fixture::new(4, false);
    let objects = fixture.fresh().await;
    let (id, [before, first, later]) = (object(1), texts());
    for text in [&before, &first, &later] {
        let written = write_numbered(&objects, A, number(3, 1), id, text).await;
        written.unwrap();
        assert!(bytes(&objects, id).await == *text);
    }
    let elsewhere = object(2);
    let written = write_numbered(&objects, A, number(3, 1), elsewhere, &later).await;
    written.unwrap();
    assert!(bytes(&objects, elsewhere).await == later);
    assert_eq!(objects.status().await.repeated_writes, 0);
}

#[tokio::test(start_paused = true)]
async fn of_two_executions_at_the_same_time_the_second_waits_and_changes_nothing() {
    for seed in 0..20 {
        let fixture = Fixture::new(seed, true);
        let objects = fixture.fresh().await;
        let (id, [_, first, _]) = (object(1), texts());
        let execute = || write_numbered(&objects, A, number(0, 1), id, &first);
        let (one, two) = tokio::join!(execute(), execute());
        assert!(one.is_ok());
        assert_eq!(one, two);
        assert_eq!(objects.status().await.repeated_writes, 1);
    }
}

/// Kills the target at each call to the disk of a numbered write, lets B overwrite the bytes, and repeats the write.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_kill_interrupted_is_executed_only_if_it_had_not_taken_effect() {
    // Whether the write had taken effect, and the file at which the process died.
    let mut seen = Vec::new();
    for seed in 0..240 {
        let fixture = Fixture::new(seed, false);
        let objects = fixture.fresh().await;
        let (id, [before, first, later]) = (object(1), texts());
        let earlier = write_numbered(&objects, A, number(3, 1), id, &before).await;
        earlier.unwrap();
        fixture.disk.die_at(CallKind::Write, 1 + seed % 4);
        let reply = write_numbered(&objects, A, number(3, 2), id, &first).await;
        if reply.is_ok() {
            continue; // it has fewer calls
        }
        let death = fixture.disk.died().unwrap();
        drop(objects);
        fixture.kill();
        let mut objects = fixture.open().await;
        let took_effect = bytes(&objects, id).await == first;
        assert!(took_effect || bytes(&objects, id).await == before);
        write(&objects, id, 0, &later).await.unwrap();
        if seed % 8 < 4 {
            // What the start has found out must survive a kill, too.
            drop(objects);
            fixture.kill();
            objects = fixture.open().await;
        }
        let again = write_numbered(&objects, A, number(3, 2), id, &first).await;
        assert_eq!(again.unwrap().size, LEN as u64);
        let expected = if took_effect { &later } else { &first };
        assert!(
            bytes(&objects, id).await == *expected,
            "seed {seed}: {death:?}"
        );
        seen.push((took_effect, death.path));
    }
    let count = |took_effect, file: &str| {
        let same =
            |(effect, path): &&(bool, String)| *effect == took_effect && path.starts_with(file);
        seen.iter().filter(same).count()
    };
    let object_file = path_of(object(1));
    assert!(count(false, SLOT_FILE) > 10, "before the bytes");
    assert!(count(false, &object_file) > 10);
    assert!(count(true, &object_file) > 10);
    assert!(count(true, SLOT_FILE) > 10, "after the bytes");
}

/// B syncs its later write; then a power loss must not undo the entry of A's write.
#[tokio::test(start_paused = true)]
async fn after_a_power_loss_a_repeated_write_does_not_overwrite_a_later_synced_one() {
    for seed in 0..80 {
        let fixture = Fixture::new(seed, false);
        let mut objects = fixture.fresh().await;
        let (id, [before, first, later]) = (object(1), texts());
        // An earlier sync of the slot file does not cover the later entry.
        let earlier = write_numbered(&objects, A, number(3, 1), id, &before).await;
        earlier.unwrap();
        sync(&objects, id).await;
        let reply = write_numbered(&objects, A, number(3, 2), id, &first).await;
        if seed % 2 == 0 {
            drop(objects);
            fixture.kill();
            objects = fixture.open().await;
        }
        write(&objects, id, 0, &later).await.unwrap();
        match seed / 2 % 4 {
            0 => sync(&objects, id).await,
            1 => assert_eq!(objects.confirm(&[id]).await, Ok(vec![true])),
            // So many objects that one sync of the file system is cheaper.
            2 => {
                let many: Vec<_> = (1..80).map(object).collect();
                for id in &many[1..] {
                    write(&objects, *id, 0, &before).await.unwrap();
                }
                let syncs = fixture.disk.counters().syncs;
                objects.confirm(&many).await.unwrap();
                assert!(fixture.disk.counters().syncs - syncs < 10);
            }
            _ => {
                // The background flush has synced the bytes before.
                fixture.sleep(Duration::from_secs(60)).await;
                sync(&objects, id).await;
            }
        }
        let verifier = objects.write_verifier();
        drop(objects);
        fixture.lose_power();
        let objects = fixture.open().await;
        assert!(objects.write_verifier() > verifier);
        let again = write_numbered(&objects, A, number(3, 2), id, &first).await;
        assert_eq!(again, reply);
        assert!(bytes(&objects, id).await == later, "seed {seed}");
    }
}

/// The client still has the bytes, so a power loss before the reply loses nothing, as for plain writes.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_power_loss_may_have_undone_is_executed_when_it_is_repeated() {
    for seed in 0..40 {
        let fixture = Fixture::new(seed, false);
        let objects = fixture.fresh().await;
        let (id, another, [before, first, later]) = (object(1), object(2), texts());
        for slot in [3, 4] {
            let earlier = write_numbered(&objects, A, number(slot, 1), id, &before).await;
            earlier.unwrap();
            sync(&objects, id).await;
        }
        write_numbered(&objects, A, number(3, 2), id, &first)
            .await
            .unwrap();
        // The slot file is synced; the object of the write is not.
        let elsewhere = write_numbered(&objects, A, number(4, 2), another, &later).await;
        elsewhere.unwrap();
        sync(&objects, another).await;
        drop(objects);
        fixture.lose_power();
        let objects = fixture.open().await;
        let again = write_numbered(&objects, A, number(3, 2), id, &first).await;
        again.unwrap();
        assert!(bytes(&objects, id).await == first, "seed {seed}");
        sync(&objects, id).await;
        drop(objects);
        fixture.lose_power();
        let objects = fixture.open().await;
        write(&objects, id, 0, &later).await.unwrap();
        let again = write_numbered(&objects, A, number(3, 2), id, &first).await;
        again.unwrap();
        assert!(bytes(&objects, id).await == later, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_without_numbered_writes_has_no_slot_file_and_pays_nothing() {
    let fixture = Fixture::new(5, false);
    let mut objects = fixture.fresh().await;
    let (id, [before, first, later]) = (object(1), texts());
    for id in [id, object(2)] {
        write(&objects, id, 0, &before).await.unwrap();
        sync(&objects, id).await;
    }
    objects = fixture.reopened(objects).await;
    assert!(!fixture.disk.files().contains(&SLOT_FILE.to_string()));
    let syncs_of = async |objects: &Objects, data: &[u8]| {
        write(objects, id, 0, data).await.unwrap();
        let before = fixture.disk.counters().syncs;
        sync(objects, id).await;
        fixture.disk.counters().syncs - before
    };
    sync(&objects, id).await;
    assert_eq!(syncs_of(&objects, &first).await, 1);
    // A numbered write of another object costs this one nothing.
    write_numbered(&objects, A, number(0, 1), object(2), &first)
        .await
        .unwrap();
    assert!(fixture.disk.files().contains(&SLOT_FILE.to_string()));
    assert_eq!(syncs_of(&objects, &later).await, 1);
    // Afterwards neither does.
    assert_eq!(syncs_of(&objects, &first).await, 1);
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_synced_together_share_syncs_of_the_slot_file() {
    const OBJECTS: u16 = 20;
    let fixture = Fixture::new(5, true);
    let objects = fixture.fresh().await;
    let [before, first, _] = texts();
    let all: Vec<_> = (0..u64::from(OBJECTS)).map(object).collect();
    for id in &all {
        write(&objects, *id, 0, &before).await.unwrap();
    }
    objects.sync(&all).await.unwrap();
    for (slot, id) in (0..).zip(&all) {
        let numbered = write_numbered(&objects, A, number(slot, 1), *id, &first).await;
        numbered.unwrap();
    }
    let syncs = fixture.disk.counters().syncs;
    objects.sync(&all).await.unwrap();
    let of_slot_file = fixture.disk.counters().syncs - syncs - u64::from(OBJECTS);
    assert!(
        (1..=OBJECTS / 2).contains(&(of_slot_file as u16)),
        "{of_slot_file}"
    );
    let syncs = fixture.disk.counters().syncs;
    objects.sync(&all).await.unwrap();
    assert_eq!(fixture.disk.counters().syncs, syncs);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_entry_is_left_out_and_the_others_are_remembered() {
    let fixture = Fixture::new(6, false);
    let objects = fixture.fresh().await;
    let (id, other, [_, first, later]) = (object(1), object(2), texts());
    for (slot, id) in [(0, id), (1, other)] {
        write_numbered(&objects, A, number(slot, 1), id, &first)
            .await
            .unwrap();
        write(&objects, id, 0, &later).await.unwrap();
    }
    drop(objects);
    fixture.kill();
    fixture.disk.flip_bit(SLOT_FILE, ENTRY + 20, 3);
    let objects = fixture.open().await;
    assert_eq!(objects.status().await.write_slots, 1);
    for (slot, id, expected) in [(0, id, &first), (1, other, &later)] {
        write_numbered(&objects, A, number(slot, 1), id, &first)
            .await
            .unwrap();
        assert!(bytes(&objects, id).await == *expected, "slot {slot}");
    }
    // A damaged header: the target begins a new file.
    drop(objects);
    fixture.kill();
    fixture.disk.flip_bit(SLOT_FILE, 12, 3);
    let objects = fixture.open().await;
    assert_eq!(objects.status().await.write_slots, 0);
    let reply = write_numbered(&objects, A, number(0, 1), id, &first).await;
    drop(objects);
    fixture.kill();
    let objects = fixture.open().await;
    write(&objects, id, 0, &later).await.unwrap();
    let again = write_numbered(&objects, A, number(0, 1), id, &first).await;
    assert_eq!(again, reply);
    assert!(bytes(&objects, id).await == later);
}

#[tokio::test(start_paused = true)]
async fn a_slot_file_of_a_newer_version_is_refused() {
    let fixture = Fixture::new(7, false);
    let objects = fixture.fresh().await;
    let [_, first, _] = texts();
    write_numbered(&objects, A, number(0, 1), object(1), &first)
        .await
        .unwrap();
    drop(objects);
    fixture.kill();
    fixture.disk.overwrite(SLOT_FILE, 8, &2_u32.to_le_bytes());
    let error = fixture.try_open().await.err().unwrap();
    assert_eq!(error.kind, OpenErrorKind::Newer);
    assert!(error.to_string().contains("write slots"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_entries_of_an_ended_session_are_freed() {
    let fixture = Fixture::new(8, false);
    let objects = fixture.fresh().await;
    let (id, [_, first, later]) = (object(1), texts());
    for session in [A, B] {
        for slot in 0..3 {
            write_numbered(&objects, session, number(slot, 1), id, &first)
                .await
                .unwrap();
        }
    }
    let len = fixture.disk.bytes(SLOT_FILE).len();
    objects.free_write_slots(A);
    assert_eq!(objects.status().await.write_slots, 3);
    let next = SessionId(72);
    for slot in 0..3 {
        write_numbered(&objects, next, number(slot, 1), id, &later)
            .await
            .unwrap();
    }
    assert_eq!(fixture.disk.bytes(SLOT_FILE).len(), len, "used again");
    let again = write_numbered(&objects, B, number(0, 1), id, &first).await;
    again.unwrap();
    assert!(bytes(&objects, id).await == later);
    drop(objects);
    fixture.kill();
    assert_eq!(fixture.open().await.status().await.write_slots, 6);
}

/// One client's slot in the model.
#[derive(Clone, Default)]
struct ModelSlot {
    number: u64,
    data: Vec<u8>,
    /// The object had the bytes at some time.
    took_effect: bool,
    /// The client has no reply, so it may send the write again.
    is_pending: bool,
}

/// Random writes of two clients to the same bytes, with kills at any call, and power losses after syncs.
#[tokio::test(start_paused = true)]
async fn random_numbered_writes_take_effect_once() {
    let mut repeated = 0;
    for seed in 0..60 {
        let fixture = Fixture::new(seed, seed % 2 == 0);
        let random = fixture.platform.random.fork();
        repeated += random_writes(&fixture, &random).await;
    }
    assert!(
        repeated > 300,
        "{repeated} repeated writes had taken effect"
    );
}

async fn random_writes(fixture: &Fixture, random: &FakeRandom) -> u64 {
    let id = object(1);
    let mut objects = fixture.fresh().await;
    let mut slots = vec![ModelSlot::default(); 4];
    let mut content = texts()[0].clone();
    write(&objects, id, 0, &content).await.unwrap();
    let mut repeated = 0;
    for round in 0..60_u64 {
        let is_killed = random.one_in(3);
        if is_killed {
            fixture.disk.die_at(CallKind::Any, 1 + random.below(8));
        }
        let index = random.below(4) as usize;
        let (session, slot) = ([A, B][index / 2], (index % 2) as u16);
        let model = &mut slots[index];
        let repeats = model.is_pending && random.one_in(2);
        if !repeats {
            *model = ModelSlot {
                number: model.number + 1,
                data: pattern(round, 0, LEN as u64),
                took_effect: false,
                is_pending: true,
            };
        }
        let sent = number(slot, model.number);
        let reply = write_numbered(&objects, session, sent, id, &model.data).await;
        let is_ok = reply.is_ok();
        if is_ok {
            repeated += u64::from(model.took_effect);
            if !std::mem::replace(&mut model.took_effect, true) {
                content.clone_from(&model.data);
            }
            // The client gets the reply, or the connection breaks before.
            model.is_pending = random.one_in(2);
        }
        let syncs = is_ok && random.one_in(4);
        let is_synced = syncs && objects.sync(&[id]).await.is_ok();
        if is_killed || random.one_in(6) {
            fixture.disk.kill();
            drop(objects);
            match is_synced {
                true => fixture.lose_power(),
                false => fixture.kill(),
            }
            objects = fixture.open().await;
        }
        let found = bytes(&objects, id).await;
        let model = &mut slots[index];
        if !is_ok && !model.took_effect && found == model.data {
            model.took_effect = true;
            content.clone_from(&model.data);
        }
        assert!(found == content, "round {round}");
    }
    repeated
}
