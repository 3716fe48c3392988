//! Power losses and kills at every kind of moment: every change answered as durable survives, every change is whole or absent,
//! no number is given twice, and in the end records and objects fit together.

mod actor;

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use actor::Actor;
use gupfs_namespace::{Inode, InodeBody, ParsedKey, Purge, Record, RecordKey};
use gupfs_platform::fake::{CallKind, FakeRandom};
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, InodeId, ObjectId, Presence, Seq};
use std::collections::BTreeSet;

const ACTORS: usize = 3;

#[derive(Default, Debug)]
struct CrashCounts {
    power_losses: u64,
    kills: u64,
    died: u64,
    unanswered: u64,
    lost: u64,
    resumed_truncates: u64,
    orphans: u64,
    writers: u64,
    torn: u64,
    objects: u64,
}

#[test]
fn crashes_at_any_call_lose_nothing_that_was_promised() {
    let mut counts = CrashCounts::default();
    for seed in 0..60 {
        simulate(run_instances(seed, &mut counts));
    }
    println!("{counts:?}");
    for (what, count) in [
        ("power losses", counts.power_losses),
        ("kills", counts.kills),
        ("deaths while serving", counts.died),
        ("unanswered changes", counts.unanswered),
        ("changes lost before they were durable", counts.lost),
        ("orphans", counts.orphans),
        ("writers", counts.writers),
        ("objects", counts.objects),
    ] {
        assert!(count >= 10, "hardly any {what}: {counts:?}");
    }
}

async fn run_instances(seed: u64, counts: &mut CrashCounts) {
    let random = FakeRandom::new(seed ^ 0x5eed);
    let fixture = Simulated::new(seed);
    let mut actors = first_instance(&fixture).await;
    let mut given = BTreeSet::new();
    let mut only_killed = true; // since the last instance that served
    for _ in 0..5 {
        let platform = fixture.platform();
        if random.one_in(3) {
            // Perhaps during the recovery.
            fixture
                .disk
                .die_at(random_call(&random), 1 + random.below(40));
        }
        let mut durable = None;
        if let Ok(mds) = fixture.start_as(fixture.start_options(&platform)).await {
            let report = mds.recovery();
            counts.orphans += report.orphans_forgotten;
            counts.writers += report.writers;
            counts.resumed_truncates += report.cuts_resumed;
            counts.torn += u64::from(report.log_was_torn);
            if !fixture.disk.is_dead() && random.one_in(2) {
                fixture
                    .disk
                    .die_at(random_call(&random), 1 + random.below(200));
            }
            if only_killed {
                actors.iter_mut().for_each(Actor::forget_before_answered);
            }
            let instance = ServerInstance {
                platform: platform.clone(),
                mds,
            };
            durable = serve(&instance, &mut actors, &random, &mut given, counts).await;
            only_killed |= durable.is_some();
            counts.died += u64::from(fixture.disk.is_dead());
        }
        match random.one_in(3) {
            true => {
                counts.kills += 1;
                fixture.kill(&platform).await;
            }
            false => {
                counts.power_losses += 1;
                only_killed = false;
                if let Some(durable) = durable {
                    for actor in &mut actors {
                        actor.forget_before(durable);
                    }
                }
                fixture.lose_power(&platform).await;
            }
        }
    }
    last_instance(&fixture, &mut actors, counts).await;
}

fn random_call(random: &FakeRandom) -> CallKind {
    [CallKind::Write, CallKind::Sync][random.below(2) as usize]
}

async fn first_instance(fixture: &Simulated) -> Vec<Actor> {
    let instance = fixture.start().await;
    let client = Client::open(&instance.mds).await;
    let mut actors = Vec::new();
    for i in 0..ACTORS {
        let dir = client
            .mkdir(0, InodeId::ROOT, &format!("actor{i}"))
            .await
            .unwrap();
        actors.push(Actor::new(dir, fixture.osts.clone()));
    }
    instance.mds.stop().await.unwrap();
    fixture.kill(&instance.platform).await;
    actors
}

/// The state found must be one of those that the actors expect; then each actor changes its directory for a while. Returns the
/// newest change that was durable at the end, as far as the actors learned.
async fn serve(
    instance: &ServerInstance,
    actors: &mut [Actor],
    random: &FakeRandom,
    given: &mut BTreeSet<InodeId>,
    counts: &mut CrashCounts,
) -> Option<Seq> {
    let client = match open(instance).await {
        Ok(client) => client,
        Err(_) => return None,
    };
    for actor in actors.iter_mut() {
        match actor.match_state(&client).await {
            Some(lost) => counts.lost += lost,
            None => return None, // the server died in the meantime
        }
    }
    let client = &client;
    let mut plays = Vec::new();
    for (slot, actor) in actors.iter_mut().enumerate() {
        let random = random.fork();
        plays.push(async move { actor.play(client, slot as u16, &random).await });
    }
    let [one, two, three] = plays.try_into().ok().expect("three actors");
    let (one, two, three) = tokio::join!(one, two, three);
    let mut durable = Seq(0);
    for played in [one, two, three] {
        counts.unanswered += u64::from(played.unanswered);
        counts.objects += played.objects;
        durable = durable.max(played.durable);
        for ino in played.made {
            assert!(given.insert(ino), "{ino:?} was given twice");
        }
    }
    Some(durable)
}

async fn open(instance: &ServerInstance) -> Result<Client, FsError> {
    let op = MetaOp::OpenSession {
        client: "actors".into(),
    };
    let reply = crate::client::send(&instance.mds, gupfs_proto::SessionId(0), None, op).await;
    match reply.result? {
        MetaReplyBody::Session { session, .. } => Ok(Client::of(&instance.mds, session)),
        other => panic!("{other:?}"),
    }
}

/// Lets all background work finish, and checks whether records and objects fit together.
async fn last_instance(fixture: &Simulated, actors: &mut [Actor], counts: &mut CrashCounts) {
    let instance = fixture.start().await;
    let client = open(&instance).await.unwrap();
    for actor in actors.iter_mut() {
        counts.lost += actor.match_state(&client).await.unwrap();
    }
    client.change(0, MetaOp::CloseSession).await.unwrap();
    let is_over = async || {
        let status = instance.mds.status().await;
        status.purging == Some(0) && status.sweep.left == 0
    };
    while !is_over().await {
        instance
            .platform
            .platform()
            .clock
            .sleep(std::time::Duration::from_millis(100))
            .await;
    }
    instance.mds.stop().await.unwrap();
    fixture.kill(&instance.platform).await;

    let (mut known, mut certain) = (BTreeSet::new(), BTreeSet::new());
    for (key, value) in fixture.check().await {
        match key.parse() {
            Some(ParsedKey::Inode(ino)) => objects_of(&key, ino, &value, &mut known, &mut certain),
            Some(ParsedKey::Purge(_)) => panic!("left: {:?}", Purge::decode(&value)),
            _ => {}
        }
    }
    let there: BTreeSet<ObjectId> = fixture.osts.iter().flat_map(|ost| ost.list()).collect();
    assert_eq!(
        there.difference(&known).next(),
        None,
        "objects that no file has"
    );
    assert_eq!(
        certain.difference(&there).next(),
        None,
        "objects that are lost"
    );
}

fn objects_of(
    key: &RecordKey,
    ino: InodeId,
    value: &bytes::Bytes,
    known: &mut BTreeSet<ObjectId>,
    certain: &mut BTreeSet<ObjectId>,
) {
    let inode = Inode::decode(value).unwrap();
    let InodeBody::File(file) = inode.body else {
        return;
    };
    assert_eq!(file.truncating, None, "{key:?}");
    for (.., object, presence) in file.layout.objects(ino) {
        match presence {
            Presence::Never | Presence::Stale => continue,
            Presence::Maybe => {}
            Presence::Present => assert!(certain.insert(object)),
        }
        known.insert(object);
    }
}
